"""Lagged windows against loops over samples, and everything that must not change them."""

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import jax.test_util
import numpy as np
import pytest
from hypothesis import given, settings
from sklearn.preprocessing import StandardScaler

from ndde_jax.windows._windows import lagged_windows, stack_windows, unstack_windows

NEIGHBOURS = {"euler": (0, 1), "central": (-1, 1), "central4": (-2, -1, 1, 2)}
STACKED = ("history", "increment", "valid", "weight", "position")


def walks(*lengths, dim=2, seed=0, missing=0.0):
    rng = np.random.default_rng(seed)
    series = [rng.normal(size=(n, dim)).cumsum(axis=0) for n in lengths]
    for x in series:
        x[rng.uniform(size=x.shape) < missing] = np.nan
    return series


def difference(x, k, scheme, step):
    if scheme == "euler":
        return (x[k + 1] - x[k]) / step
    narrow = (x[k + 1] - x[k - 1]) / (2 * step)
    # Richardson extrapolation of two central differences gives the fourth order one.
    return narrow if scheme == "central" else (
        4 * narrow - (x[k + 2] - x[k - 2]) / (4 * step)
    ) / 3  # fmt: skip


def brute_force(series, times, lags, scheme):
    """Physical rows by a loop over samples: (trajectory, k, history, rate, step, usable)."""
    rows = []
    for i, (x, t) in enumerate(zip(series, times, strict=True)):
        for k in range(len(x)):
            touched = [k - lag for lag in lags] + [k + o for o in NEIGHBOURS[scheme]]
            if min(touched) < 0 or max(touched) >= len(x):
                continue
            step = t[min(k + 1, len(x) - 1)] - t[k]
            usable = not any(np.isnan(x[j]).any() for j in touched)
            history = np.stack([x[k - lag] for lag in lags])
            rows.append((i, k, history, difference(x, k, scheme, step), step, usable))
    return rows


def assert_windows_close(a, b, **tolerance):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(x, y, **tolerance)


@settings(max_examples=40)
@given(
    lengths=st.lists(st.integers(12, 40), min_size=1, max_size=3),
    dim=st.integers(1, 3),
    lags=st.sets(st.integers(0, 6), min_size=1, max_size=3),
    scheme=st.sampled_from(sorted(NEIGHBOURS)),
    missing=st.sampled_from([0.0, 0.02, 0.1]),
    irregular=st.booleans(),
    seed=st.integers(0, 10_000),
)
def test_equals_a_loop_over_samples(lengths, dim, lags, scheme, missing, irregular, seed):
    lags = tuple(sorted(lags))
    rng = np.random.default_rng(seed)
    series = walks(*lengths, dim=dim, seed=seed, missing=missing)
    if irregular:
        scheme = "euler"
        times = [np.cumsum(rng.uniform(0.5, 2.0, n)) for n in lengths]
    else:
        times = [0.3 * np.arange(n) for n in lengths]
    rows = brute_force(series, times, lags, scheme)
    usable = np.array([row[-1] for row in rows])
    clock = {"t": times} if irregular else {"dt": 0.3}
    if usable.sum() < dim + 1:
        with pytest.raises(ValueError, match="not even a linear drift"):
            lagged_windows(series, lags=lags, scheme=scheme, **clock)
        return
    windows = lagged_windows(series, lags=lags, scheme=scheme, **clock)

    history, rate, step = (np.array([row[i] for row in rows]) for i in (2, 3, 4))
    mean_step = np.concatenate([np.diff(t) for t in times]).mean()
    weight = np.where(usable, step / mean_step, 0)
    complete = np.concatenate(series)
    states = StandardScaler().fit(complete[~np.isnan(complete).any(axis=1)])
    rates = StandardScaler().fit(rate[usable], sample_weight=weight[usable])
    expected_history = np.where(usable[:, None, None], (history - states.mean_) / states.scale_, 0)
    expected_increment = np.where(usable[:, None], (rate - rates.mean_) / rates.scale_, 0)

    np.testing.assert_allclose(windows.history, expected_history, atol=1e-9)
    np.testing.assert_allclose(windows.increment, expected_increment, atol=1e-9)
    np.testing.assert_array_equal(windows.valid, usable)
    np.testing.assert_allclose(windows.weight, weight, rtol=1e-9)
    np.testing.assert_allclose(windows.scaling.center, states.mean_, atol=1e-12)
    np.testing.assert_allclose(windows.scaling.scale, states.scale_, rtol=1e-12)
    np.testing.assert_allclose(windows.scaling.rate_center, rates.mean_, atol=1e-12)
    np.testing.assert_allclose(windows.scaling.rate_scale, rates.scale_, rtol=1e-9)
    np.testing.assert_allclose(windows.dt, mean_step, rtol=1e-12)
    assert int(windows.dropped) == (~usable).sum()
    assert (int(windows.n_valid), windows.dim, windows.n_lags) == (usable.sum(), dim, len(lags))
    assert (windows.lags, windows.scheme) == (lags, scheme)


@pytest.mark.parametrize("scheme", sorted(NEIGHBOURS))
def test_positions_keep_trajectories_apart(scheme):
    lags = (0, 4)
    series = walks(20, 15, 18)
    windows = lagged_windows(series, dt=1.0, lags=lags, scheme=scheme)
    rows = brute_force(series, [np.arange(len(x)) for x in series], lags, scheme)
    owner, k = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    position = np.asarray(windows.position)
    np.testing.assert_array_equal(position[owner == 0], k[owner == 0])
    reach = max(lags) + max(NEIGHBOURS[scheme]) - min(NEIGHBOURS[scheme])
    for i in (1, 2):
        assert np.ptp((position - k)[owner == i]) == 0
        assert position[owner == i].min() - position[owner == i - 1].max() > reach


def test_ways_to_pass_the_same_data():
    series = walks(30, 30)
    expected = lagged_windows(series, dt=0.5, lags=(0, 2))
    masked = np.ma.masked_invalid(np.stack(series))
    for x in (
        tuple(series),
        np.stack(series),
        jnp.stack(series),
        masked,
        np.stack(series).tolist(),
    ):
        assert_windows_close(lagged_windows(x, dt=0.5, lags=np.array([0, 2])), expected)
    stamps = 3.0 + 0.5 * np.arange(30)
    for t in (stamps, [stamps, stamps], np.stack([stamps, stamps]), jnp.asarray(stamps)):
        assert_windows_close(lagged_windows(series, t=t, lags=[0, 2]), expected, rtol=1e-12)
    one = walks(30, dim=1)[0]
    assert_windows_close(lagged_windows(one[:, 0], dt=1), lagged_windows(one, dt=1.0))
    assert_windows_close(lagged_windows(one[:, 0].tolist(), dt=1), lagged_windows(one, dt=1.0))
    whole = (10 * one).round()
    assert_windows_close(lagged_windows(whole.astype(int), dt=1), lagged_windows(whole, dt=1))


def test_masked_values_are_missing():
    x = walks(30)[0]
    hidden = np.ma.masked_array(x, mask=np.arange(30)[:, None] == np.array([[7, -1]]))
    x = x.copy()
    x[7, 0] = np.nan
    assert_windows_close(lagged_windows(hidden, dt=1.0), lagged_windows(x, dt=1.0))


def test_large_rounded_stamps_are_regular():
    x = walks(200)[0]
    t = 1.7e9 + 0.01 * np.arange(200)  # seconds since 1970, rounded to 2e-7
    windows = lagged_windows(x, t=t, scheme="central")
    np.testing.assert_allclose(windows.dt, 0.01, rtol=1e-6)
    np.testing.assert_array_equal(windows.weight, 1.0)


@settings(max_examples=25)
@given(
    scale=st.floats(1e-3, 1e3),
    sign=st.sampled_from([-1, 1]),
    offset=st.floats(-1e3, 1e3),
    dt=st.floats(1e-3, 1e3),
    scheme=st.sampled_from(sorted(NEIGHBOURS)),
    seed=st.integers(0, 1000),
)
def test_units_do_not_matter(scale, sign, offset, dt, scheme, seed):
    x = walks(40, dim=3, seed=seed, missing=0.01)[0]
    lags = (1, 3)
    a = lagged_windows(x, dt=1.0, lags=lags, scheme=scheme)
    b = lagged_windows(sign * scale * x + offset, dt=dt, lags=lags, scheme=scheme)
    np.testing.assert_allclose(b.history, sign * a.history, atol=1e-6)
    np.testing.assert_allclose(b.increment, sign * a.increment, atol=1e-6)
    np.testing.assert_allclose(b.noise_share, a.noise_share, rtol=1e-6)
    np.testing.assert_allclose(b.scaling.rate_scale, a.scaling.rate_scale * scale / dt, rtol=1e-6)


@settings(max_examples=10)
@given(order=st.permutations(range(4)), seed=st.integers(0, 1000))
def test_permuting_variables_permutes(order, seed):
    x = walks(30, dim=4, seed=seed, missing=0.01)[0]
    order = np.array(order)
    a, b = lagged_windows(x, dt=1.0), lagged_windows(x[:, order], dt=1.0)
    np.testing.assert_allclose(b.history, a.history[..., order], rtol=1e-12)
    np.testing.assert_allclose(b.increment, a.increment[..., order], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(b.scaling.scale, a.scaling.scale[order], rtol=1e-12)
    np.testing.assert_array_equal(b.valid, a.valid)


def test_constant_rate_is_no_division_by_zero():
    x = np.stack([0.1 * np.arange(50), np.sin(np.arange(50))], axis=1)
    windows = lagged_windows(x, dt=0.5)
    np.testing.assert_array_equal(windows.increment[:, 0], 0.0)
    np.testing.assert_allclose(windows.scaling.rate_center[0], 0.2)
    assert float(windows.scaling.rate_scale[0]) > 0


# ------------------------------------------------------------------ precision and transformations


def test_types_follow_the_input():
    x = walks(30)[0]
    for value in (x, x.astype(np.float32), jnp.asarray(x)):
        assert lagged_windows(value, dt=1.0).history.dtype == jnp.float64
    for value in (jnp.asarray(x, jnp.float32), [jnp.asarray(x, jnp.float32)]):
        windows = lagged_windows(value, dt=1.0)
        floats = [a for a in jax.tree.leaves(windows) if jnp.issubdtype(a.dtype, jnp.floating)]
        assert {a.dtype for a in floats} == {jnp.dtype(jnp.float32)}
    with jax.enable_x64(False):
        assert lagged_windows(x, dt=1.0).history.dtype == jnp.float32
        assert lagged_windows(x, dt=1.0).position.dtype == jnp.int32


@pytest.mark.parametrize("scheme", sorted(NEIGHBOURS))
@pytest.mark.parametrize("transform", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_single_precision_with_a_large_offset(transform, scheme):
    # Multiples of 1/8 below 2^20 + 2^10: exact in single precision.
    x = (8 * walks(300)[0]).round() / 8
    expected = lagged_windows(x, dt=0.1, lags=(0, 3), scheme=scheme)
    shifted = jnp.asarray(x + 2.0**20, jnp.float32)
    np.testing.assert_array_equal(np.asarray(shifted, np.float64) - 2.0**20, x)
    make = transform(lambda x: lagged_windows(x, dt=0.1, lags=(0, 3), scheme=scheme))
    windows = make(shifted)
    assert windows.history.dtype == jnp.float32
    np.testing.assert_allclose(windows.history, expected.history, atol=2e-5)
    np.testing.assert_allclose(windows.increment, expected.increment, atol=2e-5)


@pytest.mark.parametrize("scheme", sorted(NEIGHBOURS))
def test_jit_and_vmap_equal_eager_and_stack(scheme):
    """`jit` alone: `test_single_precision_with_a_large_offset`."""
    series = np.stack(walks(40, 40, 40, missing=0.02))

    def make(x, dt):
        return lagged_windows(x, dt=dt, lags=(0, 2), scheme=scheme)

    eager = [make(x, 0.3) for x in series]
    batched = jax.jit(jax.vmap(make, in_axes=(0, None)))(series, 0.3)
    assert_windows_close(batched, stack_windows(eager), atol=1e-12)


def test_traced_times():
    x = walks(40, missing=0.02)[0]
    t = np.cumsum(np.random.default_rng(1).uniform(0.5, 2.0, 40))
    expected = lagged_windows(x, t=t, lags=(0, 2))
    for make in (
        lambda x, _: lagged_windows(x, t=t, lags=(0, 2)),
        lambda _, t: lagged_windows(x, t=t, lags=(0, 2)),
    ):
        assert_windows_close(jax.jit(make)(x, t), expected, atol=1e-12)


@pytest.mark.parametrize("scheme", sorted(NEIGHBOURS))
def test_gradient_with_respect_to_the_data(scheme):
    x = walks(12, dim=2)[0]

    def score(x):
        w = lagged_windows(x, dt=0.3, lags=(0, 2), scheme=scheme)
        return jnp.sum(w.increment**3) + jnp.sum(jnp.tanh(w.history)) + w.scaling.rate_scale[0]

    score = jax.jit(score)
    jax.test_util.check_grads(score, (x,), order=1, modes=("fwd", "rev"), atol=1e-5, rtol=1e-5)


def test_gradient_with_missing_and_constant_values_is_finite():
    x = walks(20, dim=2)[0]
    x[5, 0] = np.nan
    x[:, 1] = 2.0

    def make(x):
        return lagged_windows(x, dt=0.3)

    windows = jax.jit(make)(x)
    np.testing.assert_array_equal(windows.history[..., 1], 0.0)
    np.testing.assert_array_equal(windows.increment[..., 1], 0.0)

    def score(x):
        w = make(x)
        return sum(jnp.sum(a**2) for a in (w.history, w.increment, w.noise_share))

    gradient = jax.jit(jax.grad(score))(x)
    assert np.isfinite(gradient).all()
    np.testing.assert_array_equal(gradient[5], 0.0)


def test_noise_share_carries_no_gradient():
    x = np.sin(0.3 * np.arange(40)) + 0.01 * np.random.default_rng(0).normal(size=40)
    assert 0 < float(lagged_windows(x, dt=0.3).noise_share[0]) < 1
    gradient = jax.jit(jax.grad(lambda x: lagged_windows(x, dt=0.3).noise_share[0]))(x)
    np.testing.assert_array_equal(gradient, 0.0)


def test_nothing_valid_stays_finite_under_jit():
    x = jnp.full((20, 2), jnp.nan)
    windows = jax.jit(lambda x: lagged_windows(x, dt=0.3))(x)
    assert int(windows.n_valid) == 0
    for name in STACKED:
        np.testing.assert_array_equal(np.isfinite(getattr(windows, name)), True)


# ------------------------------------------------------------------------------------ stacking


@settings(max_examples=15)
@given(st.lists(st.integers(12, 40), min_size=1, max_size=4), st.integers(0, 1000))
def test_padding_changes_nothing(lengths, seed):
    alone = [
        lagged_windows(x, dt=1.0, lags=(0, 3)) for x in walks(*lengths, seed=seed, missing=0.01)
    ]
    batch = stack_windows(alone)
    np.testing.assert_array_equal(batch.n_valid, [int(w.n_valid) for w in alone])
    for w, padded in zip(alone, unstack_windows(batch), strict=True):
        w, padded = jax.tree.map(np.asarray, (w, padded))
        n = len(w.valid)
        for name in STACKED:
            np.testing.assert_array_equal(getattr(padded, name)[:n], getattr(w, name))
        for name in ("history", "increment", "valid", "weight"):
            assert not np.any(getattr(padded, name)[n:])
        assert (np.diff(padded.position[n - 1 :]) == 1).all()
        for name in ("scaling", "dt", "noise_share", "dropped"):
            for a, b in zip(
                jax.tree.leaves(getattr(padded, name)),
                jax.tree.leaves(getattr(w, name)),
                strict=True,
            ):
                np.testing.assert_array_equal(a, b)
        assert (padded.lags, padded.scheme) == (w.lags, w.scheme)

        def risk(w):
            residual = w.increment - np.tanh(w.history[:, 0] - 0.5 * w.history[:, 1])
            return (w.weight @ residual**2) / w.weight.sum()

        np.testing.assert_allclose(risk(padded), risk(w), rtol=1e-12)


def test_stack_is_differentiable():
    a, b = walks(12, 9)

    def total(a, b):
        batch = stack_windows([lagged_windows(a, dt=1.0), lagged_windows(b, dt=1.0)])
        return jnp.sum(batch.increment**3)

    gradient = jax.jit(jax.grad(total, argnums=1))(a, b)
    alone = jax.jit(jax.grad(lambda b: jnp.sum(lagged_windows(b, dt=1.0).increment ** 3)))(b)
    np.testing.assert_allclose(gradient, alone, atol=1e-12)


def test_stack_refuses_what_differs():
    x = walks(30)[0]
    w = lagged_windows(x, dt=1.0)
    with pytest.raises(ValueError, match="at least one"):
        stack_windows([])
    with pytest.raises(ValueError, match=r"lags of windows 2 is \(0, 1\), of windows 0 \(0,\)"):
        stack_windows([w, w, lagged_windows(x, dt=1.0, lags=(0, 1))])
    with pytest.raises(ValueError, match="scheme of windows 1 is 'central'"):
        stack_windows([w, lagged_windows(x, dt=1.0, scheme="central")])
    with pytest.raises(ValueError, match="dim of windows 1 is 1, of windows 0 2"):
        stack_windows([w, lagged_windows(x[:, :1], dt=1.0)])
    with pytest.raises(ValueError, match="windows 0 already has a batch axis"):
        stack_windows([stack_windows([w])])
    with pytest.raises(ValueError, match="unstack_windows needs one batch axis"):
        unstack_windows(w)
