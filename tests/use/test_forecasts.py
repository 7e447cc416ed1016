"""The simulator behind forecasts, and forecasts against the true system."""

import dataclasses
import importlib.util
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import ndde_jax as ndde
from ndde_jax.use import _simulate
from ndde_jax.use._backtest import RIVALS, RivalTask
from ndde_jax.use._forecast import path_quantile
from ndde_jax.use._one_step import step_rows
from ndde_jax.use._simulate import make_steps, no_change, simulate

from .small import DT, HORIZON, KEY, LAGS, NAMES, SIGMA, TRUTH, discovery, linear_path, respond


@pytest.mark.slow
def test_the_simulator_is_heuns_method(found):
    past, rng = np.array(LAGS), np.random.default_rng(0)
    steps = make_steps(found, found.resample(), no_change(5, 3), [3, 17], LAGS[-1] + 1)
    history = rng.normal(size=(LAGS[-1] + 1, 2, 3)) * 0.3
    noise = jnp.asarray(rng.normal(size=(5, 2, 3)))
    got, diverged, after = simulate(steps, history, noise)
    assert not diverged.any()
    x = list(history)
    for k in range(5):
        drift = lambda x: np.asarray(  # noqa: E731
            steps.members.each(jnp.stack([jnp.asarray(x[-1 - lag]) for lag in past], axis=1))
        )
        first = drift(x)
        guess = x[-1] + DT * first
        second = drift([*x, guess])
        x.append(x[-1] + DT / 2 * (first + second) + noise[k] @ np.asarray(steps.factor).T)
    np.testing.assert_allclose(got, np.stack(x[-5:]), rtol=1e-9)
    np.testing.assert_allclose(after, np.stack(x[-LAGS[-1] - 1 :]), rtol=1e-9)


def test_the_noise_of_a_step_is_that_of_the_system(found):
    covariance = found.resample().noise.covariance / DT
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), SIGMA, rtol=0.2)


@pytest.mark.slow
def test_a_run_in_parts_is_the_run_in_one(found, monkeypatch, capsys):
    """Known noise: one row, so that parts draw the same."""
    members = found.resample(resamples=2)
    noise = dataclasses.replace(members.noise, draws=members.noise.draws[:1])
    members = dataclasses.replace(members, noise=noise)
    given = dict(paths=4, key=KEY, ensemble=members)
    whole = found.forecast(25, **given)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(_simulate, "PART", 10)
    monkeypatch.setattr(_simulate, "MANY", 99)
    parts = found.forecast(25, **given)
    np.testing.assert_allclose(parts.paths, whole.paths, rtol=1e-12)
    said = capsys.readouterr().err
    assert "25 steps of 4 paths take 2.4e-06 GB" in said and "25.0/25.0" in said
    change = {"sun": np.linspace(0, 1, 25)}
    held = found.intervene(change, horizon=25, start=5, **given)
    monkeypatch.setattr(_simulate, "PART", 100)
    in_one = found.intervene(change, horizon=25, start=5, **given)
    np.testing.assert_allclose(held.changed, in_one.changed, rtol=1e-12)


def test_a_forecast_beyond_the_memory_is_refused_before_it_begins(found):
    with pytest.raises(ValueError, match=r"10,000,000,000 steps of 200 paths take 4.8e\+04 GB"):
        found.forecast(10**10, key=KEY)


@pytest.mark.slow
@pytest.mark.parametrize("single", [False, True])
def test_a_large_level_changes_nothing_but_the_level(single):
    """Twenty deviations are less than the spacing of single precision at 10⁹."""
    level, x = np.array([0, 1e9, 0]), linear_path(500)
    values = {}
    with jax.enable_x64(not single):
        for at in (0 * level, level):
            samples = ndde.prepare_samples(ndde.read_samples(x[:400] + at, dt=DT, names=NAMES))
            plain = discovery(samples.values[0], TRUTH)
            found = dataclasses.replace(plain, samples=samples)
            given = dict(history=x[:420] + at, key=KEY)
            f = found.forecast(5, **given)
            g = found.intervene({"heat": at[1] + 0.5}, horizon=5, **given)
            h = found.intervene(shift={"sun": 0.5}, horizon=5, **given)
            b = found.backtest(5, data=x[400:] + at, key=KEY, rivals=())
            v = found.validate(x[400:] + at)
            values[at[1]] = (
                *(f.median - at, f.interval(0.5)[0] - at, np.median(g.changed, axis=0) - at),
                *(g.effect(), h.effect(), b.crps, v.explained),
            )
    assert samples.level[1] == pytest.approx(1e9, abs=2)
    for one, other in zip(*values.values(), strict=True):
        np.testing.assert_allclose(one, other, atol=0.02 if single else 1e-3)


# ---- forecasts ----


def test_forecasts_have_the_mean_and_the_spread_of_the_true_system(found):
    history = linear_path(80, seed=5)
    made = found.forecast(HORIZON, key=KEY, history=history)
    expected = respond(history[-LAGS[-1] - 1 :], HORIZON)
    paths = np.asarray(made.paths)
    np.testing.assert_allclose(paths.mean(axis=0), expected, atol=0.12)
    # Independent runs from this history: the stationary spread of the system bounds it.
    spread = paths.std(axis=0)
    assert (np.diff(spread[:, 0]) > -0.1).all()
    one_step = SIGMA * np.sqrt(DT)
    np.testing.assert_allclose(spread[0], one_step, rtol=0.25)


@pytest.mark.slow
def test_intervals_cover_what_comes(found):
    table = found.backtest(HORIZON, data=linear_path(1200, seed=7), origins=60, key=KEY)
    own = table.methods.index("ndde_jax")
    coverage = table.coverage[own].mean(axis=1)
    assert (coverage > 0.82).all() and (coverage < 0.97).all()
    assert table.held_out and table.origins == 60
    crps = table.crps.mean(axis=2)
    assert (crps[own] < crps[table.methods.index("persistence")]).all()
    assert (crps[own] < 1.1 * crps[table.methods.index("VAR")]).all()
    assert "VAR" in repr(table) and len(table.to_frame()) == table.crps.size


@pytest.mark.slow
def test_a_rival_is_beaten_origin_by_origin(found):
    table = found.backtest(
        HORIZON,
        data=linear_path(1200, seed=7),
        origins=60,
        key=KEY,
        rivals=["climatology"],
        at=(1, 12),
    )
    assert table.methods == ("ndde_jax", "climatology") and table.steps.tolist() == [1, 12]
    assert table.scores.shape == (2, 60, 2, 3) and table.energy.shape == (2, 2)
    better, error = table.against("climatology")
    own, theirs = table.scores.mean(axis=3)
    np.testing.assert_allclose(better, (theirs - own).mean(axis=0))
    np.testing.assert_allclose(error, (theirs - own).std(axis=0, ddof=1) / np.sqrt(60))
    assert better[0] > 5 * error[0]
    whole = found.backtest(HORIZON, data=linear_path(1200, seed=7), origins=60, key=KEY)
    np.testing.assert_allclose(table.crps[0], whole.crps[0][[0, -1]])


def test_a_rival_that_is_not_installed_is_refused_before_anything_is_forecast(found, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(type(found), "forecast", None)
    with pytest.raises(ImportError, match=r"ndde_jax\[peers\]"):
        found.backtest(HORIZON, key=KEY, rivals=["PySINDy"])


def test_pysindy_forecasts_its_polynomials():
    pytest.importorskip("pysindy")
    rng, x = np.random.default_rng(0), np.zeros((3000, 1))
    for k in range(len(x) - 1):
        x[k + 1] = x[k] + 0.3 * (x[k] - x[k] ** 3) + 0.2 * rng.normal()
    past, steps = x[100:2900:100, None], 3
    rows = step_rows(SimpleNamespace(samples=ndde.read_samples(x, dt=1.0), lags=(0,)))
    asked = RivalTask([x], rows, (0,), past, steps, 400, np.random.default_rng(1))
    found = RIVALS["PySINDy"](asked)
    # The map itself, with its noise.
    now = np.repeat(past[None, :, 0], 400, axis=0)
    for k in range(steps):
        now = now + 0.3 * (now - now**3) + 0.2 * rng.normal(size=now.shape)
        np.testing.assert_allclose(found[:, :, k].mean(axis=0), now.mean(axis=0), atol=0.12)
        np.testing.assert_allclose(found[:, :, k].std(axis=0), now.std(axis=0), rtol=0.2)
    straight = RIVALS["VAR"](asked)
    assert np.abs(straight[:, :, 2].mean(axis=0) - now.mean(axis=0)).max() > 0.3


def test_a_forecast_goes_on_from_the_record(found):
    made = found.forecast("3h", key=KEY)
    assert made.paths.shape == (200, HORIZON, 3)
    np.testing.assert_allclose(made.ts, found.samples.times[0][-1] + DT * np.arange(1, 13))
    np.testing.assert_array_equal(made.history[-1], found.samples.values[0][-1])
    np.testing.assert_array_equal(made.median, made.quantile(0.5))
    assert not made.diverged.any() and made.notes == ()
    same = found.forecast(HORIZON, key=KEY, history=found.samples.values[0])
    np.testing.assert_array_equal(same.paths, made.paths)
    assert len(made.to_frame()) == HORIZON * 3


def test_quantiles_of_few_paths_are_not_too_narrow():
    rng = np.random.default_rng(0)
    paths, truth = rng.normal(size=(19, 4000)), rng.normal(size=4000)
    low, high = path_quantile(jnp.asarray(paths), np.array([0.05, 0.95]))
    assert ndde.metrics.interval_coverage(low, high, truth) == pytest.approx(0.9, abs=0.02)
    expected = np.quantile(paths, [0.05, 0.5, 0.95], axis=0, method="weibull")
    np.testing.assert_allclose(path_quantile(jnp.asarray(paths), [0.05, 0.5, 0.95]), expected)


def test_missing_values_at_the_end_are_said(found):
    x = linear_path(400)
    x[-3, 1] = x[-2, 0] = np.nan
    made = discovery(x, TRUTH).forecast(HORIZON, key=KEY)
    assert "2 values are missing" in made.notes[0]
    assert np.isfinite(made.paths).all()


def test_paths_that_diverge_are_recorded():
    rng, x = np.random.default_rng(0), np.full((200, 1), 0.1)
    for k in range(199):
        x[k + 1] = 1.03 * x[k] + 0.01 * rng.normal()
    made = discovery(x, np.ones((1, 1, 1), bool), lags=(0,), dt=1.0, names=("a",))
    steps = make_steps(made, made.resample(), no_change(2, 1), [0, 1, 2], 1)
    paths, diverged, _ = simulate(steps, jnp.full((1, 3, 1), 1e9), jnp.zeros((2, 3, 1)))
    assert diverged.all() and np.isfinite(paths).all()
    # A long run continues from there.
    paths, diverged, past = simulate(steps, jnp.zeros((1, 3, 1)), jnp.full((2, 3, 1), jnp.inf))
    assert diverged.all() and np.isfinite(paths).all() and np.isfinite(past).all()


def test_known_inputs_are_followed():
    prior = ndde.prior_knowledge(NAMES, lags=LAGS, exogenous=("sun",))
    graph = TRUTH & np.asarray(prior.allowed)
    made = discovery(linear_path(600), graph, prior=prior)
    assert (
        "future of sun, which no other variable drives" in made.forecast(HORIZON, key=KEY).notes[0]
    )
    future = np.linspace(0, 1, HORIZON)
    forecast = made.forecast(HORIZON, key=KEY, inputs={"sun": future})
    np.testing.assert_allclose(forecast.paths[:, :, 0], np.tile(future, (200, 1)))
    assert forecast.notes == ()
    # Which rests because it was set so.
    still = made.forecast(60, key=KEY, inputs={"sun": 0.3}).notes
    assert not any("rest" in note for note in still)
    with pytest.raises(ValueError, match=r"inputs holds heat, .* known inputs are sun"):
        made.forecast(HORIZON, key=KEY, inputs={"heat": future})
    with pytest.raises(ValueError, match=r"a number, or \[horizon\] = \(12,\)"):
        made.forecast(HORIZON, key=KEY, inputs={"sun": future[:3]})


def test_the_future_of_known_inputs_may_be_a_table(tmp_path):
    days = pd.date_range("2020-01-01", periods=420)
    rng, x = np.random.default_rng(0), np.zeros((420, 2))
    x[:, 0] = rng.random(420)
    for t in range(1, 419):
        x[t + 1, 1] = 0.5 * x[t, 1] + x[t - 1, 0] + 0.1 * rng.normal()
    every = pd.DataFrame(x, index=days, columns=["rain", "flow"])
    made = ndde.discover(every[:400], lags=range(4), inputs=["rain"], key=KEY)
    expected = made.forecast(12, key=KEY, inputs={"rain": x[400:412, 0]}).paths
    file = tmp_path / "rain.csv"
    every[["rain"]].to_csv(file, index_label="day")
    ahead = every[["rain"]][400:]
    for table in (every[["rain"]], ahead, ahead.reset_index(drop=True), str(file)):
        np.testing.assert_array_equal(made.forecast(12, key=KEY, inputs=table).paths, expected)
    late = every[["rain"]][401:]
    with pytest.raises(ValueError, match=r"2021-02-04 to 2021-02-15; 11 of its 19 rows lie there"):
        made.forecast(12, key=KEY, inputs=late)
    with pytest.raises(ValueError, match="5 of its 5 rows"):
        made.intervene({"flow": 1.0}, horizon=12, key=KEY, inputs=pd.DataFrame({"rain": [0.1] * 5}))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(horizon=0), "horizon must be at least 1"),
        (dict(paths=0), "paths must be at least 1"),
        (dict(key=0), "key must be a JAX random key"),
        (dict(history=np.zeros((3, 3))), "at least 5 samples"),
        (dict(history=np.zeros((9, 2))), "history must be"),
        (dict(history=np.full((9, 3), np.nan)), "history must be finite"),
        (dict(inputs={"sun": np.zeros(24)}), "its known inputs are none"),
        (dict(inputs=3), "inputs must be a mapping"),
    ],
)
def test_forecasts_that_cannot_be_made_are_refused(found, options, message):
    with pytest.raises(ValueError, match=message):
        found.forecast(**{"key": KEY} | options)


def test_a_traced_history_is_refused_with_what_to_do(found):
    def median(history):
        return found.forecast(HORIZON, key=KEY, history=history).median

    with pytest.raises(ValueError, match=r"inside jit, vmap or grad.*solve_sdde"):
        jax.jit(median)(jnp.zeros((9, 3)))

    def end(history):
        path = ndde.solve_sdde(found.model, dt=float(found.dt), n_steps=2, history=history)
        return path.ys[-1].sum()

    assert np.isfinite(jax.grad(end)(jnp.asarray(np.ones((9, 3)) * 0.1))).all()


def test_a_past_outside_the_range_of_the_data_is_said(found):
    ordinary, wide = linear_path(80, seed=5), np.ptp(found.samples.values[0], axis=0)
    assert not any("outside the range" in n for n in found.forecast(HORIZON, key=KEY).notes)
    far = ordinary + np.array([0, 1.5, 0]) * wide
    (note,) = found.forecast(HORIZON, key=KEY, history=far).notes
    assert note.startswith("heat starts outside the range of the data, by 1")
    # Lags that the drift does not read do not count.
    once = ordinary.copy()
    once[-2] += wide * 5
    assert found.forecast(HORIZON, key=KEY, history=once).notes == ()


def louder(found, factor):
    """The default ensemble, with its noise multiplied."""
    ensemble = found.resample()
    noise = dataclasses.replace(ensemble.noise, factor=factor * ensemble.noise.factor)
    return dataclasses.replace(ensemble, noise=noise)


@pytest.mark.slow
def test_paths_that_leave_the_range_of_the_data_or_come_to_rest_are_told(found):
    assert found.forecast(60, key=KEY).notes == ()
    (wide,) = found.forecast(60, key=KEY, ensemble=louder(found, 4.0)).notes
    assert wide.startswith("Outside the range of the data: ") and "extrapolation" in wide
    low, high = (end(found.samples.values[0][:, 1]) for end in (np.min, np.max))
    assert f"heat ({low:.4g} to {high:.4g}) in " in wide
    (still,) = found.forecast(60, key=KEY, ensemble=louder(found, 0.02)).notes
    assert "come to rest on most paths" in still
    # So few samples determine nothing.
    assert found.forecast(30, key=KEY, ensemble=louder(found, 0.02)).notes == ()


def test_the_ensemble_of_another_discovery_is_refused(found):
    other = discovery(linear_path(300, seed=7), TRUTH)
    for ask in (found.forecast, found.effects):
        kwargs = {} if ask == found.effects else dict(key=KEY)
        with pytest.raises(ValueError, match=r"what resample.* of this discovery returned"):
            ask(ensemble=other.resample(), **kwargs)


def test_levels_of_intervals_are_shares(found):
    made = found.forecast(2, key=KEY, paths=5)
    for level in (90, -0.5, 1.0):
        with pytest.raises(ValueError, match=r"level must lie in \(0, 1\)"):
            made.interval(level)


@pytest.mark.slow
def test_a_backtest_counts_such_origins_apart(found):
    ordinary = linear_path(300, seed=6)
    assert not found.backtest(3, data=ordinary, key=KEY, rivals=()).beyond.any()
    data = ordinary.copy()
    data[150:] += 3 * np.ptp(found.samples.values[0], axis=0)
    made = found.backtest(3, data=data, key=KEY, rivals=())
    assert made.beyond.sum() == 10 and not made.beyond[:9].any()
    assert "10 of the origins have a past outside the range" in repr(made)
    np.testing.assert_allclose(made.coverage, made.inside.mean(axis=1))


def test_origins_are_chosen_among_complete_stretches(found):
    data = linear_path(120, seed=6)
    data[::12, 1] = np.nan
    length = LAGS[-1] + 2 + 2
    there = np.isfinite(data).all(axis=1)
    complete = sum(there[k : k + length].all() for k in range(len(data) - length + 1))
    assert found.backtest(2, data=data, origins=complete, key=KEY, rivals=()).origins == complete
    with pytest.raises(ValueError, match=rf"from {complete + 1} origins .*; got {complete}\."):
        found.backtest(2, data=data, origins=complete + 1, key=KEY, rivals=())
    with pytest.raises(ValueError, match=r"got 0\."):
        found.backtest(2, data=data[:5], key=KEY, rivals=())


def test_irregular_sampling_is_refused():
    x = linear_path(300)
    times = np.cumsum(np.random.default_rng(0).uniform(0.5, 1.5, 300))
    made = discovery(x, TRUTH)
    samples = ndde.read_samples(x, t=times, names=NAMES)
    object.__setattr__(made, "samples", samples)
    with pytest.raises(ValueError, match="equally spaced"):
        made.effects()


@pytest.mark.slow
def test_rain_that_is_forecast_below_zero_is_told():
    """The drift does not know that a variable rests at zero; a variable that is sometimes below
    zero does not rest there.
    """
    rng, x = np.random.default_rng(0), np.zeros((300, 2))
    x[:, 0] = np.where(rng.random(300) < 0.4, rng.gamma(1.0, 1.0, 300), 0.0)
    for k in range(299):
        x[k + 1, 1] = 0.8 * x[k, 1] + 0.5 * x[k, 0] + 0.2 * rng.normal()
    recipe = ndde.Recipe.fast()
    for below in (0.0, -0.5):
        x[10, 0] = below
        found = ndde.discover(x, dt=1.0, names=("rain", "store"), recipe=recipe, key=KEY)
        made = found.forecast(4, paths=50, key=KEY)
        told = [note for note in made.notes if note.startswith("Below zero")]
        share = f"rain (in {np.mean(made.paths[..., 0] < 0):.0%} of"
        assert len(told) == (below == 0) and all(share in note for note in told)
    low, high = made.interval()
    line = f"store  {made.median[-1, 1]:.3g} ({low[-1, 1]:.3g} to {high[-1, 1]:.3g})"
    assert line in repr(made)


# ---- inputs with a known future ----

PULL, RATE, AHEAD = 0.4, 0.15, 15
KEPT = np.exp(-PULL)
# The weights of an input at the beginning and the end of a step, between which it moves on a line.
FIRST = (1 - KEPT * (1 + PULL)) / PULL**2
LAST = (1 - KEPT) / PULL - FIRST
STEP = RATE * np.sqrt((1 - KEPT**2) / (2 * PULL))


def driven(seed, n):
    """y' = u - .4 y + .15 dW/dt, by its exact step; u is white noise at the samples."""
    rng = np.random.default_rng(seed)
    u, y = rng.normal(size=n), np.zeros(n)
    for k in range(n - 1):
        y[k + 1] = KEPT * y[k] + FIRST * u[k] + LAST * u[k + 1] + STEP * rng.normal()
    return u, y


@pytest.mark.parametrize("seed", range(3))
def test_forecasts_of_a_path_with_given_inputs_have_the_exact_mean_and_spread(seed):
    n = 800
    u, y = driven(seed, n + AHEAD)
    x = np.stack([u, y], axis=1)[:n]
    made = ndde.discover(x, dt=1.0, lags=range(4), inputs=["x0"], key=jax.random.key(0))
    assert made.moves_between_samples
    future = {"x0": u[n:]}
    paths = made.forecast(AHEAD, paths=400, key=KEY, inputs=future).paths[..., 1]
    mean, variance = y[n - 1], 0.0
    for k in range(AHEAD):
        mean = KEPT * mean + FIRST * u[n - 1 + k] + LAST * u[n + k]
        variance = KEPT**2 * variance + STEP**2
        assert abs(paths[:, k].mean() - mean) < np.sqrt(variance)
        assert paths[:, k].std() == pytest.approx(np.sqrt(variance), rel=0.25)
    own = made.resample(resamples=4, inputs=["x0"])
    made.forecast(3, paths=4, key=KEY, inputs={"x0": u[n : n + 3]}, ensemble=own)
    if own.step != "map":
        with pytest.raises(ValueError, match=r"got none\. Make it again with found\.resample"):
            made.forecast(AHEAD, key=KEY, inputs=future, ensemble=made.resample(resamples=4))
    with pytest.raises(ValueError, match=r"inputs must be known inputs \(x0\); got x1"):
        made.resample(inputs=["x1"])
