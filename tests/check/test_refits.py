"""What all other inputs do not explain of an edge, compared with plain least squares."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax.assess._score import read_inputs, rows_of
from ndde_jax.check._graph_rules import evidence_of_windows
from ndde_jax.check._refits import shares_beyond_others
from tests.helpers import networks

DIM, LAGS = 3, (0, 1)


@pytest.fixture(scope="module")
def case():
    rng, x = np.random.default_rng(0), np.zeros((500, DIM))
    for k in range(1, 499):
        x[k + 1] = 0.5 * x[k] + rng.normal(size=DIM)
        x[k + 1, 1] += np.tanh(x[k - 1, 0])
        x[k + 1, 2] = x[k + 1, 0] + 0.05 * rng.normal()  # a proxy for the first
    windows = ndde.lagged_windows(x, dt=1.0, lags=LAGS)
    graph = np.zeros((DIM, DIM, 2), bool)
    graph[0, 1, 1] = graph[1, 1, 0] = graph[0, 0, 0] = True
    ones = jnp.ones(graph.shape)
    strengths = ndde.measure.SignalStrengths(
        jnp.where(graph, ones, -ones), ones, ones, ones[..., 0], ones[..., 0], jnp.asarray(graph),
        ones[0, :, 0], ones[0, :, 0], 0.01 * ones[0, :, 0], windows.prior,
    )  # fmt: skip
    drift = networks(DIM, 2, width=2, depth=1, key=jax.random.key(0))
    mask = jnp.ones((DIM, 2, DIM), bool)
    model = ndde.models.NeuralDDE(drift, mask, windows.scaling, windows.dt, windows.lags)
    base = evidence_of_windows(windows, model, strengths, None, ("a", "b", "copy"))
    np.testing.assert_array_equal(base.graph, graph)
    return base, read_inputs(rows_of(windows))


def left(inputs, kept, j):
    """Squared residuals of lines and curves of some inputs, `(source, lag)`, as a share."""
    columns = [np.ones(len(inputs.line))]
    for i, a in kept:
        columns += [inputs.line[:, a, i], *inputs.hermite[:, a, i].T]
    rate, design = inputs.rows.rates[:, j], np.stack(columns, axis=1)
    rest = rate - design @ np.linalg.lstsq(design, rate, rcond=None)[0]
    return float(rest @ rest) / float(rate @ rate)


def test_shares_beyond_all_others_are_those_of_refits(case):
    base, inputs = case
    every = [(i, a) for i in range(DIM) for a in range(2)]
    n = len(inputs.line)
    alone = shares_beyond_others(inputs, base, whole_sources=False)
    joint = shares_beyond_others(inputs, base, whole_sources=True)
    after = left(inputs, every, 1)
    noise = after / (n - 4 * len(every) - 1)
    before = left(inputs, [one for one in every if one != (0, 1)], 1)
    assert alone[0, 1, 1] == pytest.approx(before - after - 4 * noise, rel=1e-6)
    others = [one for one in every if one[0] != 0]
    given, added = left(inputs, others, 1), left(inputs, [*others, (0, 1)], 1)
    noise = added / (n - 4 * (len(others) + 1) - 1)
    assert joint[0, 1] == pytest.approx(given - added - 4 * noise, rel=1e-6)
    np.testing.assert_array_equal(np.isfinite(alone), base.graph)
    np.testing.assert_array_equal(np.isfinite(joint), base.graph.any(axis=2))
    # The copy is a proxy for its twin, so the twin adds nothing to it.
    assert joint[0, 1] < 0.01 < joint[1, 1]
