"""Windows with states halfway through the step."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.signal

import ndde_jax as ndde
from benchmarks.verdict import kinds, sized
from ndde_jax.fit._flow import correct_at_midpoints
from ndde_jax.regression import compare_readings
from ndde_jax.select._measured import fit_splines
from ndde_jax.select._midpoint import at_midpoints, read_steps
from ndde_jax.select._reading import choose_windows

from .small import delayed_pair, lorenz_ring


@pytest.mark.slow
def test_midpoints_are_of_second_order():
    """Rates minus the drift at the windows' states, for x'' = −x: halving dt quarters it."""

    def error(dt, maker):
        t = dt * np.arange(int(60 / dt))
        w = maker(np.stack([np.sin(t), np.cos(t)], 1), dt=dt, lags=(0,))
        s = w.scaling
        states = s.center[None] + s.scale[None] * w.history[:, 0]
        rates = s.rate_center[None] + s.rate_scale[None] * w.increment
        drift = jnp.stack([states[:, 1], -states[:, 0]], 1)
        return float(jnp.sqrt(jnp.mean((rates - drift) ** 2)))

    plain = [error(dt, ndde.lagged_windows) for dt in (0.1, 0.05)]
    middle = [error(dt, ndde.select.midpoint_windows) for dt in (0.1, 0.05)]
    assert 1.9 < plain[0] / plain[1] < 2.1
    assert 3.5 < middle[0] / middle[1] < 4.5
    assert middle[0] < plain[0] / 20


class Rotation(eqx.Module):
    """x'' = −x."""

    lags: tuple = eqx.field(static=True, default=(0,))

    def __call__(self, history):
        return jnp.stack([history[0, 1], -history[0, 0]])


def test_midpoints_of_the_true_model_are_of_fourth_order():
    def error(dt):
        t = dt * np.arange(int(60 / dt))
        x = np.stack([np.sin(t), np.cos(t)], 1)
        w = ndde.select.midpoint_windows(x, dt=dt, model=Rotation())
        s = w.scaling
        states = s.center[None] + s.scale[None] * w.history[:, 0]
        rates = s.rate_center[None] + s.rate_scale[None] * w.increment
        drift = jnp.stack([states[:, 1], -states[:, 0]], 1)
        return float(jnp.sqrt(jnp.mean((rates - drift) ** 2)))

    assert 14 < error(0.4) / error(0.2) < 18
    assert error(0.2) < 2e-6


@pytest.mark.parametrize(
    "lag,order", [(1, 3), *(pytest.param(lag, 4, marks=pytest.mark.slow) for lag in (2, 7))]
)
def test_the_past_is_interpolated(lag, order):
    """Halfway between samples, from samples not later than the present."""

    def error(dt):
        t = dt * np.arange(int(40 / dt))
        x = np.stack([np.sin(t), np.cos(t)], 1)
        w = ndde.select.midpoint_windows(x, dt=dt, lags=(0, lag))
        s = w.scaling
        states = s.center[None] + s.scale[None] * w.history[:, 1]
        at = t[np.asarray(w.position)] + (0.5 - lag) * dt
        return np.abs(np.asarray(states) - np.stack([np.sin(at), np.cos(at)], 1)).max()

    assert np.log2(error(0.2) / error(0.1)) == pytest.approx(order, abs=0.2)


class Lagging(eqx.Module):
    """x' = −x(t − τ), with the present as an idle input."""

    lags: tuple = eqx.field(static=True)

    def __call__(self, history):
        return -history[1] + 0.0 * history[0]


def test_rates_of_a_delayed_model_meet_at_the_middle():
    """x = exp(rt), r = −exp(−rτ): the rate that belongs to the middle, to fourth order."""

    def error(dt):
        lag = round(1.2 / dt)
        r = complex(0.3, 1.1)
        for _ in range(50):  # Newton's method, for r + exp(−rτ) = 0
            r -= (r + np.exp(-1.2 * r)) / (1 - 1.2 * np.exp(-1.2 * r))
        z = np.exp(r * dt * np.arange(round(12 / dt)))
        x = np.stack([z.real, z.imag], 1)
        w = ndde.select.midpoint_windows(x, dt=dt, lags=(0, lag), model=Lagging((0, lag)))
        s = w.scaling
        states = s.center[None] + s.scale[None] * w.history[:, 1]
        rates = s.rate_center[None] + s.rate_scale[None] * w.increment
        return float(jnp.abs(rates + states).max() / jnp.abs(rates).max())

    assert np.log2(error(0.2) / error(0.1)) == pytest.approx(4, abs=0.3)


def test_the_past_at_midpoints_ends_with_the_data():
    """With and without a model, the past is known at the last row."""
    x = delayed_pair(200)

    class Damped(eqx.Module):
        lags: tuple = eqx.field(static=True, default=(0, 3))

        def __call__(self, history):
            return history[1] - history[0]

    plain, found = (
        ndde.select.midpoint_windows(x, dt=0.1, lags=(0, 3), model=model)
        for model in (None, Damped())
    )
    np.testing.assert_allclose(found.history[:, 1], plain.history[:, 1], atol=1e-12)
    assert found.scheme == plain.scheme == "midpoint"


def test_midpoints_do_not_see_the_step_they_explain():
    x = delayed_pair(200)
    zero = lambda w: jnp.zeros_like(w.increment)  # noqa: E731
    wide = ndde.lagged_windows(x, dt=0.1, lags=(0, 4))
    w = ndde.select.midpoint_windows(x, dt=0.1, lags=(0, 3), rate=zero(wide))
    s = w.scaling
    physical = np.asarray(s.center[None, None] + s.scale[None, None] * w.history)
    k = np.asarray(w.position) - np.asarray(w.position)[0] + 4
    between = (9 * (x[k - 3] + x[k - 2]) - x[k - 4] - x[k - 1]) / 16
    np.testing.assert_allclose(physical[:, 1], between, atol=1e-9)
    mean = np.asarray(s.rate_center)[None] * 0.1 / 2
    np.testing.assert_allclose(physical[:, 0], x[k] + mean, atol=1e-9)


def test_midpoint_windows_reads_its_arguments():
    x = delayed_pair(200)
    with pytest.raises(ValueError, match="rate must have shape"):
        ndde.select.midpoint_windows(x, dt=0.1, lags=(0, 3), rate=jnp.zeros((3, 2)))
    with pytest.raises(ValueError, match=r"a model with the lags \(0, 3\); got \(0,\)"):
        ndde.select.midpoint_windows(x, dt=0.1, lags=(0, 3), model=Rotation())
    with pytest.raises(ValueError, match=r"rate or model.* got both"):
        ndde.select.midpoint_windows(x, dt=0.1, rate=jnp.zeros((199, 2)), model=Rotation())


def test_steps_of_unequal_length_have_no_middle_of_that_kind():
    pandas = pytest.importorskip("pandas")
    t = np.arange(200) ** 1.1
    x = pandas.DataFrame(np.random.default_rng(0).normal(size=(200, 2)).cumsum(axis=0), index=t)
    with pytest.raises(ValueError, match="'midpoint' needs equally spaced"):
        ndde.select.midpoint_windows(x)


def test_sizes_beyond_the_floating_type_are_refused():
    x = np.random.default_rng(0).normal(size=(200, 2)).cumsum(axis=0)
    for make in (ndde.select.midpoint_windows, ndde.lagged_windows):
        with pytest.raises(ValueError, match=r"column 1 of x must be of a size .* beyond"):
            make(x * [1, 1e200], dt=1.0)
        with pytest.raises(ValueError, match=r"dt must be of a size .* below"):
            make(x, dt=1e-200)


@pytest.mark.slow
def test_products_tell_a_flow_where_sums_do_not():
    """Lorenz' ring in strong chaos, a few samples per oscillation: its drift has no sums."""
    x, lags = lorenz_ring(5, 250, force=40.0)[0], (0, 1)
    every = np.ones((5, 5, 2), bool)
    sums = compare_readings([(x - x.mean(axis=0)) / x.std(axis=0)], lags, every, ~every)
    assert sums.name != "flow"
    samples = ndde.read_samples(x, dt=0.05)
    found, (why,), _ = choose_windows(samples, lags=lags, scheme="auto", prior=None)
    assert found.windows.scheme == "midpoint" and found.readings.evidence > 500
    assert "flow" in why and "products" in why


def spiky(n=2500, substeps=20, dt=0.025):
    """A flow whose fastest turns take a few samples, driven by white noise: that of Lü and Chen,
    *Int. J. Bifurcation Chaos* 12 (2002).
    """
    rng = np.random.default_rng(0)
    x, h, samples = np.array([0.1, 0.3, -0.6]), dt / substeps, []
    for kick in 0.35 * np.sqrt(h) * rng.normal(size=(n, substeps, 3)):
        for own in kick:
            a, b, c = x
            drift = np.array([36 * (b - a), 18 * b - a * c, a * b - 3 * c])
            x = x + h * drift + own
        samples.append(x)
    return ndde.read_samples(np.array(samples), dt=dt)


@pytest.mark.slow
def test_a_fast_signal_that_looks_filtered_is_read_halfway_through_each_step():
    """Its increments lose power towards the sampling frequency, like filtered noise, and central
    differences would blur it.
    """
    samples = spiky()
    assert ndde.lagged_windows(samples, scheme="auto").scheme == "central4"
    found = ndde.discover(samples, lags=(0,), key=jax.random.key(0))
    assert found.windows.scheme == "midpoint" and found.reading == "flow"
    assert "takes 'midpoint', as was done" in found.windows.explain()
    truth = np.array([[1, 1, 1], [1, 1, 1], [0, 1, 1]], bool)  # [source target]
    # The error of differences of so short-lived a signal is about 1e-4 of a rate's variance.
    strong = found.graph[..., 0] & (found.strengths.value[..., 0] > 2e-4)
    np.testing.assert_array_equal(strong, truth)
    words = ndde.equations(found.model.model, ["x", "y", "z"], digits=2)
    assert words[0].startswith(("dx/dt = -36 x + 36 y", "dx/dt = -37 x + 36 y"))
    assert words[1].startswith("dy/dt = 18 y - x z")


def test_what_rings_at_its_ends_keeps_central_differences():
    """Resampled by Fourier transform; steps would be between samples that ring."""
    x = scipy.signal.resample(np.asarray(spiky(n=800).values[0]), 2400)
    assert np.any(np.asarray(ndde.lagged_windows(x, dt=1.0).ringing) > 1.5)
    samples = ndde.read_samples(x, dt=0.025 / 3)
    screened, said, _ = choose_windows(samples, lags=(0,), scheme="auto", prior=None)
    assert screened.windows.scheme == "central4" and said == ()


@pytest.mark.slow
def test_a_flow_whose_lags_undo_one_another_is_a_map():
    """By chance a mean over a step explains more of some targets than the sample does. In the
    comparison a flow is likelier then, and has 4 false lags in the search.
    """
    case, every = kinds.case("linear map", 21400, 1), np.ones((4, 4, 8), bool)
    z = (case.x - case.x.mean(axis=0)) / case.x.std(axis=0)
    assert compare_readings([z], case.lags, every, ~every).name == "flow"
    samples = ndde.read_samples(case.x, dt=1.0)
    found, (why,), _ = choose_windows(samples, lags=case.lags, scheme="auto", prior=None)
    assert found.windows.scheme == "euler" and found.readings.name == "map"
    assert "opposite effects" in why
    assert not (np.asarray(found.found.graph) & ~case.links & case.judged[..., None]).any()


def test_delays_between_the_candidates_make_no_map_of_a_flow():
    """Lags cancel there, too, since they interpolate: most such records were maps."""
    samples = ndde.read_samples(sized.record("linear flow", 4000, 900, 5).x[:3000], dt=1.0)
    found, _, _ = choose_windows(samples, lags=sized.LAGS, scheme="auto", prior=None)
    assert found.windows.scheme == "midpoint" and found.readings.name == "flow"


@pytest.mark.parametrize("inside", [1, 20])
def test_products_are_read_by_the_search(inside):
    """The comparison has sums only: it was undecided about such flows, and read maps as flows."""
    rng, step = np.random.default_rng(6), 0.2 / inside
    x = np.zeros((inside * 600, 3))
    noise = rng.normal(size=x.shape) * np.sqrt(step) * [1.0, 1.0, 0.5]
    for k in range(2 * inside, len(x) - 1):
        drive = [0.0, 0.0, 1.8 * x[k - 2 * inside, 0] * x[k, 1]]
        x[k + 1] = x[k] + step * (drive - 0.75 * x[k]) + noise[k]
    samples = ndde.read_samples(x[100 * inside :: inside], dt=0.2)
    found, _, _ = choose_windows(samples, lags=tuple(range(6)), scheme="auto", prior=None)
    assert found.windows.scheme == ("euler" if inside == 1 else "midpoint")
    assert found.readings.name == ("map" if inside == 1 else "flow")
    assert np.argwhere(np.asarray(found.found.graph)[:2, 2]).tolist() == [[0, 2], [1, 0]]


def test_an_undecided_record_has_the_graph_of_a_map_that_is_likelier_in_the_search():
    rng = np.random.default_rng(18)
    noise, x = rng.normal(size=(450, 2)), np.zeros((450, 2))
    for t in range(10, 449):
        x[t + 1] = 0.5 * x[t] + noise[t] + [0, 0.4 * x[t - 2, 0]]
    samples = ndde.read_samples(x[50:], dt=1.0)
    found, (why,), _ = choose_windows(samples, lags=tuple(range(6)), scheme="auto", prior=None)
    assert 1 < found.readings.evidence < 3
    assert why.startswith("Map or flow is undecided") and "that of a map" in why
    links = [[0, 0, 0], [0, 1, 2], [1, 1, 0]]
    np.testing.assert_array_equal(np.argwhere(found.found.graph), links)


def test_what_is_held_does_not_tell_whether_others_flow():
    """Means of the last four samples, listed four times, follow a path as a flow does."""
    rng, x = np.random.default_rng(5), np.zeros((1200, 3))
    noise = 0.5 * rng.normal(size=(1200, 2))
    for t in range(3, 1200):
        x[t, 0] = 0.8 * x[t - 1, 0] + noise[t, 0]
        x[t, 1] = 0.6 * x[t - 1, 1] + 0.4 * x[t - 3, 0] + noise[t, 1]
    x[4:, 2] = np.repeat(x[:, 0].reshape(-1, 4).mean(axis=1)[:-1], 4)
    evidence = []
    for columns in ([0, 1], [0, 1, 2]):
        samples = ndde.read_samples(x[:, columns], dt=1.0)
        screened = choose_windows(samples, lags=(0, 1, 2, 3), scheme="auto", prior=None).screened
        assert screened.windows.scheme == "euler"
        evidence.append(screened.readings.evidence)
    np.testing.assert_allclose(*evidence, atol=1)


def test_rates_that_no_step_back_can_correct_stay_as_they_are():
    """Rain is forgotten within a step: traced back from its end, it is amplified."""
    rng, n = np.random.default_rng(0), 1500
    rain = np.where(rng.random(n) < 0.35, rng.gamma(0.7, 9.0, n), 0.0)
    store = np.zeros(n)
    for k in range(n - 1):
        store[k + 1] = 0.9 * store[k] + rain[k] * (1 + store[k] / 50)
    x = np.stack([rain, store], axis=1)
    steps = read_steps(x, dt=1.0, lags=(0, 1))
    model = fit_splines(at_midpoints(steps), np.ones((2, 2, 2), bool))
    met, plain = steps.corrected_by(model), steps.plain
    rates = np.asarray(met.increment)[np.asarray(met.valid)]
    # The part of the store explained by the present rain, before and after a correction.
    states = np.asarray(met.history)[np.asarray(met.valid)].reshape(len(rates), -1)
    left = rates[:, 1] - states @ np.linalg.lstsq(states, rates[:, 1], rcond=None)[0]
    assert rates[:, 1].var() < 1.3 and left.var() < 0.2
    traced = jax.jit(lambda following: correct_at_midpoints(plain, model, following, steps.bend))
    np.testing.assert_allclose(traced(steps.end).increment, met.increment, atol=2e-3)


def pulled_back(seed):
    """FitzHugh and Nagumo's equations with noise, for which lag 1 describes a rate as well as lag
    0.
    """
    rng, state, path = np.random.default_rng(seed), np.array([-1.0, 0.0]), []
    for k in range(2100 * 20):
        v, w = state
        drift = np.array([v - v**3 / 3 - w + 0.5, 0.08 * (v + 0.7 - 0.8 * w)])
        state = state + 0.025 * drift + 0.0067 * np.array([1.6, 0.6]) * rng.normal(size=2)
        if k % 20 == 19:
            path.append(state)
    return np.array(path[100:])


@pytest.mark.parametrize("seed", [1, 2])
def test_a_variable_that_is_pulled_back_follows_its_present_and_not_the_sample_before(seed):
    lags = tuple(range(8))
    found = ndde.discover(pulled_back(seed), dt=0.5, lags=lags, key=jax.random.key(0))
    assert found.windows.scheme == "midpoint"
    assert found.graph[:, :, 0].all() and not found.graph[:, :, 1:].any()


@pytest.mark.slow
def test_a_batch_of_what_is_pulled_back_follows_its_present():
    windows = [
        ndde.select.midpoint_windows(pulled_back(seed), dt=0.5, lags=tuple(range(8)))
        for seed in (1, 2)
    ]
    strategy = ndde.select.Default(networks=None)
    recover = lambda w: ndde.recover(w, strategy, key=jax.random.key(0)).graph  # noqa: E731
    graphs = np.asarray(jax.jit(jax.vmap(recover))(ndde.stack_windows(windows)))
    assert graphs[..., 0].all() and not graphs[..., 1:].any()
    for one, graph in zip(windows, graphs, strict=True):
        np.testing.assert_array_equal(recover(one), graph)
