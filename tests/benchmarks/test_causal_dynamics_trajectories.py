"""Generated trajectories of dysts' systems against SciPy, and the labels of the simple tier."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy import signal, stats
from scipy.integrate import solve_ivp

from benchmarks.causal_dynamics import trajectories
from benchmarks.causal_dynamics.trajectories import BATCH, flow, random_series, series_from
from ndde_jax.systems import _dysts

pytestmark = pytest.mark.slow  # of a benchmark that seldom changes and takes long to compile


def right_hand_side(name, parameters=None):
    """The trajectory of dysts itself, in NumPy."""
    parameters = parameters or _dysts._records()[name]["parameters"]
    parameters = {k: np.asarray(v) if isinstance(v, list) else v for k, v in parameters.items()}
    rhs = _dysts.in_numpy(name, parameters).rhs
    return lambda t, x: np.asarray(rhs(x, t), float)


def jacobian(rate, x, step=1e-6):
    """The graph `[target source]` by central differences."""
    columns = [
        (rate(0.0, x + step * e) - rate(0.0, x - step * e)) / (2 * step) for e in np.eye(len(x))
    ]
    return np.array(columns).T


# A polynomial field, a time-dependent one, and vectors of parameters with bounded phases.
@pytest.mark.parametrize("name", ["Lorenz84", "Torus", "BickleyJet"])
def test_series_without_noise_solve_the_equations(name):
    shares = np.array([0.3, 0.9])
    series = series_from(name, shares[:, None] * flow(name).start)
    times = np.linspace(0, 10 * flow(name).period, 1000)[:100]
    for share, found in zip(shares, series, strict=True):
        solution = solve_ivp(
            right_hand_side(name),
            (0, times[-1]),
            share * flow(name).start,
            method="DOP853",
            t_eval=times,
            rtol=1e-11,
            atol=1e-12,
        )
        expected = trajectories._postprocessed(name, solution.y.T)
        assert np.abs(found[:100] - expected).max() < 1e-6 * np.abs(expected).max()


def test_phases_are_mapped_into_a_bounded_range():
    series = series_from("Duffing", flow("Duffing").start[None])
    raw = np.random.default_rng(0).normal(size=(2, 5, 3))
    np.testing.assert_array_equal(
        trajectories._postprocessed("Duffing", raw)[..., 2], np.cos(raw[..., 2])
    )
    assert np.abs(series[..., 2]).max() <= 1


def test_series_with_noise_follow_the_stochastic_equation():
    """SciPy between kicks proportional to the start; then SciPy's resampling."""
    name, n_samples, noise = "Lorenz", 12, 2.0
    starts = np.array([0.4, 0.8])[:, None] * flow(name).start
    starts[1, 2] = 0.0  # a variable that starts at zero has no noise
    keys = jr.split(jr.key(5), 2)
    found = series_from(name, starts, noise=noise, keys=keys, n_samples=n_samples)

    n_fine = 50 * n_samples
    step = flow(name).period * n_samples / 100 / (n_fine - 1)
    with jax.enable_x64(True):
        wiener = np.asarray(trajectories._wiener(trajectories._second(keys), step, n_fine - 1))
    for series in range(2):
        x, path = starts[series], [starts[series]]
        for kick in wiener[:, :, series]:
            moved = solve_ivp(right_hand_side(name), (0, step), x, rtol=1e-9, atol=1e-11).y[:, -1]
            x = moved + noise * starts[series] * kick
            path.append(x)
        expected = signal.resample(np.array(path), n_samples, axis=0)
        np.testing.assert_allclose(found[series], expected, rtol=1e-6, atol=1e-6)


def test_increments_are_those_of_independent_wiener_processes():
    with jax.enable_x64(True):
        increments = trajectories._wiener(jr.split(jr.key(0), 4), 0.04, 2000)
    increments = np.asarray(increments).reshape(2000, -1) / 0.2
    assert stats.kstest(increments.ravel(), "norm").pvalue > 0.01
    correlations = np.corrcoef(increments.T) - np.eye(12)
    assert np.abs(correlations).max() < 4 / np.sqrt(2000)
    assert abs(np.corrcoef(increments[1:, 0], increments[:-1, 0])[0, 1]) < 4 / np.sqrt(2000)


@pytest.mark.parametrize("n_samples", [40, 41])
def test_thinning_is_that_of_scipy(n_samples):
    fine = np.random.default_rng(0).normal(size=(400, 3)).cumsum(axis=0)
    expected = signal.resample(fine, n_samples, axis=0)
    np.testing.assert_allclose(trajectories.thinned(jnp.asarray(fine), n_samples), expected)


def test_starts_are_a_uniform_share_of_the_initial_condition(monkeypatch):
    monkeypatch.setattr(trajectories, "_SUBSTEPS", 1)  # other tests check where they lead
    starts = random_series("Lorenz84", jr.split(jr.key(1), 40 * BATCH))[:, 0]
    shares = starts / flow("Lorenz84").start
    np.testing.assert_allclose(shares, np.repeat(shares[:, :1], 3, axis=1))
    assert stats.kstest(shares[:, 0], "uniform").pvalue > 0.01


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_a_series_depends_on_its_key_alone(noise):
    keys = jr.split(jr.key(2), BATCH + 2)
    together = random_series("Lorenz", keys, noise=noise)
    alone = random_series("Lorenz", keys[-1:], noise=noise)
    np.testing.assert_allclose(together[-1:], alone, rtol=1e-5, atol=1e-5)
    assert len({series.tobytes() for series in together}) == BATCH + 2
    again = random_series("Lorenz", keys, noise=noise)
    np.testing.assert_array_equal(together, again)


def test_more_samples_at_the_same_pace():
    keys = jr.split(jr.key(3), 2)
    plain, longer = (random_series("Lorenz", keys, n_samples=n) for n in (1000, 1005))
    assert longer.shape == (2, 1005, 3)
    np.testing.assert_allclose(plain[:, :50], longer[:, :50], rtol=1e-2, atol=1e-2)


# Labels


def test_number_of_systems():
    assert len(trajectories.systems_with_jacobian()) == 59
    assert len(trajectories.systems_for_roots()) == 102
    assert trajectories.published_graph("Dadras") is None


def test_published_labels_are_one_jacobian_at_ones():
    for name in trajectories.systems_with_jacobian():
        ones = dict.fromkeys(_dysts._records()[name]["parameters"], 1)
        for point in [(1, 1, 1), (1.1, 1.2, 1.3)]:
            numbers = jacobian(right_hand_side(name, ones), np.array(point, float))
            expected = np.abs(numbers.T) > 1e-6
            np.testing.assert_array_equal(trajectories.published_graph(name, point), expected, name)


@pytest.mark.parametrize("name", ["Lorenz84", "Lorenz", "Rossler", "LiuChen"])
def test_corrected_labels_are_jacobians_along_the_series(name):
    points = series_from(name, flow(name).start[None])[0, 100::60]
    rate = right_hand_side(name)
    strongest = np.max([np.abs(jacobian(rate, x, step=1e-5)) for x in points], axis=0)
    np.testing.assert_array_equal(trajectories.corrected_graph(name), strongest.T > 1e-6)


def test_published_labels_of_lorenz84_miss_what_is_there():
    published, true = (
        f("Lorenz84") for f in (trajectories.published_graph, trajectories.corrected_graph)
    )
    assert true.all()
    assert published.sum() == 6
