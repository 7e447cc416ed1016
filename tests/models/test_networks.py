"""Networks per target against NumPy, unit by unit, and their derivatives against complex steps.

A complex step f(x + ih) = f(x) + ih f'(x) has no cancellation, so with h = 1e-30 the imaginary part
is the derivative to the last digit, and the oracle shares no code with JAX.
"""

import itertools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax.models._networks import (
    _uniform,
    apply_layers,
    init_layers,
    squared_input_gradient,
)

DIM, N_LAGS = 3, 2
N_INPUTS = DIM * N_LAGS
N_WINDOWS, N_DRAWS = 4, 3
SHAPES = [(8, 2), (5, 1), (4, 3)]  # width, depth
STEP = 1e-30


def random_layers(rng, n_networks, n_inputs, width, depth):
    sizes = (n_inputs, *(width,) * depth, 1)
    return tuple(
        (rng.normal(size=(n_networks, o, i)), rng.normal(size=(n_networks, o)))
        for i, o in itertools.pairwise(sizes)
    )


def loop(layers, j, z):
    """Network j on one input vector, unit by unit; real or complex."""
    for level, (weight, bias) in enumerate(layers):
        total = [
            sum(weight[j, o, i] * z[i] for i in range(len(z))) + bias[j, o]
            for o in range(bias.shape[1])
        ]
        z = total if level == len(layers) - 1 else [np.tanh(v) for v in total]
    return z[0]


def loop_gradient(layers, j, z, gate):
    """Derivative of network j at gate ⊙ z with respect to z."""
    steps = 1j * STEP * np.eye(len(z))
    return np.array([np.imag(loop(layers, j, gate * (z + step))) / STEP for step in steps])


class Case:
    """Random networks and data of one shape, and all results of the library for them."""

    def __init__(self, width, depth):
        rng = np.random.default_rng([width, depth])
        self.layers = random_layers(rng, DIM, N_INPUTS, width, depth)
        self.histories = rng.normal(size=(N_DRAWS, N_LAGS, DIM))
        self.masks = rng.uniform(size=(N_DRAWS, DIM, N_LAGS, DIM))
        self.masks[0, 1, 0] = 0
        self.graph = rng.uniform(size=(DIM, N_LAGS, DIM)) < 0.5
        self.inputs = rng.normal(size=(N_INPUTS, N_WINDOWS))
        self.gates = rng.uniform(size=(DIM, N_DRAWS, N_INPUTS))
        self.gates[:, :, 2] = 0
        self.gates[2, 1] = 1
        arrays = self.histories, self.masks, self.graph, self.inputs, self.gates
        self.results = _compute(
            ndde.models.MaskedDrift(jax.tree.map(jnp.asarray, self.layers)), *arrays
        )


@eqx.filter_jit
def _compute(drift, histories, masks, graph, inputs, gates):
    history, mask = histories[0], masks[0]
    # Every input that the graph closes for the first target, moved far away.
    moved = jnp.where(graph[0], history, 1e6)
    return dict(
        masked=drift(history, mask),
        without=drift(history),
        open=drift(history, jnp.ones(graph.shape, bool)),
        batched=jax.vmap(drift)(histories, masks),
        on_graph=drift(history, graph),
        moved=drift(moved, graph),
        jacobian=jax.jacrev(drift)(history, graph),
        layers=apply_layers(drift.layers, inputs, gates),
        squared_gradient=squared_input_gradient(drift.layers, inputs, gates),
    )


@pytest.fixture(scope="module", params=SHAPES, ids=str)
def case(request):
    return Case(*request.param)


def test_drift_against_a_loop_over_targets(case):
    history, mask = case.histories[0], case.masks[0]
    expected = [loop(case.layers, j, (mask[j] * history).ravel()) for j in range(DIM)]
    np.testing.assert_allclose(case.results["masked"], expected, rtol=1e-11)
    expected = [loop(case.layers, j, history.ravel()) for j in range(DIM)]
    np.testing.assert_allclose(case.results["without"], expected, rtol=1e-11)
    np.testing.assert_allclose(case.results["open"], expected, rtol=1e-11)


def test_drift_under_vmap_against_a_loop_over_targets(case):
    expected = [
        [loop(case.layers, j, (mask[j] * history).ravel()) for j in range(DIM)]
        for history, mask in zip(case.histories, case.masks, strict=True)
    ]
    np.testing.assert_allclose(case.results["batched"], expected, rtol=1e-11)


def test_closed_inputs_have_no_influence_and_open_ones_do(case):
    assert 0 < case.graph.sum() < case.graph.size
    np.testing.assert_array_equal(case.results["jacobian"] != 0, case.graph)
    # However large: closed inputs are multiplied by exact zeros. Sums may be ordered differently.
    moved, expected = case.results["moved"][0], case.results["on_graph"][0]
    np.testing.assert_allclose(moved, expected, rtol=1e-14)


def test_jacobian_of_the_drift_against_complex_steps(case):
    expected = [
        loop_gradient(case.layers, j, case.histories[0].ravel(), case.graph[j].ravel())
        for j in range(DIM)
    ]
    actual = np.reshape(case.results["jacobian"], (DIM, N_INPUTS))
    np.testing.assert_allclose(actual, expected, rtol=1e-10)


def test_apply_layers_against_loops(case):
    expected = [
        [[loop(case.layers, j, g * z) for z in case.inputs.T] for g in case.gates[j]]
        for j in range(DIM)
    ]
    np.testing.assert_allclose(case.results["layers"], expected, rtol=1e-11)


def test_squared_input_gradient_against_complex_steps(case):
    expected = [
        np.mean(
            [
                np.sum(loop_gradient(case.layers, j, z, g) ** 2)
                for g in case.gates[j]
                for z in case.inputs.T
            ]
        )
        for j in range(DIM)
    ]
    np.testing.assert_allclose(case.results["squared_gradient"], expected, rtol=1e-10)


def test_learned_system_in_physical_units():
    """NeuralDDE standardises the history, closes inputs and returns a physical rate of change."""
    rng = np.random.default_rng(0)
    layers = random_layers(rng, DIM, N_INPUTS, 5, 1)
    center, rate_center = rng.normal(size=(2, DIM))
    scale, rate_scale = rng.uniform(0.1, 10, size=(2, DIM))
    mask = rng.uniform(size=(DIM, N_LAGS, DIM)) < 0.5
    history = center + scale * rng.normal(size=(N_LAGS, DIM))
    scaling = ndde.windows.Scaling(*map(jnp.asarray, (center, scale, rate_center, rate_scale)))
    drift = ndde.models.MaskedDrift(jax.tree.map(jnp.asarray, layers))
    model = ndde.models.NeuralDDE(drift, jnp.asarray(mask), scaling, jnp.asarray(0.25), (1, 6))
    z = (history - center) / scale
    expected = [
        rate_center[j] + rate_scale[j] * loop(layers, j, (mask[j] * z).ravel()) for j in range(DIM)
    ]
    rate, delays = eqx.filter_jit(lambda m, h: (m(h), m.delays))(model, jnp.asarray(history))
    np.testing.assert_allclose(rate, expected, rtol=1e-11)
    np.testing.assert_array_equal(delays, [0.25, 1.5])


@pytest.mark.parametrize(("width", "depth"), SHAPES)
def test_shapes_of_new_networks(width, depth):
    def create(key):
        return init_layers(DIM, N_INPUTS, width=width, depth=depth, key=key)

    layers = jax.eval_shape(create, jax.random.key(0))
    sizes = [N_INPUTS, *[width] * depth, 1]
    assert [w.shape for w, _ in layers] == [(DIM, o, i) for i, o in itertools.pairwise(sizes)]
    assert [b.shape for _, b in layers] == [(DIM, o) for o in sizes[1:]]


def test_initial_weights_are_independent_and_uniform(getkey):
    init = jax.jit(lambda key: init_layers(400, 8, width=6, depth=2, key=key))
    key = getkey()
    layers = init(key)
    for (weight, bias), fan_in in zip(layers, (8, 6, 6), strict=True):
        for values in (weight, bias):
            scaled = np.sort(np.ravel(values)) * np.sqrt(fan_in)
            assert np.abs(scaled).max() <= 1
            # The deviation of an empirical distribution function exceeds 2/√n once in 1500 draws.
            expected = np.linspace(-1, 1, scaled.size)
            np.testing.assert_allclose(scaled, expected, atol=4 / np.sqrt(scaled.size))
    # No draw is used twice, neither unchanged nor scaled for another layer.
    fan_ins = (8, 8, 6, 6, 6, 6)
    every = np.concatenate(
        [
            np.round(np.ravel(leaf) * np.sqrt(fan_in), 12)
            for leaf, fan_in in zip(jax.tree.leaves(layers), fan_ins, strict=True)
        ]
    )
    assert np.unique(every).size == every.size
    leaves = map(jax.tree.leaves, (init(key), init(getkey()), layers))
    for same, new, leaf in zip(*leaves, strict=True):
        np.testing.assert_array_equal(same, leaf)
        assert not np.any(np.equal(new, leaf))


@pytest.mark.parametrize("dtype", [None, jnp.float32])
def test_dtype(dtype, getkey):
    def drift(history):
        layers = init_layers(DIM, N_INPUTS, width=8, depth=2, key=getkey(), dtype=dtype)
        return ndde.models.MaskedDrift(layers)(history, mask)

    expected = jnp.dtype("float64" if dtype is None else dtype)
    mask = jnp.ones((DIM, N_LAGS, DIM), bool)
    history = jax.ShapeDtypeStruct((N_LAGS, DIM), expected)
    assert jax.eval_shape(drift, history).dtype == expected


@pytest.mark.parametrize("shape", [(0, 2), (8, 0), (-1, 2)])
def test_unusable_shapes(shape, getkey):
    width, depth = shape
    with pytest.raises(ValueError, match="width and depth must be at least 1"):
        init_layers(DIM, N_INPUTS, width=width, depth=depth, key=getkey())


def test_networks_of_unlike_sizes_share_one_generator():
    before = _uniform._cache_size()
    for n_inputs in (8, 12, 16):
        layers = init_layers(2, n_inputs, width=8, depth=2, key=jr.key(0))
        assert layers[0][0].shape == (2, 8, n_inputs)
        assert isinstance(layers[0][0], jax.Array)
    assert _uniform._cache_size() <= before + 1


def test_starts_are_the_same_wherever_they_are_drawn():
    size = dict(width=4, depth=1, key=jr.key(3))
    traced = jax.jit(lambda: init_layers(3, 5, **size))()
    many = init_layers(3, 500, width=4, depth=1, key=jr.key(3))  # beyond the shared length
    for one, other in zip(
        jax.tree.leaves(init_layers(3, 5, **size)), jax.tree.leaves(traced), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    assert float(jnp.max(jnp.abs(many[0][0]))) <= 1 / math.sqrt(500)
    assert len(np.unique(np.asarray(many[0][0]))) > 5900  # of 6000
