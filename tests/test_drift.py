"""Networks per target against loops in NumPy, derivatives against JAX, training against SciPy."""

import itertools
import math

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.optimize
from jax.flatten_util import ravel_pytree

import ndde_jax as ndde
from ndde_jax._drift import apply_layers, init_layers, squared_input_gradient
from ndde_jax._levenberg import (
    fit_network,
    predict,
    predict_and_jacobian,
    select_inputs,
    stack_network,
)

DIM, N_LAGS = 3, 2
SHAPES = [(8, 2), (5, 1), (4, 3)]  # width, depth


# Compiled once for each shape and number of steps, which dominates the time of these tests.
fitted = jax.jit(fit_network, static_argnames="n_iterations")
init = jax.jit(init_layers, static_argnums=(0, 1), static_argnames=("width", "depth"))


def create(width, depth, key):
    return ndde.MaskedDrift(init(DIM, DIM * N_LAGS, width=width, depth=depth, key=key))


def one_network(layers, j):
    return jax.tree.map(lambda leaf: leaf[j], layers)


def loop(layers, j, z):
    """Network j on one input vector, unit by unit."""
    layers = [(np.asarray(w)[j], np.asarray(b)[j]) for w, b in layers]
    for level, (weight, bias) in enumerate(layers):
        total = [
            sum(weight[o, i] * z[i] for i in range(len(z))) + bias[o] for o in range(len(bias))
        ]
        z = total if level == len(layers) - 1 else [math.tanh(v) for v in total]
    return z[0]


@pytest.mark.parametrize(("width", "depth"), SHAPES)
def test_drift_against_a_loop_over_targets(width, depth, getkey):
    drift = create(width, depth, getkey())
    history = np.asarray(jr.normal(getkey(), (N_LAGS, DIM)))
    mask = np.asarray(jr.uniform(getkey(), (DIM, N_LAGS, DIM)).at[1, 0].set(0))
    expected = [loop(drift.layers, j, (mask[j] * history).ravel()) for j in range(DIM)]
    np.testing.assert_allclose(drift(jnp.asarray(history), jnp.asarray(mask)), expected, rtol=1e-12)
    without = [loop(drift.layers, j, history.ravel()) for j in range(DIM)]
    np.testing.assert_allclose(drift(jnp.asarray(history)), without, rtol=1e-12)
    ones = jnp.ones(mask.shape, bool)
    np.testing.assert_allclose(drift(jnp.asarray(history), ones), without, rtol=1e-12)


def test_closed_inputs_have_no_influence_and_open_ones_do(getkey):
    drift = create(8, 2, getkey())
    mask = jr.bernoulli(getkey(), 0.5, (DIM, N_LAGS, DIM))
    history = jr.normal(getkey(), (N_LAGS, DIM))
    jacobian = jax.jit(jax.jacfwd(drift))(history, mask)
    np.testing.assert_array_equal(jacobian != 0, mask)
    assert 0 < int(jnp.sum(mask)) < mask.size
    # However large: closed inputs are multiplied by exact zeros.
    moved = jnp.where(mask[0], history, 1e6)
    np.testing.assert_array_equal(drift(moved, mask)[0], drift(history, mask)[0])


def test_transforms_of_the_drift(getkey):
    drift = create(8, 2, getkey())
    masks = jr.uniform(getkey(), (4, DIM, N_LAGS, DIM))
    histories = jr.normal(getkey(), (4, N_LAGS, DIM))
    together = jax.jit(jax.vmap(drift))(histories, masks)
    for history, mask, row in zip(histories, masks, together, strict=True):
        np.testing.assert_allclose(row, drift(history, mask), rtol=1e-12)


@pytest.mark.parametrize(("width", "depth"), SHAPES)
def test_create(width, depth, getkey):
    key = getkey()
    drift = ndde.MaskedDrift.create(DIM, N_LAGS, width=width, depth=depth, key=key)
    sizes = [DIM * N_LAGS, *[width] * depth, 1]
    assert [w.shape for w, _ in drift.layers] == [(DIM, o, i) for i, o in itertools.pairwise(sizes)]
    assert [b.shape for _, b in drift.layers] == [(DIM, o) for o in sizes[1:]]
    for (weight, bias), fan_in in zip(drift.layers, sizes[:-1], strict=True):
        values = jnp.concatenate([weight.ravel(), bias.ravel()])
        assert float(jnp.max(jnp.abs(values))) <= 1 / math.sqrt(fan_in)
        # Every weight is a draw of its own; of two layers alike, too.
        assert len(np.unique(values)) == values.size
    every = ravel_pytree(drift.layers)[0]
    assert len(np.unique(every)) == every.size
    np.testing.assert_array_equal(
        every,
        ravel_pytree(ndde.MaskedDrift.create(DIM, N_LAGS, width=width, depth=depth, key=key))[0],
    )


def test_initial_weights_are_uniform(getkey):
    (weight, _), *_ = init_layers(200, 25, width=8, depth=1, key=getkey())
    scaled = np.sort(np.asarray(5 * weight).ravel())
    np.testing.assert_allclose(scaled, np.linspace(-1, 1, scaled.size), atol=0.02)


@pytest.mark.parametrize("dtype", [None, jnp.float32])
def test_dtype(dtype, getkey):
    def drift(history):
        return ndde.MaskedDrift.create(DIM, N_LAGS, key=getkey(), dtype=dtype)(history, mask)

    expected = jnp.dtype("float64" if dtype is None else dtype)
    mask = jnp.ones((DIM, N_LAGS, DIM), bool)
    assert jax.eval_shape(drift, jnp.zeros((N_LAGS, DIM), expected)).dtype == expected


@pytest.mark.parametrize("shape", [dict(width=0), dict(depth=0), dict(width=-1)])
def test_unusable_shapes(shape, getkey):
    with pytest.raises(ValueError, match="width and depth must be at least 1"):
        ndde.MaskedDrift.create(DIM, N_LAGS, key=getkey(), **shape)


@pytest.fixture
def stacked(getkey, request):
    """Five networks of six inputs, seven windows and three draws of gates."""
    width, depth = getattr(request, "param", (8, 2))
    layers = init(5, 6, width=width, depth=depth, key=getkey())
    gates = jr.uniform(getkey(), (5, 3, 6)).at[:, :, 2].set(0).at[2, 1].set(1)
    return layers, jr.normal(getkey(), (6, 7)), gates


@pytest.mark.parametrize("stacked", SHAPES, indirect=True)
def test_apply_layers_against_loops(stacked):
    layers, inputs, gates = stacked
    output = jax.jit(apply_layers)(layers, inputs, gates)
    expected = [
        [[loop(layers, j, np.asarray(g * z)) for z in inputs.T] for g in gates[j]] for j in range(5)
    ]
    np.testing.assert_allclose(output, expected, rtol=1e-11)


@pytest.mark.parametrize("stacked", SHAPES, indirect=True)
def test_squared_input_gradient_against_forward_mode(stacked):
    layers, inputs, gates = stacked

    @jax.jit
    @jax.vmap
    def gradients(network, gates):
        def output(z, gate):
            return predict(network, (gate * z)[None])[0]

        over_windows = jax.vmap(jax.jacfwd(output), in_axes=(1, None))
        return jax.vmap(over_windows, in_axes=(None, 0))(inputs, gates)

    expected = np.mean(np.sum(np.asarray(gradients(layers, gates)) ** 2, axis=-1), axis=(1, 2))
    result = jax.jit(squared_input_gradient)(layers, inputs, gates)
    np.testing.assert_allclose(result, expected, rtol=1e-11)


@pytest.mark.parametrize(("width", "depth"), SHAPES)
def test_predict_and_jacobian_against_forward_mode(width, depth, getkey):
    network = one_network(init(2, 6, width=width, depth=depth, key=getkey()), 1)
    inputs = jr.normal(getkey(), (9, 6))
    theta, restore = ravel_pytree(network)
    output, jacobian = jax.jit(predict_and_jacobian)(network, inputs)
    np.testing.assert_allclose(output, jax.jit(predict)(network, inputs), rtol=1e-12)
    np.testing.assert_allclose(
        output, [loop(stack_network(network), 0, np.asarray(z)) for z in inputs], rtol=1e-11
    )
    expected = jax.jit(jax.jacfwd(lambda theta: predict(restore(theta), inputs)))(theta)
    assert jacobian.shape == (9, theta.size)
    np.testing.assert_allclose(jacobian, expected, rtol=1e-10, atol=1e-12)


N = 60


def regression(key, noise=0.1):
    """Two inputs, a smooth function of them with noise, and weights."""
    a, b, c = jr.split(key, 3)
    inputs = jr.normal(a, (N, 2))
    output = jnp.sin(inputs[:, 0]) * inputs[:, 1] + noise * jr.normal(b, (N,))
    return inputs, output, jr.uniform(c, (N,), minval=0.5, maxval=1.5)


def small_network(key):
    return one_network(init(1, 2, width=3, depth=1, key=key), 0)


def risk(network, inputs, output, weight):
    return jnp.sum(weight * (predict(network, inputs) - output) ** 2) / jnp.sum(weight)


def test_fit_is_a_minimum_at_the_fixed_point_of_the_evidence(getkey):
    """SciPy finds nothing better nearby; the decay and γ solve MacKay's equations."""
    data = inputs, output, weight = regression(getkey())
    result = fitted(small_network(getkey()), *data, n_iterations=200)
    theta, restore = ravel_pytree(result.network)
    np.testing.assert_allclose(result.risk, risk(result.network, *data), rtol=1e-10)
    n = float(jnp.sum(weight))
    decay = float(result.decay) * n / 1000  # kept per thousand windows

    @jax.jit
    def residuals(theta):
        misfit = jnp.sqrt(weight) * (predict(restore(theta), inputs) - output)
        return jnp.concatenate([misfit, math.sqrt(decay) * theta])

    best = scipy.optimize.least_squares(
        residuals, np.asarray(theta), jac=jax.jit(jax.jacfwd(residuals)), xtol=1e-12, ftol=1e-12
    )
    assert 0.5 * float(jnp.sum(residuals(theta) ** 2)) <= best.cost * (1 + 1e-3)
    assert float(result.risk) < 0.3 * float(jnp.var(output))

    jacobian = np.asarray(jax.jacfwd(residuals)(theta))[:N]
    curvature = np.linalg.eigvalsh(jacobian.T @ jacobian)
    gamma = np.sum(curvature / (curvature + decay))
    np.testing.assert_allclose(result.n_effective, gamma, rtol=0.1)
    fixed = gamma / float(jnp.sum(theta**2)) * float(result.risk) * n / (n - gamma)
    np.testing.assert_allclose(decay, fixed, rtol=0.15)
    np.testing.assert_allclose(
        result.corrected_risk(jnp.asarray(n)),
        result.risk / (1 - result.n_effective / n) ** 2,
        rtol=1e-12,
    )


def test_fit_reaches_the_noise(getkey):
    """On data of a network of the same size."""
    truth = jax.tree.map(lambda leaf: 3 * leaf, small_network(getkey()))
    inputs, noise = jr.normal(getkey(), (1000, 2)), 0.05
    output = predict(truth, inputs) + noise * jr.normal(getkey(), (1000,))
    starts = jax.vmap(small_network)(jr.split(getkey(), 4))
    fits = jax.vmap(lambda start: fitted(start, inputs, output, jnp.ones(1000), n_iterations=60))
    np.testing.assert_allclose(jnp.min(fits(starts).risk), noise**2, rtol=0.15)


def test_fit_is_never_worse_than_its_start(getkey):
    """From good and bad starts; the decay is so small that the squared error decides."""
    data = regression(getkey())
    network = small_network(getkey())
    for scale in (0.0, 1.0, 30.0):
        start = jax.tree.map(lambda leaf, s=scale: s * leaf, network)
        result = fitted(start, *data, n_iterations=4, decay=1e-12)
        assert float(result.risk) <= float(risk(start, *data)) * (1 + 1e-9)
    unmoved = fitted(start, *data, n_iterations=0)
    np.testing.assert_array_equal(ravel_pytree(unmoved.network)[0], ravel_pytree(start)[0])
    np.testing.assert_allclose(unmoved.risk, risk(start, *data), rtol=1e-12)


def test_rows_of_weight_zero_have_no_influence(getkey):
    inputs, output, weight = regression(getkey())
    network = small_network(getkey())
    expected = fitted(network, inputs, output, weight, n_iterations=4)
    padded = fitted(
        network,
        jnp.concatenate([inputs, 100 * jr.normal(getkey(), (10, 2))]),
        jnp.concatenate([output, jnp.full(10, -77.0)]),
        jnp.concatenate([weight, jnp.zeros(10)]),
        n_iterations=4,
    )
    for a, b in zip(jax.tree.leaves(padded), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8)


def test_gradient_through_a_fit(getkey):
    """With respect to the data and the start, against central differences."""
    inputs, output, weight = regression(getkey())
    network = small_network(getkey())

    @jax.jit
    def fitted_risk(shift, scale):
        start = jax.tree.map(lambda leaf: scale * leaf, network)
        moved = output + shift * inputs[:, 0]
        return fit_network(start, inputs, moved, weight, n_iterations=4).risk

    gradient = jax.grad(fitted_risk, argnums=(0, 1))(0.1, 1.0)
    h = 1e-5
    expected = (
        (fitted_risk(0.1 + h, 1.0) - fitted_risk(0.1 - h, 1.0)) / (2 * h),
        (fitted_risk(0.1, 1.0 + h) - fitted_risk(0.1, 1.0 - h)) / (2 * h),
    )
    assert min(abs(float(g)) for g in gradient) > 1e-4
    np.testing.assert_allclose(gradient, expected, rtol=1e-4)


def test_fits_under_vmap_equal_single_fits(getkey):
    data = regression(getkey())
    starts = [small_network(getkey()) for _ in range(3)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *starts)
    together = jax.jit(jax.vmap(lambda start: fitted(start, *data, n_iterations=4)))(stacked)
    for i, start in enumerate(starts):
        single = fitted(start, *data, n_iterations=4)
        for a, b in zip(jax.tree.leaves(together), jax.tree.leaves(single), strict=True):
            np.testing.assert_allclose(a[i], b, rtol=1e-7)


def test_fit_in_single_precision(getkey):
    double = (small_network(getkey()), *regression(getkey()))
    single = jax.tree.map(lambda a: a.astype(jnp.float32), double)
    result, expected = (fitted(*data, n_iterations=4) for data in (single, double))
    assert {leaf.dtype for leaf in jax.tree.leaves(result)} == {jnp.dtype("float32")}
    np.testing.assert_allclose(result.risk, expected.risk, rtol=1e-3)


def test_select_inputs():
    mask = jnp.array([0.0, 1.0, 0.0, 1.0, 1.0])
    index, used = jax.jit(select_inputs, static_argnums=1)(mask, 4)
    np.testing.assert_array_equal(index[:3], [1, 3, 4])
    np.testing.assert_array_equal(used, [1, 1, 1, 0])
    assert int(index[3]) in (0, 2)
    index, used = select_inputs(mask, 3)
    np.testing.assert_array_equal(index, [1, 3, 4])
    np.testing.assert_array_equal(used, [1, 1, 1])
    np.testing.assert_array_equal(select_inputs(jnp.zeros(4), 2)[1], [0, 0])


def test_fit_on_selected_columns_equals_one_on_the_open_columns(getkey):
    """What `select_inputs` is for: slots that are not in use change nothing."""
    inputs = jr.normal(getkey(), (N, 5))
    output = inputs[:, 1] * inputs[:, 3]
    network = small_network(getkey())
    expected = fitted(network, inputs[:, [1, 3]], output, jnp.ones(N), n_iterations=4)
    index, used = select_inputs(jnp.array([0.0, 1.0, 0.0, 1.0, 0.0]), 3)
    (weight, bias), *rest = network
    wider = ((jnp.concatenate([weight, jnp.zeros((3, 1))], axis=1), bias), *rest)
    result = fitted(wider, inputs[:, index] * used[None], output, jnp.ones(N), n_iterations=4)
    (weight, _), *_ = result.network
    np.testing.assert_array_equal(weight[:, 2], 0)
    np.testing.assert_allclose(weight[:, :2], expected.network[0][0], rtol=1e-7)
    np.testing.assert_allclose(result.risk, expected.risk, rtol=1e-7)
