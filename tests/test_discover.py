"""The front door: containers, refusals, symmetries, and what is kept on disk."""

import dataclasses
import errno
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax import _atomic, _discover, _store
from ndde_jax._discovery import FILE

NAMES = ("driven", "driver")
LAGS = (0, 2)
DT = 0.5
# Small networks, which suffice for the map below.
STRENGTH = ndde.StrengthConfig(
    width=4, depth=1, steps=20, restarts=1, folds=2, fold_steps=10, resamples=20, search=4
)
RECIPE = ndde.Recipe(refit=STRENGTH)
# driver -> itself at both lags, driver -> driven at lag 2 samples, driven -> itself.
TRUTH = np.zeros((2, 2, 2), bool)
TRUTH[1, 1, :] = TRUTH[1, 0, 1] = TRUTH[0, 0, 0] = True


def driven_map(n=200):
    """A noisy driver, and a driven variable without noise; difference quotients are exact."""
    kick = np.random.default_rng(0).normal(size=n + 50)
    x = np.zeros((n + 50, 2))
    for k in range(2, n + 49):
        x[k + 1, 0] = 0.3 * x[k, 0] + np.tanh(x[k - 2, 1])
        x[k + 1, 1] = -0.6 * x[k, 1] + 0.7 * x[k - 2, 1] + 0.3 * kick[k]
    return x[50:]


X = driven_map()


def discover(x, **options):
    settings = dict(lags=LAGS, scheme="euler", recipe=RECIPE)
    return ndde.discover(x, key=jax.random.key(0), **settings | options)


@pytest.fixture(scope="module")
def found():
    return discover(X, dt=DT, names=NAMES, time_unit="h")


@pytest.fixture
def windows_of(monkeypatch):
    """A function that runs `discover` up to the first fit and returns the windows it was given."""

    class Reached(Exception):
        pass

    def reached(windows, *args, **options):
        raise Reached(windows)

    def windows_of(x, **options):
        with pytest.raises(Reached) as caught:
            discover(x, **options)
        return caught.value.args[0]

    for name in ("find_and_measure", "fit_splines"):
        monkeypatch.setattr(f"ndde_jax._discover.{name}", reached)
    return windows_of


def assert_same_windows(one, other):
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def assert_same_scores(one, other, atol=0.01):
    """Up to where training ends, which depends on the initial weights and on rounding."""
    np.testing.assert_allclose(one, other, rtol=0, atol=atol)


# ---- what it finds ----


def test_finds_graph_and_drift_of_a_map(found):
    np.testing.assert_array_equal(found.graph, TRUTH)
    assert found.scores[TRUTH].min() > 0.05 > 0.01 > np.abs(found.scores[~TRUTH]).max()
    assert (found.lower[TRUTH] > 0).all()
    assert (found.names, found.lags, found.dt, found.time_unit) == (NAMES, LAGS, DT, "h")
    for array in (found.graph, found.scores, found.lower):
        assert isinstance(array, np.ndarray) and array.shape == (2, 2, 2)
    now, past = X[2:-1], X[:-3]
    drift = jax.vmap(found.model)(jnp.asarray(np.stack([now, past], axis=1)))
    true = np.stack(
        [-0.7 * now[:, 0] + np.tanh(past[:, 1]), -1.6 * now[:, 1] + 0.7 * past[:, 1]], axis=1
    )
    error = np.sqrt(np.mean((drift - true / DT) ** 2, axis=0)) / np.std(true / DT, axis=0)
    assert error[0] < 0.01 and error[1] < 0.1  # the second equation is driven by noise


def test_sources_are_ranked_whatever_the_delay(found):
    assert found.source_scores.shape == (2, 2)
    assert (found.source_scores >= found.scores.max(axis=2)).all()
    together = np.asarray(found.strengths.source_value)[TRUTH.any(axis=2)]
    assert (found.source_scores[TRUTH.any(axis=2)] >= together).all()
    absent = ~TRUTH.any(axis=2)
    assert found.source_scores[absent].max() < 0.1 * found.source_scores[~absent].min()


def test_model_uses_the_graph_and_nothing_else(found):
    np.testing.assert_array_equal(np.transpose(found.model.mask, (2, 0, 1)), found.graph)
    gradient = jax.jacobian(found.model)(jnp.asarray([[0.3, -0.2], [0.4, 0.1]]))
    used = np.transpose(np.asarray(gradient) != 0, (2, 0, 1))  # [target lag source]
    np.testing.assert_array_equal(used, found.graph)


def test_report_is_about_this_discovery(found):
    report = found.report(full=True)
    assert "2 variables (driven, driver), sampling interval 0.5 h. 197 windows." in report
    for source, target, lag in [(0, 0, 0), (1, 0, 2), (1, 1, 0), (1, 1, 2)]:
        row = f"{NAMES[source]:<6} -> {NAMES[target]:<6} {lag:>5} {lag + 1:>5}"
        assert row in report
    edges = report.partition("Edges kept")[2].partition("Targets")[0]
    assert edges.count(" -> ") == 5  # four edges and the head of the table
    assert found.verdict == "supported" and report.startswith("Verdict: supported.")


def test_coefficient_sets_the_price(found):
    priced = discover(X, dt=DT, coefficient=4 * 0.1)
    assert priced.coefficient == 0.4
    np.testing.assert_array_equal(priced.graph, priced.scores > 0.1)
    assert (priced.graph <= (found.scores > 0.05)).all()
    assert 0 < priced.graph.sum() < found.graph.sum()
    np.testing.assert_array_equal(np.transpose(priced.model.mask, (2, 0, 1)), priced.graph)


@pytest.mark.parametrize(
    "recipe",
    [
        ndde.Recipe.fast(),
        ndde.Recipe(strategy=ndde.select.Splines()),
        ndde.Recipe(strategy=ndde.select.Moves(refit=STRENGTH), family=ndde.models.Polynomials()),
    ],
    ids=["fast", "a strategy", "a strategy and a family"],
)
def test_other_recipes_find_the_graph(found, recipe):
    other = discover(X, dt=DT, names=NAMES, recipe=recipe)
    np.testing.assert_array_equal(other.graph, TRUTH)
    assert not other.networks.any()
    assert_same_scores(other.scores[TRUTH], found.scores[TRUTH], atol=0.05)
    assert other.recipe.networks == recipe.networks
    name = "moves" if isinstance(recipe.strategy, ndde.select.Moves) else "splines"
    assert name in other.report(full=True)


def test_gates_alone_bring_their_networks():
    config = ndde.FitConfig(max_steps=100, warmup="adam", warmup_steps=0, refine="none", width=4)
    gates = ndde.select.Gates(config=config, improve=False)
    recipe = ndde.Recipe(strategy=gates, scheme="euler", confine=False, delays=False)
    key = jax.random.key(0)
    found = ndde.discover(X, dt=DT, lags=LAGS, recipe=recipe, key=key)
    search_key, _ = jax.random.split(key)
    alone = ndde.recover(found.windows, gates, key=search_key)
    np.testing.assert_array_equal(found.graph, alone.graph)
    assert eqx.tree_equal(found.model, alone.details.model)


def test_what_no_spline_describes_is_left_to_networks():
    """A ridge of three inputs, which is no sum of products of two."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1500, 3))
    for k in range(1499):
        x[k + 1, 0] = np.tanh(2 * x[k] @ np.array([1.0, 1.0, -1.0])) + 0.1 * x[k + 1, 0]
    found = ndde.discover(x, dt=1.0, scheme="euler", key=jax.random.key(0), names=("a", "b", "c"))
    assert found.networks[0] and found.graph[:, 0, 0].all()
    assert "networks judged it for a," in found.report(full=True).replace("\n", " ")
    fast = ndde.discover(
        x, dt=1.0, scheme="euler", key=jax.random.key(0), recipe=ndde.Recipe.fast()
    )
    assert not fast.networks.any()
    assert found.strengths.risk[0] < 0.5 * fast.strengths.risk[0]


def test_a_recipe_is_a_value(found):
    with pytest.raises(ValueError, match=r"Recipe\.fast\(\)"):
        discover(X, dt=DT, recipe=ndde.Recipe)
    with pytest.raises(ValueError, match="Mind the parentheses"):
        ndde.Recipe(strategy=ndde.select.Gates)
    for bad in (dict(passes=0), dict(scheme="upwind"), dict(networks=1), dict(family="net")):
        with pytest.raises(ValueError, match=next(iter(bad))):
            ndde.Recipe(**bad)


def test_equations_of_a_discovery(found):
    """Of the driver; the driven variable follows a hyperbolic tangent."""
    key = jax.random.key(0)
    _, text = found.equations(key=key, rounds=0, family="polynomial")
    number = r"([0-9.]+)"
    match = re.fullmatch(rf"ddriver/dt = -{number} driver \+ {number} driver\[t-2\]", text)
    assert match, text
    np.testing.assert_allclose([float(value) for value in match.groups()], [3.2, 1.4], atol=0.1)


def test_nothing_is_worth_any_price():
    nothing = discover(X, dt=DT, coefficient=100.0)
    assert not nothing.graph.any()
    assert "none: no candidate input explains" in nothing.report()
    rate = np.diff(X, axis=0)[2:].mean(axis=0) / DT
    drift = nothing.model(jnp.asarray([[0.3, -0.2], [0.4, 0.1]]))
    np.testing.assert_allclose(drift, rate, atol=0.01)


def test_scheme_is_chosen_by_default(found, windows_of):
    assert_same_windows(windows_of(X, dt=DT, scheme="auto"), found.windows)
    time = 0.1 * np.arange(300)
    smooth = np.stack([np.sin(time), np.cos(time)], axis=1)
    assert windows_of(smooth, dt=0.1, scheme="auto").scheme == "central4"


def delayed_and_smooth(n=1000):
    """dX = (2 sin 2X(t − 1) − X) dt + 0.05 dW, every 0.2 of an Euler–Maruyama path."""
    rng, x = np.random.default_rng(0), np.ones(20 * (n + 50))
    for k in range(100, len(x) - 1):
        x[k + 1] = x[k] + 0.01 * (2 * np.sin(2 * x[k - 100]) - x[k]) + 0.005 * rng.normal()
    return x[1000::20]


@pytest.mark.slow
def test_smooth_samples_of_a_delayed_system_are_taken_midway():
    options = dict(dt=0.2, lags=(0, 3, 5, 7), scheme="auto")
    found = discover(delayed_and_smooth(), **options)
    assert found.windows.scheme == "midpoint"
    np.testing.assert_array_equal(found.graph[0, 0], [True, False, True, False])
    assert "takes 'midpoint', as was done" in found.windows.explain()
    # The rates that are left are those that the first model corrected.
    plain = ndde.midpoint_windows(delayed_and_smooth(), dt=0.2, lags=(0, 3, 5, 7))
    assert not np.allclose(found.windows.increment, plain.increment, atol=1e-6)


def test_midpoints_can_be_asked_for(windows_of):
    same = ndde.midpoint_windows(X, dt=DT, lags=LAGS)
    assert_same_windows(windows_of(X, dt=DT, scheme="midpoint"), same)
    stamps = DT * np.arange(len(X))
    once = (lag for lag in LAGS)  # an iterable need not last
    assert_same_windows(windows_of(X, t=stamps, lags=once, scheme="midpoint"), same)
    with pytest.raises(ValueError, match="'midpoint' needs equally spaced samples"):
        discover(X, t=stamps + 0.1 * np.sin(np.arange(len(X))), scheme="midpoint")


def test_irregular_samples_end_to_end():
    """The map as an Euler scheme with steps of unequal length."""
    rng = np.random.default_rng(1)
    step = rng.uniform(0.8, 1.2, size=len(X) - 1)
    x = X.copy()
    for k in range(2, len(X) - 1):
        drift = np.array(
            [-0.7 * x[k, 0] + np.tanh(x[k - 2, 1]), -1.6 * x[k, 1] + 0.7 * x[k - 2, 1]]
        )
        x[k + 1] = x[k] + step[k] * drift + [0, 0.3 * np.sqrt(step[k]) * rng.normal()]
    irregular = discover(x, t=DT * np.concatenate([[0], np.cumsum(step)]))
    np.testing.assert_array_equal(irregular.graph, TRUTH)
    assert "not equally spaced" in irregular.report(full=True)
    np.testing.assert_allclose(irregular.dt, DT * step.mean())


def test_a_record_may_begin_with_missing_values(found):
    late = X.copy()
    late[:4, 0] = np.nan
    np.testing.assert_array_equal(discover(late, dt=DT, treat=False).graph, found.graph)


def test_missing_values_are_left_out(found):
    x = X.copy()
    x[[20, 90], [0, 1]] = np.nan
    gaps = discover(x, dt=DT, treat=False)
    # Each sample is missing as present state, next state and lagged state.
    assert int(gaps.windows.dropped) == 6
    np.testing.assert_array_equal(gaps.graph, TRUTH)
    assert_same_scores(gaps.scores, found.scores, atol=0.03)


def test_progress_is_shown_on_request_only(found, capsys):
    discover(X, dt=DT)
    assert capsys.readouterr() == ("", "")
    discover(X, dt=DT, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    for stage in ("measuring edges", "estimating delays", "2/2"):
        assert stage in err


# ---- symmetries ----


@pytest.mark.parametrize("dt", [DT, 86400.0])
def test_units_change_nothing_but_the_model(found, dt):
    scale, shift = np.array([1000.0, 3e-4]), np.array([-50.0, 12.0])
    other = discover(X * scale + shift, dt=dt)
    np.testing.assert_array_equal(other.graph, found.graph)
    assert_same_scores(other.scores, found.scores)
    history = jnp.asarray([[0.3, -0.2], [0.4, 0.1]])
    np.testing.assert_allclose(
        other.model(history * scale[None] + shift[None]) / scale * dt,
        found.model(history) * DT,
        atol=0.01,
    )


def test_permuting_variables_permutes_the_graph(found):
    other = discover(X[:, ::-1], dt=DT)
    np.testing.assert_array_equal(other.graph[::-1, ::-1], found.graph)
    assert_same_scores(other.scores[::-1, ::-1], found.scores)


# ---- containers ----


@pytest.mark.parametrize(
    "x",
    [jnp.asarray(X), [X], X[None], X.tolist()],
    ids=["jax", "list of one", "series axis", "nested lists"],
)
def test_arrays_of_every_kind(x, found, windows_of):
    assert_same_windows(windows_of(x, dt=DT), found.windows)


def test_several_trajectories(windows_of):
    parts = [X[:80], X[80:]]
    expected = ndde.lagged_windows(parts, dt=DT, lags=LAGS)
    assert_same_windows(windows_of(parts, dt=DT), expected)
    assert expected.valid.shape == (77 + 117,)


def test_pandas_end_to_end(found):
    pd = pytest.importorskip("pandas")
    index = pd.date_range("1990-01-01", periods=len(X), freq="MS")
    same = discover(pd.DataFrame(X, columns=NAMES, index=index))
    assert (same.names, same.dt, same.time_unit) == (NAMES, 1.0, "month")
    np.testing.assert_array_equal(same.graph, found.graph)
    assert_same_scores(same.scores, found.scores)
    assert "driver -> driven" in same.report()


def test_pandas_numeric_and_irregular_index(found, windows_of):
    pd = pytest.importorskip("pandas")
    stamps = DT * np.arange(len(X))
    assert_same_windows(windows_of(pd.DataFrame(X, index=stamps)), found.windows)
    stamps = stamps + 0.1 * np.sin(np.arange(len(X)))
    irregular = windows_of(pd.DataFrame(X, index=stamps), treat=False)
    assert_same_windows(irregular, ndde.lagged_windows(X, t=stamps, lags=LAGS))
    assert np.ptp(irregular.weight) > 0.1


def test_pandas_series(windows_of):
    pd = pytest.importorskip("pandas")
    series = pd.Series(X[:, 1], index=DT * np.arange(len(X)), name="driver")
    assert_same_windows(windows_of(series), ndde.lagged_windows(X[:, 1], dt=DT, lags=LAGS))


def test_xarray(found, windows_of):
    xr = pytest.importorskip("xarray")
    coords = {"time": DT * np.arange(len(X)), "v": list(NAMES)}
    array = xr.DataArray(X, dims=("time", "v"), coords=coords)
    dataset = array.to_dataset(dim="v")
    for x in (array, array.T, dataset):
        assert_same_windows(windows_of(x), found.windows)


def test_names_of_containers_are_kept_and_can_be_replaced(found):
    xr = pytest.importorskip("xarray")
    array = xr.DataArray(X, dims=("time", "v"), coords={"v": list(NAMES)})
    kept = discover(array, dt=DT)
    assert (kept.names, kept.time_unit) == (NAMES, "")
    np.testing.assert_array_equal(kept.scores, found.scores)
    assert discover(array, dt=DT, names=["p", "q"]).names == ("p", "q")
    assert discover(X, dt=DT).names == ("x0", "x1")


def test_explicit_times_override_those_of_the_container(found, windows_of):
    pd = pytest.importorskip("pandas")
    dates = pd.date_range("1990-01-01", periods=len(X), freq="MS")
    x = pd.DataFrame(X, columns=NAMES, index=dates)
    assert_same_windows(windows_of(x, dt=DT), found.windows)
    assert_same_windows(windows_of(x, t=DT * np.arange(len(X))), found.windows)
    # Then the index may be anything.
    shuffled = x.set_axis(np.random.default_rng(0).permutation(len(X)), axis=0)
    assert_same_windows(windows_of(shuffled, dt=DT), found.windows)


# ---- on disk ----


@pytest.fixture(scope="module")
def saved(found, tmp_path_factory):
    directory = tmp_path_factory.mktemp("runs") / "new" / "found"
    found.save(directory)
    return directory


def test_save_and_load_return_the_same(found, saved):
    loaded = ndde.Discovery.load(saved)
    everything = [
        (d.windows, d.strengths, d.model, d.graph, d.scores, d.lower, d.delays, d.recipe)
        for d in (found, loaded)
    ]
    assert jax.tree.structure(everything[0]) == jax.tree.structure(everything[1])
    for a, b in zip(*map(jax.tree.leaves, everything), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    labels = ("names", "lags", "dt", "time_unit", "coefficient")
    assert [getattr(loaded, n) for n in labels] == [getattr(found, n) for n in labels]
    assert loaded.report() == found.report()
    history = jnp.asarray([[0.3, -0.2], [0.4, 0.1]])
    np.testing.assert_array_equal(loaded.model(history), found.model(history))
    assert eqx.tree_equal(loaded.recipe, found.recipe)


def test_save_keeps_a_coefficient_and_overwrites(found, tmp_path):
    found.save(tmp_path)
    priced = discover(X, dt=DT, names=("größe", "b"), coefficient=0.4)
    priced.save(tmp_path)
    loaded = ndde.Discovery.load(str(tmp_path))
    assert (loaded.names, loaded.coefficient, loaded.time_unit) == (("größe", "b"), 0.4, "")
    np.testing.assert_array_equal(loaded.graph, priced.graph)


def test_loading_something_else_is_refused(found, saved, tmp_path):
    for nothing in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(ValueError, match="does not hold a saved discovery"):
            ndde.Discovery.load(nothing)
    for name in ("about.json", "arrays.npz"):
        (tmp_path / name).touch()
    with pytest.raises(ValueError, match="format of an earlier version"):
        ndde.Discovery.load(tmp_path)
    whole = (saved / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="cut short"):
        ndde.Discovery.load(tmp_path)
    _store.write(tmp_path / FILE, found.windows)
    with pytest.raises(ValueError, match="does not hold a Discovery but a Windows"):
        ndde.Discovery.load(tmp_path)


def named(*names):
    return dataclasses.replace(ndde.read_samples(X, dt=DT), names=names)


@pytest.mark.parametrize(
    "change, words",
    [
        ({"samples": named("a")}, "1 different names for 2 variables"),
        ({"samples": named("a", "a")}, "1 different names for 2 variables"),
        ({"lags": (0, 3)}, r"lags \(0, 3\) for windows at lags \(0, 2\)"),
        ({"graph": np.zeros((2, 2, 1), bool)}, r"graph of shape \(2, 2, 1\)"),
        ({"source_scores": np.zeros((2, 3))}, r"rankings of \(2, 3\)"),
    ],
)
def test_a_discovery_that_contradicts_itself_is_refused(change, words, found, tmp_path):
    dataclasses.replace(found, **change).save(tmp_path)
    with pytest.raises(ValueError, match=f"contradicts itself: {words}"):
        ndde.Discovery.load(tmp_path)


def test_a_full_disk_leaves_the_previous_discovery(found, tmp_path, monkeypatch):
    found.save(tmp_path)
    before = (tmp_path / FILE).read_bytes()

    def fsync(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(_atomic.os, "fsync", fsync)
    with pytest.raises(OSError, match=r"discovery\.npz cannot be written \(No space"):
        dataclasses.replace(found, samples=named("p", "q")).save(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == [FILE]
    assert (tmp_path / FILE).read_bytes() == before


@pytest.mark.parametrize("stage", ["midpoint_windows", "find_and_measure", "profile_delays"])
def test_an_interrupted_discovery_goes_on_from_its_stages(stage, tmp_path, monkeypatch):
    """What came before `stage` is not done twice."""
    stages = ("midpoint_windows", "find_and_measure", "profile_delays")
    calls = []

    def counted(name, original):
        def call(*args, **options):
            if name == interrupted:
                raise KeyboardInterrupt
            calls.append(name)
            return original(*args, **options)

        return call

    options = dict(
        dt=DT, names=NAMES, scheme="midpoint", recipe=ndde.Recipe(passes=2, refit=STRENGTH)
    )
    whole = discover(X, **options)
    for name in stages:
        monkeypatch.setattr(_discover, name, counted(name, getattr(_discover, name)))
    options["directory"] = tmp_path / "kept"
    interrupted = stage
    with pytest.raises(KeyboardInterrupt):
        discover(X, **options)
    assert tuple(calls) == stages[: stages.index(stage)]
    interrupted = None
    resumed = discover(X, **options)
    assert tuple(calls) == stages
    resumed.save(tmp_path / "one")
    whole.save(tmp_path / "other")
    assert (tmp_path / "one" / FILE).read_bytes() == (tmp_path / "other" / FILE).read_bytes()


@pytest.mark.parametrize(
    "change",
    [
        {"coefficient": 0.4},
        {"recipe": ndde.Recipe.fast()},
        {"dt": 1.0},
        {"key": jax.random.key(1)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_stages_of_another_call_are_not_used(change, tmp_path, monkeypatch):
    class Reached(Exception):
        pass

    def reached(*args, **options):
        raise Reached

    options = dict(dt=DT, lags=LAGS, scheme="euler", key=jax.random.key(0), directory=tmp_path)
    kept = []
    monkeypatch.setattr(_discover, "find_and_measure", reached)
    monkeypatch.setattr("ndde_jax._kept.Kept.load", lambda self, name: kept.append(name))
    for call in (options, options | change, options):
        with pytest.raises(Reached):
            ndde.discover(X, **call)
    assert kept[0] == kept[2] != kept[1]
