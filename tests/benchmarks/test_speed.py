"""The speed benchmark counts what it says it counts; seconds are never asserted."""

import jax
import jax.numpy as jnp
import pytest

from benchmarks.speed import __main__ as speed
from ndde_jax._drift import init_layers
from ndde_jax._loss import empirical_risk


@pytest.mark.parametrize(("n_targets", "n_inputs"), [(3, 3), (10, 20)])
def test_operations_of_a_step_against_the_compiler(n_targets, n_inputs):
    """XLA's own count of the gradient exceeds the matrix products by the elementwise rest only."""
    layers = init_layers(n_targets, n_inputs, width=8, depth=2, key=jax.random.key(0))
    shapes = ((n_inputs, speed.BATCH), (n_targets, speed.BATCH), (speed.BATCH,))
    data = [jnp.ones(shape) for shape in shapes]
    gates = jnp.ones((n_targets, speed.DRAWS, n_inputs))

    def loss(layers, inputs, outputs, weight):
        return jnp.sum(empirical_risk(layers, inputs, outputs, weight, gates))

    cost = jax.jit(jax.grad(loss)).lower(layers, *data).compile().cost_analysis()
    ours = speed.step_flops(n_targets, n_inputs)
    assert ours <= cost["flops"] <= 1.6 * ours


def test_times_are_measured():
    compiling, per_step = speed.step_time(speed.windows(2, 2, key=jax.random.key(0), n=100), 50, 1)
    assert compiling > 0 and per_step != 0
    assert speed.matmul_peak(64) > 0
    assert speed.torch_time("/no/such/python", 2, 2, 1) is None
