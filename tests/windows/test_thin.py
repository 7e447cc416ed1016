"""Coarser and shorter versions of windows, against windows cut from thinned samples."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax.fit._flow import correct_at_midpoints
from ndde_jax.windows._windows import half_blocks


def walk(n=120, dim=2, seed=0):
    return np.random.default_rng(seed).normal(size=(n, dim)).cumsum(axis=0)


def physical(windows):
    """Histories and rates by position, in units of the data."""
    s = jax.tree.map(np.asarray, windows.scaling)
    history = np.asarray(windows.history) * s.scale + s.center
    rate = np.asarray(windows.increment) * s.rate_scale + s.rate_center
    valid = np.asarray(windows.valid)
    position = np.asarray(windows.position)[valid]
    rows = zip(history[valid], rate[valid], strict=True)
    return dict(zip(position.tolist(), rows, strict=True))


def assert_same(found, expected):
    assert found and set(found) <= set(expected)
    for position, (history, rate) in found.items():
        np.testing.assert_allclose(history, expected[position][0], rtol=1e-9)
        np.testing.assert_allclose(rate, expected[position][1], rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("scheme", ["euler", "central", "central4"])
@pytest.mark.parametrize("factor", [2, 3])
def test_thinning_is_what_thinned_samples_give(scheme, factor):
    x = walk()
    thinned = ndde.windows.thin_windows(
        ndde.lagged_windows(x, dt=0.5, lags=(0, 6), scheme=scheme), factor
    )
    direct = ndde.lagged_windows(x[::factor], dt=0.5 * factor, lags=(0, 6 // factor), scheme=scheme)
    expected = {factor * position: row for position, row in physical(direct).items()}
    assert_same(physical(thinned), expected)
    # Only the possible rows at the ends are missing.
    assert len(expected) - int(thinned.n_valid) <= 4
    assert thinned.lags == (0, 6) and float(thinned.dt) == 0.5
    np.testing.assert_allclose(jnp.mean(thinned.increment, axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(jnp.std(thinned.increment, axis=0), 1, rtol=1e-9)


@pytest.mark.parametrize("old, new", [("euler", "central"), ("central4", "euler")])
def test_another_scheme(old, new):
    x = walk()
    x[40] = np.nan
    changed = ndde.windows.thin_windows(ndde.lagged_windows(x, dt=0.5, scheme=old), 1, scheme=new)
    assert changed.scheme == new
    assert_same(physical(changed), physical(ndde.lagged_windows(x, dt=0.5, scheme=new)))
    assert int(changed.n_valid) > 100


def test_missing_values_and_several_trajectories():
    x = walk()
    x[50] = np.nan
    w = ndde.lagged_windows([x, walk(60, seed=1)], dt=1.0, lags=(0, 2), scheme="euler")
    thinned = physical(ndde.windows.thin_windows(w, 2))
    rows = physical(w)
    for position, (_, rate) in thinned.items():
        # Two steps ahead, known from the next rows: the mean of two forward differences.
        np.testing.assert_allclose(rate, (rows[position][1] + rows[position + 1][1]) / 2, rtol=1e-8)


@pytest.fixture(scope="module")
def thinned_twice():
    """An oscillator with noise, its windows thinned by 2 and by 2 again, and those of every fourth
    sample, which were never thinned.
    """
    rng, x = np.random.default_rng(3), np.zeros((1600, 2))
    for k in range(len(x) - 1):
        drift = np.array([x[k, 1], -x[k, 0] - 0.5 * x[k, 1]])
        x[k + 1] = x[k] + 0.05 * drift + np.sqrt(0.05) * np.array([0.3, 0.4]) * rng.normal(size=2)
    windows = ndde.lagged_windows(x, dt=0.05, lags=(0, 8))
    thinned = ndde.windows.thin_windows(ndde.windows.thin_windows(windows, 2), 2)
    return windows, thinned, ndde.lagged_windows(x[::4], dt=0.2, lags=(0, 2))


@pytest.fixture(scope="module")
def linear():
    """A drift of the present and of the state .4 earlier, in units of either sampling."""

    class Linear(eqx.Module):
        lags: tuple[int, ...] = eqx.field(static=True)

        def __call__(self, history):
            now, then = history[0], history[1]
            return jnp.stack([now[1] - 0.2 * then[0], -now[0] - 0.5 * now[1] + 0.3 * then[1]])

    return Linear


def test_thinned_windows_know_their_step(thinned_twice, linear):
    """Noise, flow and memory are those of windows that were cut from every fourth sample."""
    windows, thinned, direct = thinned_twice
    assert (windows.step, thinned.step, direct.step) == (1, 4, 1)
    assert thinned.reach == 8 + 4 * 4 and direct.reach == 2 + 4
    ours, theirs = linear((0, 8)), linear((0, 2))
    corrected = physical(correct_at_midpoints(thinned, ours))
    expected = physical(correct_at_midpoints(direct, theirs))
    offset = int(thinned.position[0]) - 4 * int(direct.position[0])
    shifted = {4 * position + offset: row for position, row in expected.items()}
    # The last row has no next one that supplies the past, and the first may be cut off.
    assert_same({k: v for k, v in corrected.items() if k != max(corrected)}, shifted)
    np.testing.assert_allclose(
        ndde.check.noise_covariance(thinned, ours),
        ndde.check.noise_covariance(direct, theirs),
        rtol=0.05,
    )
    np.testing.assert_allclose(
        ndde.check.residual_memory(thinned, ours),
        ndde.check.residual_memory(direct, theirs),
        atol=0.02,
    )


@pytest.mark.parametrize("scheme", ["euler", "central"])
@pytest.mark.parametrize("factor", [2, 4])
def test_noise_per_unit_of_time_does_not_depend_on_thinning(thinned_twice, linear, scheme, factor):
    """It used to fall as 1 / factor."""
    windows, _, _ = thinned_twice
    thinned = ndde.windows.thin_windows(windows, factor, scheme=scheme)
    found = np.diagonal(ndde.check.noise_covariance(thinned, linear((0, 8))))
    np.testing.assert_allclose(found, [0.09, 0.16], rtol=0.25)


def test_windows_of_unlike_steps_do_not_stack(thinned_twice):
    windows, thinned, _ = thinned_twice
    with pytest.raises(ValueError, match="step of windows 1 is 4, of windows 0 1"):
        ndde.stack_windows([windows, thinned])


def test_refusals():
    w = ndde.lagged_windows(walk(), dt=1.0)
    with pytest.raises(ValueError, match="factor must be at least 1"):
        ndde.windows.thin_windows(w, 0)
    with pytest.raises(ValueError, match="midpoint hold states between samples"):
        ndde.windows.thin_windows(ndde.select.midpoint_windows(walk(60), dt=1.0))
    with pytest.raises(ValueError, match="scheme must be one of"):
        ndde.windows.thin_windows(w, 2, scheme="auto")
    with pytest.raises(ValueError, match="Use a smaller factor"):
        ndde.windows.thin_windows(w, 60)
    with pytest.raises(ValueError, match="one system"):
        ndde.windows.thin_windows(ndde.stack_windows([w, w]))
    stamps = np.arange(120.0) ** 1.1
    with pytest.raises(ValueError, match="equally spaced"):
        ndde.windows.thin_windows(ndde.lagged_windows(walk(), t=stamps))


def test_halves_are_contiguous_and_equally_long():
    x = walk(101)
    x[30] = np.nan
    w = ndde.lagged_windows(x, dt=1.0, lags=(0, 1))
    first, middle, last = half_blocks(w)
    used = np.asarray(w.position)[np.asarray(w.valid)]
    half = len(used) // 2
    for block in (first, middle, last):
        assert block.history.shape[0] == half and bool(block.valid.all())
        start = int(np.flatnonzero(used == int(block.position[0]))[0])
        np.testing.assert_array_equal(block.position, used[start : start + half])
    assert int(first.position[0]) == used[0] and int(last.position[-1]) == used[-1]
    assert used[0] < int(middle.position[0]) < used[half]
