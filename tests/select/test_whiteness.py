"""Whether noise was filtered or a signal is smooth, on systems whose noise is known."""

import jax
import numpy as np
import pytest
import scipy.signal

import ndde_jax as ndde
from ndde_jax.select import _midpoint
from ndde_jax.select._midpoint import SIGNAL, choose_windows, leaves_white_noise, memory_of_steps
from ndde_jax.windows._stencils import choose_scheme

STEPS = 20  # of the simulation in a sample
DT = 0.025


def spiky(n=2500, mean_over_steps=False, seed=0):
    """A flow whose fastest turns take a few samples, driven by white noise: that of Lü and Chen,
    *Int. J. Bifurcation Chaos* 12 (2002). Samples, or means over the steps between them.
    """
    rng = np.random.default_rng(seed)
    x, h, samples = np.array([0.1, 0.3, -0.6]), DT / STEPS, []
    for kick in 0.35 * np.sqrt(h) * rng.normal(size=(n, STEPS, 3)):
        path = []
        for own in kick:
            a, b, c = x
            drift = np.array([36 * (b - a), 18 * b - a * c, a * b - 3 * c])
            x = x + h * drift + own
            path.append(x)
        samples.append(np.mean(path, axis=0) if mean_over_steps else x)
    return np.array(samples)


def forward(x):
    return ndde.lagged_windows(x, dt=DT, scheme="euler")


def test_a_signal_that_falls_off_is_no_filter():
    x = spiky()
    windows = ndde.lagged_windows(x, dt=DT, scheme="auto")
    assert windows.scheme == "central4"  # what the increments alone look like
    assert leaves_white_noise(forward(x))
    samples = ndde.read_samples(x, dt=DT)
    screened, said = choose_windows(samples, lags=(0,), scheme="auto", prior=None)
    assert screened.windows.scheme == "midpoint" and said[0] == SIGNAL
    found = ndde.discover(samples, lags=(0,), key=jax.random.key(0))
    report = " ".join(found.report(full=True).split())
    assert SIGNAL in report
    assert "past states" not in found.windows.explain()  # there are none
    truth = np.array([[1, 1, 1], [1, 1, 1], [0, 1, 1]], bool)  # [source target]
    # What differences of so short-lived a signal err by is about 1e-4 of a rate's variance.
    strong = found.graph[..., 0] & (found.strengths.value[..., 0] > 2e-4)
    np.testing.assert_array_equal(strong, truth)
    words = ndde.equations(found.model.model, ["x", "y", "z"], digits=2)
    assert words[0].startswith(("dx/dt = -36 x + 36 y", "dx/dt = -37 x + 36 y"))
    assert words[1].startswith("dy/dt = 18 y - x z")


def test_a_law_is_corrected_by_what_it_does_in_a_step(monkeypatch):
    """Lorenz' model of the general circulation (*Tellus* 36A (1984), 98), a few samples a turn: its
    increments differ from its rates by more than noise, unless that is taken off.
    """
    rng = np.random.default_rng(3)
    dt, x, samples = 0.05, np.array([1.0, 0.5, 0.5]), []
    for kick in 0.05 * np.sqrt(dt / STEPS) * rng.normal(size=(2000, STEPS, 3)):
        for own in kick:
            a, b, c = x
            wind = -1.32 * a - b**2 - c**2 + 1.32 * 4.83
            waves = np.array([-b + a * b - 7.91 * a * c + 4.194, -c + 7.91 * a * b + a * c])
            x = x + dt / STEPS * np.array([wind, *waves]) + own
        samples.append(x)
    kilometres = 1e3 * np.array(samples) + 5.0  # of which the answer knows nothing
    windows = ndde.lagged_windows(kilometres, dt=dt, scheme="euler")
    assert leaves_white_noise(windows)
    monkeypatch.setattr(_midpoint, "ROUNDS", 0)
    assert not leaves_white_noise(windows)


def test_filtered_noise_is_not_white():
    x = spiky(mean_over_steps=True)
    assert not leaves_white_noise(forward(x))
    samples = ndde.read_samples(x, dt=DT)
    assert choose_windows(samples, lags=(0,), scheme="auto", prior=None)[1] == ()


def test_what_is_no_polynomial_is_not_white():
    assert not leaves_white_noise(forward(np.tanh(spiky() / 10)))


def test_means_of_brownian_motion_remember_a_quarter():
    fine = np.random.default_rng(0).normal(size=(20_000, STEPS, 2)).reshape(-1, 2).cumsum(axis=0)
    means = fine.reshape(-1, STEPS, 2).mean(axis=1)
    windows = forward(means)
    memory = memory_of_steps(windows, windows.increment)
    np.testing.assert_allclose(memory, 0.25, atol=0.03)
    samples = forward(fine[::STEPS])
    np.testing.assert_allclose(memory_of_steps(samples, samples.increment), 0, atol=0.03)


def test_steps_of_two_recordings_are_no_neighbours():
    rng = np.random.default_rng(1)
    steps = [rng.normal(size=(200, 1)) for _ in range(2)]
    steps[0][-1] = steps[1][0] = 1000.0  # one after the other, they would be all that counts
    windows = forward([np.concatenate([[[0.0]], s]).cumsum(axis=0) for s in steps])
    left = np.concatenate(steps)
    np.testing.assert_allclose(np.asarray(windows.valid).sum(), 400)
    first, second = (
        np.concatenate([s[cut, 0] for s in steps]) for cut in (slice(-1), slice(1, None))
    )
    expected = first @ second / np.sqrt(first @ first * (second @ second))
    np.testing.assert_allclose(memory_of_steps(windows, left), [expected], rtol=1e-5)
    assert abs(expected) < 0.1


def test_what_rings_is_not_asked_for_its_law(monkeypatch):
    """Resampled by Fourier transform, ends ring; a law would be fitted to the ringing."""
    x = scipy.signal.resample(spiky(n=800), 2400)
    samples = ndde.read_samples(x, dt=DT / 3)
    assert np.any(np.asarray(ndde.samples.end_ringing(x)) > 1.5)
    monkeypatch.setattr(_midpoint, "leaves_white_noise", lambda windows: pytest.fail("asked"))
    screened, said = choose_windows(samples, lags=(0,), scheme="auto", prior=None)
    assert screened.windows.scheme == "central4" and said == ()


@pytest.mark.parametrize("dim", [2, 13])
def test_past_states_and_many_variables_are_not_judged(dim):
    x = np.random.default_rng(2).normal(size=(100, dim)).cumsum(axis=0)
    lags = (0, 1) if dim == 2 else (0,)
    assert not leaves_white_noise(ndde.lagged_windows(x, dt=1.0, lags=lags, scheme="euler"))
    assert choose_scheme(np.full(dim, 0.01), np.full(dim, 0.5)) == "central4"


def test_a_polynomial_that_runs_away_within_a_step_leaves_nothing():
    """Hénon's map (1976), read as a flow: what its parabola does in six rounds is no number."""
    x = np.zeros((400, 2))
    x[0] = 0.3, 0.4
    for k in range(399):
        x[k + 1] = 1 - 1.4 * x[k, 0] ** 2 + 0.3 * x[k, 1], x[k, 0]
    assert not leaves_white_noise(ndde.lagged_windows(x, dt=10.0))
