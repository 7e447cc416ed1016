"""Deferred correction of forward differences, and averages of networks."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.linalg import expm

import ndde_jax as ndde
from ndde_jax.fit._flow import _merge_networks, correct_at_midpoints
from ndde_jax.fit._newton import fit_network, predict

SMALL = ndde.fitting.StrengthConfig(restarts=1, steps=20, width=4, depth=1)
# A damped oscillator, strongly coupled, sampled coarsely: Euler's bias is a fifth of the drift.
MATRIX = np.array([[-0.1, 1.5], [-1.5, -0.2]])
DT = 0.2


def oscillator(n=500, noise=0.3, seed=0):
    """Exact samples of dX = A X dt + noise dW, up to the shape of the noise within one step."""
    rng = np.random.default_rng(seed)
    step, x = expm(DT * MATRIX), np.zeros((n, 2))
    for k in range(n - 1):
        x[k + 1] = step @ x[k] + noise * np.sqrt(DT) * rng.normal(size=2)
    return x


class Linear(eqx.Module):
    """x' = A x, with the attributes of a learned model."""

    matrix: jax.Array
    lags: tuple = eqx.field(static=True, default=(0,))

    def __call__(self, history):
        return self.matrix @ history[0]


def drift_error(model, x):
    found = jax.vmap(lambda y: model(y[None]))(jnp.asarray(x))
    truth = x @ MATRIX.T
    return np.sqrt(np.mean((found - truth) ** 2) / np.var(truth))


def test_steps_across_gaps_and_padding_are_not_interpolated():
    x = oscillator(60)
    x[30] = np.nan
    windows = ndde.lagged_windows(x, dt=DT)
    padded = ndde.stack_windows([windows, ndde.lagged_windows(oscillator(90), dt=DT)])
    one = ndde.windows.unstack_windows(padded)[0]
    model = Linear(jnp.asarray(MATRIX))
    expected = correct_at_midpoints(windows, model).increment
    found = correct_at_midpoints(one, model).increment
    np.testing.assert_allclose(found[: len(expected)], expected)
    assert not np.asarray(expected)[~np.asarray(windows.valid)].any()


def physical(windows):
    s = windows.scaling
    states = windows.history * s.scale[None, None] + s.center[None, None]
    return states, windows.increment * s.rate_scale[None] + s.rate_center[None]


def test_the_true_model_meets_in_the_middle():
    x = np.stack([expm(DT * k * MATRIX) @ [1.0, 0.5] for k in range(80)])
    states, rate = physical(
        correct_at_midpoints(ndde.lagged_windows(x, dt=DT), Linear(jnp.asarray(MATRIX)))
    )
    expected = x[:-1] @ expm(DT / 2 * MATRIX).T
    # Two Runge–Kutta steps of half the length: h⁴/120 ‖A‖⁵ / 16.
    np.testing.assert_allclose(states[:, 0], expected, atol=2e-5)
    np.testing.assert_allclose(rate, expected @ MATRIX.T, atol=2e-5)


def test_how_far_a_slightly_wrong_model_misleads_the_correction():
    right, wrong = (Linear(jnp.asarray(MATRIX + 1e-4 * by)) for by in (0, MATRIX**2 - 1))

    def error(dt):
        x = np.stack([expm(dt * k * MATRIX) @ [1.0, 0.5] for k in range(round(6 / dt))])
        missed = []
        for model in (right, wrong):
            states, rate = physical(correct_at_midpoints(ndde.lagged_windows(x, dt=dt), model))
            missed.append(rate - states[:, 0] @ MATRIX.T)
        return np.abs(missed[1] - missed[0]).max()

    errors = [error(dt) for dt in (0.4, 0.2, 0.1)]
    np.testing.assert_allclose(np.log2(np.divide(errors[:-1], errors[1:])), 2, atol=0.2)


def test_the_past_at_the_middle_of_a_step_is_interpolated():
    past = 1 + DT * np.arange(60)
    x = np.stack([past, np.cumsum(past)], axis=1)
    windows = ndde.lagged_windows(x, dt=DT, lags=(3,))  # the present state is not an input

    class Delayed(eqx.Module):
        lags: tuple = eqx.field(static=True, default=(3,))

        def __call__(self, history):
            return jnp.stack([0.0 * history[0, 0], history[0, 0] ** 2])

    states, rate = physical(correct_at_midpoints(windows, Delayed()))
    _, before = physical(windows)
    a, b = past[:-4], past[1:-3]
    np.testing.assert_allclose(states[:-1, 0, 0], ((a + b) / 2)[:-1])
    middle = ((a + b) / 2) ** 2 - (a**2 + a * b + b**2) / 3
    np.testing.assert_allclose((rate - before)[:-1, 1], middle[:-1], atol=1e-12)
    # In the last row the past is held constant, because no next row continues it.
    np.testing.assert_allclose(states[-1, 0, 0], past[-5])
    np.testing.assert_allclose((rate - before)[-1], 0, atol=1e-12)
    np.testing.assert_allclose((rate - before)[:, 0], 0, atol=1e-12)


def test_a_model_that_explodes_within_a_step_corrects_nothing():
    windows = ndde.lagged_windows(oscillator(60), dt=DT)
    found = correct_at_midpoints(windows, Linear(jnp.full((2, 2), jnp.inf)))
    np.testing.assert_array_equal(found.history, windows.history)
    np.testing.assert_array_equal(found.increment, windows.increment)


def test_three_rounds_are_enough_where_a_step_is_long():
    """1.2 radians per step: corrections at the start of each step would not converge at all."""
    dt, x = 0.8, np.zeros((3000, 2))
    rng, step = np.random.default_rng(0), expm(0.8 * MATRIX)
    for k in range(len(x) - 1):
        x[k + 1] = step @ x[k] + 0.1 * rng.normal(size=2)
    model = ndde.fitting.fit_flow(
        ndde.lagged_windows(x, dt=dt), key=jr.key(0), rounds=3, family="polynomial"
    )
    jacobian = jax.jacfwd(model)(jnp.zeros((1, 2)))[:, 0]
    np.testing.assert_allclose(jacobian, MATRIX, atol=0.1)


@pytest.mark.slow
def test_a_fitted_flow_is_unbiased_where_plain_differences_are_not():
    x = oscillator(6000)
    windows = ndde.lagged_windows(x, dt=DT)
    plain = ndde.fitting.fit_flow(windows, key=jr.key(0), members=1, rounds=0, config=SMALL)
    model = ndde.fitting.fit_flow(windows, key=jr.key(0), members=2, rounds=6, config=SMALL)
    assert drift_error(plain, x) > 0.12
    assert drift_error(model, x) < 0.08


@pytest.mark.slow
def test_the_mask_of_a_fitted_flow_is_the_graph():
    windows = ndde.lagged_windows(oscillator(), dt=DT)
    graph = jnp.asarray([[True, True], [False, True]])[:, :, None]
    model = ndde.fitting.fit_flow(windows, graph, key=jr.key(0), members=2, rounds=1, config=SMALL)
    jacobian = jax.jacfwd(model)(jnp.array([[0.3, 0.2]]))[:, 0]
    np.testing.assert_array_equal(np.asarray(jacobian) != 0, graph[..., 0].T)


def test_central_differences_are_not_corrected():
    windows = ndde.lagged_windows(oscillator(), dt=DT, scheme="central4")
    options = dict(key=jr.key(0), family="polynomial")
    fits = [ndde.fitting.fit_flow(windows, rounds=rounds, **options) for rounds in (0, 3)]
    point = jnp.array([[1.3, 0.2]])
    np.testing.assert_array_equal(fits[0](point), fits[1](point))


def test_the_flow_of_a_constant_variable_is_nan():
    windows = ndde.lagged_windows(oscillator(100), dt=DT)
    still = eqx.tree_at(lambda w: w.scaling.scale, windows, jnp.array([1.0, 0.0]))
    model = ndde.fitting.fit_flow(still, key=jr.key(0), rounds=0, family="polynomial")
    assert jnp.isnan(model(jnp.ones((1, 2)))).all()


def test_side_by_side_networks_are_their_weighted_mean():
    from ndde_jax.models._networks import init_layers

    members = init_layers(3, 4, width=5, depth=2, key=jr.key(0))
    share = jnp.array([0.2, 0.0, 0.8])
    inputs = jr.normal(jr.key(1), (7, 4))
    each = jax.vmap(lambda network: predict(network, inputs))(members)
    np.testing.assert_allclose(
        predict(_merge_networks(members, share), inputs), share @ each, rtol=1e-9
    )


def test_a_decay_per_layer_lets_a_linear_function_be_cheap():
    """With one decay for all, few linear data are fitted with more parameters than justified."""
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(200, 3))
    output = jnp.asarray(inputs @ [1.0, -2.0, 0.5] + 0.3 * rng.normal(size=200))
    new = jnp.asarray(rng.normal(size=(2000, 3)))
    from ndde_jax.models._networks import init_layers

    start = jax.tree.map(lambda a: a[0], init_layers(1, 3, width=8, depth=2, key=jr.key(2)))
    run = eqx.filter_jit(fit_network)
    fits = {
        each: run(
            start,
            jnp.asarray(inputs),
            output,
            jnp.ones(200),
            n_iterations=60,
            decay_per_layer=each,
        )
        for each in (False, True)
    }
    truth = np.asarray(new) @ [1.0, -2.0, 0.5]
    error = {
        each: np.sqrt(np.mean((predict(f.network, new) - truth) ** 2)) for each, f in fits.items()
    }
    assert fits[True].decay.shape == (6,)
    assert fits[False].decay.shape == ()
    assert error[True] < 0.9 * error[False]
    assert fits[True].n_effective < fits[False].n_effective


@pytest.mark.parametrize(
    "call,message",
    [
        (
            lambda w: ndde.fitting.fit_flow(w, key=jr.key(0), members=0),
            "members must be at least 1",
        ),
        (
            lambda w: ndde.fitting.fit_flow(w, key=jr.key(0), rounds=-1),
            "rounds must not be negative",
        ),
        (lambda w: ndde.fitting.fit_flow(w, jnp.ones((2, 2)), key=jr.key(0)), "graph must be"),
    ],
)
def test_unusable_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(ndde.lagged_windows(oscillator(), dt=DT))


def test_networks_under_jit_are_those_of_an_eager_call():
    """Random starts depend on the inputs that there is room for, and these on the graph alone."""
    windows = ndde.lagged_windows(oscillator(n=120), dt=DT, lags=(0, 1, 2, 3, 4), scheme="central")
    graph = np.zeros((2, 2, 5), bool)
    graph[:, :, 0] = True
    family = ndde.models.Networks(members=1, width=2, depth=1, steps=5)

    def drift(windows):
        return ndde.fit_drift(windows, graph, family, key=jr.key(0))(windows.history[0])

    np.testing.assert_allclose(jax.jit(drift)(windows), drift(windows), rtol=1e-6)
