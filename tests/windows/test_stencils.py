"""Difference schemes, noise estimates and the rule that combines them."""

import math

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
import scipy.signal
from hypothesis import given, settings

from ndde_jax.samples._noise import pooled_noise_share, pooled_ringing, pooled_roll_off
from ndde_jax.samples._trajectories import read_trajectories
from ndde_jax.windows._stencils import (
    DOMINANT_SHARE,
    FILTERED_ROLL_OFF,
    NOISY_SHARE,
    RINGING,
    SMOOTH_SHARE,
    choose_scheme,
)
from ndde_jax.windows._windows import lagged_windows


def noise_share(x, t=None):
    return pooled_noise_share(read_trajectories(x, dt=1.0 if t is None else None, t=t))


def roll_off_of(x):
    return pooled_roll_off(read_trajectories(x, dt=1.0, t=None))


def ringing_of(x):
    return pooled_ringing(read_trajectories(x, dt=1.0, t=None))


def physical_rates(windows):
    scaling = windows.scaling
    return np.asarray(windows.increment * scaling.rate_scale[None] + scaling.rate_center[None])


def lorenz(sigma, n=20_000, dt=0.01, seed=0):
    """Euler-Maruyama, so that σ² dt is exactly the variance that noise adds to an increment."""
    rng = np.random.default_rng(seed)
    path, state = np.empty((n, 3)), np.array([1.0, 1.0, 20.0])
    for k in range(n):
        x, y, z = path[k] = state
        drift = np.array([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])
        state = state + drift * dt + sigma * math.sqrt(dt) * rng.normal(size=3)
    return path[500:]


def irregular_times(n, seed=0):
    return np.cumsum(np.random.default_rng(seed).uniform(0.5, 1.5, n))


@pytest.mark.parametrize("scheme, order", [("euler", 1), ("central", 2), ("central4", 4)])
def test_order_of_convergence(scheme, order):
    errors = []
    for n in (50, 100, 200):
        dt = 6.0 / n
        t = dt * np.arange(n)
        x = np.stack([np.sin(t), np.exp(0.3 * t)], axis=1)
        windows = lagged_windows(x, dt=dt, scheme=scheme)
        at = t[np.asarray(windows.position)]
        truth = np.stack([np.cos(at), 0.3 * np.exp(0.3 * at)], axis=1)
        errors.append(np.abs(physical_rates(windows) - truth).max(axis=0))
    measured = np.log2(np.array(errors[:-1]) / np.array(errors[1:]))
    np.testing.assert_allclose(measured, order, atol=0.15)


def brute_force_share(trajectories, times=None):
    """Sample by sample, with contrasts from the null space of polynomials."""
    squares, rates, inverse_steps = [], [], []
    for i, x in enumerate(trajectories):
        t = np.arange(len(x)) if times is None else times[i]
        for k in range(len(x) - 1):
            if np.isfinite(x[k : k + 2]).all():
                rates.append((x[k + 1] - x[k]) / (t[k + 1] - t[k]))
                inverse_steps.append(1 / (t[k + 1] - t[k]))
        for k in range(len(x) - 5):
            rows = x[k : k + 6]
            if np.isfinite(rows).all():
                steps = np.diff(t[k : k + 6])
                middle = (t[k : k + 5] + t[k + 1 : k + 6]) / 2 - t[k]
                c = scipy.linalg.null_space(np.vander(middle, 4).T)[:, 0]
                c = c / math.sqrt((c**2 / steps).sum())
                squares.append((c @ (np.diff(rows, axis=0) / steps[:, None])) ** 2)
    share = np.mean(squares, axis=0) * np.mean(inverse_steps) / np.var(rates, axis=0)
    return np.clip(share, 0, 1)


@settings(max_examples=25)
@given(
    st.lists(st.integers(8, 30), min_size=1, max_size=3),
    st.floats(0, 0.15),
    st.booleans(),
    st.integers(0, 10_000),
)
def test_share_equals_brute_force(lengths, missing, irregular, seed):
    rng = np.random.default_rng(seed)
    lengths = [40, *lengths]
    x = [np.sin(0.3 * np.arange(n))[:, None] + 0.1 * rng.normal(size=(n, 2)) for n in lengths]
    for series in x[1:]:
        series[rng.uniform(size=series.shape) < missing] = np.nan
    times = [irregular_times(n, seed) for n in lengths] if irregular else None
    # Shrink the noise of one variable, so that clipping does not hide the comparison.
    for series in x:
        series[:, 1] = 5 * np.sin(0.2 * np.arange(len(series))) + 0.02 * series[:, 1]
    expected = brute_force_share(x, times)
    np.testing.assert_allclose(noise_share(x, t=times), expected, rtol=1e-6, atol=1e-12)


def test_plain_formula_on_a_regular_grid():
    x = lorenz(1.0, n=2000)
    d = np.diff(x, axis=0)
    expected = (np.diff(d, n=4, axis=0) ** 2).mean(axis=0) / math.comb(8, 4) / d.var(axis=0)
    np.testing.assert_allclose(noise_share(x), expected, rtol=1e-9)


@pytest.mark.parametrize("sigma", [0.1, 1.0, 5.0, 20.0])
def test_share_of_dynamical_noise(sigma):
    x = lorenz(sigma)
    expected = sigma**2 * 0.01 / np.diff(x, axis=0).var(axis=0)
    np.testing.assert_allclose(noise_share(x), expected, rtol=0.15)


def test_share_of_an_ornstein_uhlenbeck_process():
    """A sine plus x[k+1] = (1 - r) x[k] + e: the expected share, exact and as documented."""
    n, r = 100_000, 0.05
    x = scipy.signal.lfilter([1.0], [1.0, r - 1], np.random.default_rng(1).normal(size=n))
    x = x + 20 * np.sin(0.1 * np.arange(n))
    c = np.array([math.comb(5, j) * (-1) ** j for j in range(6)])
    covariance = scipy.linalg.toeplitz((1 - r) ** np.arange(6)) / (1 - (1 - r) ** 2)
    variance = np.diff(x).var()
    share = noise_share(x)
    np.testing.assert_allclose(share, c @ covariance @ c / math.comb(8, 4) / variance, rtol=0.02)
    np.testing.assert_allclose(share, (1 + r) / variance, rtol=0.02)


def test_smooth_signal_has_no_noise():
    assert float(jnp.max(noise_share(lorenz(0.0)))) < 1e-6


def test_irregular_sampling_is_not_mistaken_for_noise():
    n = 20_000
    t = 0.05 * irregular_times(n)
    signal = 3 * np.sin(t)
    np.testing.assert_array_less(noise_share(signal, t=t), 1e-4)
    steps = np.sqrt(np.diff(t, prepend=0))
    walk = np.cumsum(0.3 * steps * np.random.default_rng(2).normal(size=n))
    d = np.diff(signal + walk) / np.diff(t)
    expected = 0.3**2 * np.mean(1 / np.diff(t)) / d.var()
    np.testing.assert_allclose(noise_share(signal + walk, t=t), [expected], rtol=0.1)


def test_share_needs_six_samples_and_variation():
    x = np.random.default_rng(5).normal(size=(30, 1))
    assert np.isnan(noise_share(x[:5])).all()
    assert np.isfinite(noise_share(x[:6])).all()
    x[::5] = np.nan
    assert np.isnan(noise_share(x)).all()
    # 0.1 k is a ramp up to rounding, which must not appear as noise.
    np.testing.assert_array_equal(noise_share(0.1 * np.arange(100)), [0.0])
    np.testing.assert_array_equal(noise_share(np.ones(100)), [0.0])


@pytest.mark.parametrize("regular", [True, False])
def test_share_traced(regular):
    x = lorenz(1.0, n=700)
    x[50] = np.nan
    t = None if regular else irregular_times(len(x))
    np.testing.assert_allclose(
        jax.jit(lambda x: noise_share(x, t=t))(x), noise_share(x, t=t), rtol=1e-9
    )


@pytest.mark.parametrize(
    "share, roll_off, scheme",
    [
        ([0.0, 0.0], 1.0, "central4"),
        ([SMOOTH_SHARE], 1.0, "central"),
        ([0.0, 2.1 * SMOOTH_SHARE], None, "central"),
        ([NOISY_SHARE], 1.0, "euler"),
        ([0.3, 0.0], FILTERED_ROLL_OFF, "euler"),
        ([0.3, 0.0], 0.9 * FILTERED_ROLL_OFF, "central4"),
        ([DOMINANT_SHARE], 0.5, "euler"),
        ([0.3], np.nan, "euler"),
        ([np.nan, 0.0], 0.5, "euler"),
    ],
)
def test_automatic_rule(share, roll_off, scheme):
    share = np.array(share)
    roll_off = None if roll_off is None else np.full(share.shape, roll_off)
    assert choose_scheme(share, roll_off) == scheme
    assert choose_scheme(share, roll_off, regular=False) == "euler"
    central = scheme in ("central", "central4") and np.mean(share) > 0
    delayed = choose_scheme(share, roll_off, delayed=True)
    assert delayed == ("midpoint" if central else scheme)
    assert choose_scheme(share, roll_off, regular=False, delayed=True) == "euler"


def test_roll_off_tells_white_from_filtered_noise():
    """Increments of a random walk are white; those of its band-limited version (FFT resampling)
    have power (2 sin(w/2) / w)^2, those of its averages the square of that.
    """
    rng = np.random.default_rng(0)
    fine = np.cumsum(rng.normal(size=(8 * 16384, 2)), axis=0)
    fine -= np.linspace(0, 1, len(fine))[:, None] * (fine[-1] - fine[0])[None]  # periodic
    white = roll_off_of(fine[::8])
    np.testing.assert_allclose(white, 1, atol=0.15)
    assert choose_scheme(np.array([0.3, 0.3]), white) == "euler"

    low, high = (np.pi * np.linspace(a, a + 0.25, 1001) for a in (0.5, 0.75))
    power = lambda w: np.mean((2 * np.sin(w / 2) / w) ** 2)  # noqa: E731
    filtered = roll_off_of(scipy.signal.resample(fine, 16384))
    np.testing.assert_allclose(filtered, power(high) / power(low), atol=0.15)
    assert choose_scheme(np.array([0.3, 0.3]), filtered) == "central4"

    averaged = roll_off_of(fine.reshape(16384, 8, 2).mean(axis=1))
    assert float(jnp.max(averaged)) < FILTERED_ROLL_OFF


def test_roll_off_uses_the_longest_stretch_and_needs_64_samples():
    walk = np.cumsum(np.random.default_rng(1).normal(size=(400, 1)), axis=0)
    broken = walk.copy()
    broken[100] = np.nan
    np.testing.assert_allclose(roll_off_of(broken), roll_off_of(walk[101:]))
    assert np.isnan(roll_off_of(walk[:63])).all()
    assert np.isnan(jax.jit(roll_off_of)(walk)).all()


def test_ringing_marks_series_resampled_as_if_periodic():
    """A random walk resampled by Fourier transform rings if it ends far from where it began."""
    rng = np.random.default_rng(2)
    fine = np.cumsum(rng.normal(size=(8000, 2)), axis=0)
    fine -= np.linspace(0, 1, len(fine))[:, None] * (fine[-1] - fine[0])[None]
    fine[:, 1] += np.linspace(0, 500, len(fine))
    resampled = scipy.signal.resample(fine, 1000)
    ringing = ringing_of(resampled)
    assert ringing[0] < 1 and ringing[1] > 10
    assert choose_scheme(np.full(2, 0.9), None, ringing) == "central4"
    assert choose_scheme(np.full(2, 0.9), None, ringing, delayed=True) == "central4"
    assert choose_scheme(np.full(2, 0.9), None, ringing, regular=False) == "euler"
    # The same noise sampled point by point does not ring, nor does noise with a burst at one end.
    assert np.all(ringing_of(fine[::8]) < RINGING)
    burst = fine[::8].copy()
    burst[:4] += 100 * rng.normal(size=(4, 2))
    assert np.all(ringing_of(burst) < RINGING)
    # One of several trajectories suffices; short, interrupted or traced ones do not count.
    np.testing.assert_allclose(ringing_of([fine[::8], resampled])[1], ringing[1])
    assert np.isnan(ringing_of(resampled[:63])).all()
    torn = np.where(np.arange(1000)[:, None] < 3, np.nan, resampled)
    assert np.isnan(ringing_of(torn)).all()
    assert np.isnan(jax.jit(ringing_of)(resampled)).all()


def test_automatic_windows_leave_out_ringing_ends():
    rng = np.random.default_rng(4)
    fine = np.cumsum(rng.normal(size=(4000, 2)), axis=0) + np.linspace(0, 900, 4000)[:, None]
    x = scipy.signal.resample(fine, 500)
    automatic = lagged_windows(x, dt=1.0, scheme="auto")
    chosen = lagged_windows(x, dt=1.0, scheme="central4")
    assert automatic.scheme == "central4"
    valid = np.asarray(automatic.position)[np.asarray(automatic.valid)]
    # The stencil reaches two samples further than the row itself.
    assert valid.min() - np.asarray(chosen.position)[np.asarray(chosen.valid)].min() == 20
    assert int(automatic.dropped) == int(chosen.dropped) + 40
    assert "omits up to 20 samples" in automatic.explain()


def test_ringing_is_rare_in_white_noise():
    walks = np.cumsum(np.random.default_rng(3).normal(size=(500, 200)), axis=0)
    ringing = ringing_of(walks)
    assert np.mean(ringing > RINGING) == 0 and np.mean(ringing > 1) < 0.02
