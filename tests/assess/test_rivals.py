"""The cost of replacing an edge, against plain least squares, and its place in the verdict."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import ndde_jax as ndde
from benchmarks.world import generators
from ndde_jax.assess._rivals import BLOCKS, BOUND, adjacent_lags, join_adjacent, rivals
from ndde_jax.assess._score import read_inputs, rows_of

DIM, LAGS = 3, (0, 1)


@pytest.fixture(scope="module")
def case():
    """The first variable drives the second; the third is a proxy for the first."""
    rng, x = np.random.default_rng(0), np.zeros((500, DIM))
    for k in range(1, 499):
        x[k + 1] = 0.5 * x[k] + rng.normal(size=DIM)
        x[k + 1, 1] += np.tanh(x[k - 1, 0])
        x[k + 1, 2] = x[k + 1, 0] + 0.05 * rng.normal()
    graph = np.zeros((DIM, DIM, 2), bool)
    graph[0, 1, 1] = graph[1, 1, 0] = graph[0, 0, 0] = True
    return read_inputs(rows_of(ndde.lagged_windows(x, dt=1.0, lags=LAGS))), graph


def left(inputs, kept, j):
    """The residual of a rate after lines and curves of some inputs, `(source, lag)`."""
    columns = [np.ones(len(inputs.line))]
    for i, a in kept:
        columns += [inputs.line[:, a, i], *inputs.hermite[:, a, i].T]
    rate, design = inputs.rows.rates[:, j], np.stack(columns, axis=1)
    return rate - design @ np.linalg.lstsq(design, rate, rcond=None)[0]


def test_replacements_cost_what_refits_say(case):
    inputs, graph = case
    found = rivals(inputs, graph, np.zeros_like(graph))
    rate, kept = inputs.rows.rates[:, 1], [(0, 1), (1, 0)]
    total, whole = rate @ rate, left(inputs, kept, 1) ** 2
    rises = {
        (i, a): left(inputs, [(i, a), (1, 0)], 1) ** 2 / total - whole / total
        for i, a in [(0, 0), (1, 1), (2, 0), (2, 1)]
    }
    cost = {place: float(rise.sum()) for place, rise in rises.items()}
    assert found.lag_cost[0, 1, 1] == pytest.approx(cost.pop((0, 0)), abs=1e-9)
    best = min(cost, key=cost.get)
    assert tuple(found.rival[0, 1, 1]) == best == (2, 1)
    assert found.cost[0, 1, 1] == pytest.approx(cost[best], abs=1e-9)
    parts = [part.sum() for part in np.array_split(rises[best], BLOCKS)]
    bound = cost[best] - BOUND * np.sqrt(BLOCKS) * np.std(parts, ddof=1)
    assert found.lower[0, 1, 1] == pytest.approx(bound, abs=1e-9)
    # A near copy replaces its twin at almost no cost; nothing replaces the target's own past.
    assert found.cost[0, 1, 1] < 0.01 < 0.1 < found.cost[1, 1, 0] and found.lower[1, 1, 0] > 0
    assert np.isinf(found.cost[~graph]).all() and (found.rival[~graph] == -1).all()


def test_prior_knowledge_and_few_rows_are_respected(case):
    inputs, graph = case
    held = rivals(inputs, graph, graph)
    assert np.isinf(held.cost).all() and np.isinf(held.lag_cost).all()
    allowed = np.ones_like(graph)
    allowed[2] = False
    bound = inputs._replace(rows=inputs.rows._replace(allowed=allowed))
    assert rivals(bound, graph, np.zeros_like(graph)).rival[0, 1, 1, 0] == 1
    rates = inputs.rows.rates[:30]
    few = inputs._replace(
        rows=inputs.rows._replace(rates=rates - rates.mean(axis=0)),
        **{name: getattr(inputs, name)[:30] for name in ("line", "hermite", "test")},
    )
    found = rivals(few, graph, np.zeros_like(graph))
    # Lines alone, where curves have fewer than five rows each.
    few = few._replace(hermite=few.hermite[..., :0])
    rise = [
        np.sum(left(few, [place, (1, 0)], 1) ** 2) - np.sum(left(few, [(0, 1), (1, 0)], 1) ** 2)
        for place in [(2, 0), (2, 1), (1, 1)]
    ]
    assert found.cost[0, 1, 1] == pytest.approx(min(rise) / np.sum(few.rows.rates[:, 1] ** 2))


def test_lags_next_to_each_other_are_replaced_together(case):
    inputs, graph = case
    graph = graph.copy()
    graph[0, 1] = graph[1, 1] = True
    pairs = [(0, 0), (0, 1), (1, 0), (1, 1)]
    whole = np.sum(left(inputs, pairs, 1) ** 2)
    total = np.sum(inputs.rows.rates[:, 1] ** 2)

    def cheapest(gone):
        rest = [one for one in pairs if one not in gone]
        kept = [[*rest, one] for one in [(2, 0), (2, 1)]]
        return (min(np.sum(left(inputs, one, 1) ** 2) for one in kept) - whole) / total

    # Neither of two candidate lags lies between the others.
    alone = rivals(inputs, graph, np.zeros_like(graph))
    np.testing.assert_allclose(alone.cost[0, 1], [cheapest([(0, a)]) for a in (0, 1)], atol=1e-9)
    three = inputs._replace(rows=inputs.rows._replace(lags=(0, 1, 2)))
    adjacent = adjacent_lags(graph, (0, 1, 2))
    # Decay and a slightly later feedback are two effects.
    assert join_adjacent(graph[:, 1], adjacent[:, 1]) == [(0, [0, 1]), (1, [0]), (1, [1])]
    found = rivals(three, graph, np.zeros_like(graph))
    np.testing.assert_allclose(found.cost[0, 1], cheapest([(0, 0), (0, 1)]), atol=1e-9)
    assert np.isinf(found.lag_cost[0, 1]).all()  # no other lag remains


def test_a_bend_that_polynomials_lack_is_that_of_the_drift():
    """1 follows the sign of 0, for which 2 is almost a proxy; the others keep their drift."""
    rng, x = np.random.default_rng(1), np.zeros((500, DIM))
    for k in range(1, 499):
        x[k + 1] = 0.5 * x[k] + rng.normal(size=DIM)
        x[k + 1, 1] += np.sign(x[k - 1, 0]) + np.sign(x[k, 2])
    graph = np.zeros((DIM, DIM, 2), bool)
    graph[0, 1, 1] = graph[1, 1, 0] = graph[2, 1, 0] = True

    def drift(history):
        driven = -0.5 * history[0, 1] + jnp.sign(history[1, 0]) + jnp.sign(history[0, 2])
        return jnp.stack([-0.5 * history[0, 0], driven, -0.5 * history[0, 2]])

    windows = ndde.lagged_windows(x, dt=1.0, lags=LAGS)
    inputs = read_inputs(rows_of(windows, drift))
    found, rate = rivals(inputs, graph, np.zeros_like(graph)), inputs.rows.rates[:, 1]
    kept, history = [(0, 1), (1, 0), (2, 0)], np.asarray(windows.history)[np.asarray(windows.valid)]
    history = history * np.asarray(windows.scaling.scale) + np.asarray(windows.scaling.center)
    own, other = history[:, 0, 1], np.sign(history[:, 0, 2])

    def squares(inputs_used, said):
        columns = [np.ones(len(rate)), said]
        for i, a in inputs_used:
            columns += [inputs.line[:, a, i], *inputs.hermite[:, a, i].T]
        design = np.stack(columns, axis=1)
        return np.sum((rate - design @ np.linalg.lstsq(design, rate, rcond=None)[0]) ** 2)

    whole = squares(kept, -0.5 * own + np.sign(history[:, 1, 0]) + other)
    costs = [squares([place, *kept[1:]], -0.5 * own + other) - whole for place in [(1, 1), (2, 1)]]
    assert found.cost[0, 1, 1] == pytest.approx(min(costs) / (rate @ rate), rel=1e-4)


@pytest.mark.slow
def test_maps_without_noise_are_carried_by_nothing_else():
    """Chaos with known links, exactly learned; normal scores of its arcsine law bend elsewhere."""
    rng = np.random.default_rng(1)
    x = np.empty((400, 3))
    x[0] = rng.uniform(0.2, 0.8, 3)
    moved = lambda v, rate: rate * v * (1 - v)  # noqa: E731
    for k in range(399):
        a, b, c = moved(x[k], np.array([3.97, 3.82, 3.88]))
        x[k + 1] = a, 0.9 * b + 0.1 * a, 0.92 * c + 0.08 * b
    recipe = ndde.Recipe(strategy=ndde.select.Default(networks=None))
    found = ndde.discover(x, dt=1.0, lags=(0, 1, 2), recipe=recipe, key=jr.key(0))
    edges = [(int(i), int(j), int(k)) for i, j, k in np.argwhere(found.graph)]
    assert edges == [(0, 0, 0), (0, 1, 0), (1, 1, 0), (1, 2, 0), (2, 2, 0)]
    assert found.verdict == "supported"


def within_chance(batch, links):
    """Shares of the kept inputs that another variable could replace, record by record."""
    shares = []
    for x, graph in zip(batch.x, links, strict=True):
        windows = ndde.lagged_windows(x, dt=1.0, lags=tuple(range(6)))
        found = rivals(read_inputs(rows_of(windows)), graph, np.zeros_like(graph))
        shares.append(float((found.lower[graph] <= 0).mean()))
    return np.array(shares)


def test_what_a_hidden_driver_leaves_is_replaceable_and_what_is_clean_is_not():
    """With its apparent links: between the two that it drives, and from the past of one to both."""
    hidden = generators.hidden_flow(6, kind="slow", n=600, seed=1)
    links = hidden.links.copy()
    links[:, 0, 1, [1, 4]] = links[:, 2, 1, 3] = True
    clean = generators.clean_map(6, n=600, seed=1)
    assert (within_chance(hidden, links) > 0).mean() >= 0.8
    assert (within_chance(clean, clean.links) > 0).mean() <= 0.2
