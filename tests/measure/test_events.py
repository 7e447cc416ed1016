"""Records of passing events: possible pairs, travel times, and the text of the report."""

import itertools

import jax
import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components

import ndde_jax as ndde
from benchmarks.rivers.simulated import simulate
from ndde_jax.measure._events import _tree, largest_shift, read_events
from ndde_jax.measure._precedence import likeness, trust_bound

LAGS = (0, 2, 4)


@pytest.fixture(scope="module")
def flood():
    x, truth = simulate(8)
    return ndde.read_samples(x, dt=0.25, time_unit="h"), truth


@pytest.fixture(scope="module")
def found(flood):
    return ndde.discover(flood[0], lags=LAGS, key=jax.random.key(0))


def step_test(steps, seed=0):
    """Return a valve that is set so often, and a variable with a dead time of 13 samples."""
    rng, x = np.random.default_rng(seed), np.zeros((1500, 2))
    x[:, 0] = np.repeat(rng.permutation(steps) % 4, -(-1500 // steps))[:1500]
    for k in range(1, 1500):
        x[k, 1] = 0.95 * x[k - 1, 1] + 0.05 * x[max(k - 13, 0), 0] + 0.005 * rng.normal()
    return ndde.read_samples(x, dt=10.0)


def test_many_steps_of_what_was_set_are_no_passing_events():
    """Although the tails of their increments are as heavy."""
    lags = (0, 12)
    assert read_events(step_test(8), lags=lags) is not None
    samples = step_test(30)
    assert read_events(samples, lags=lags) is None
    ranking = ndde.measure.rank_sources(samples, np.eye(2))
    assert ranking.trust == 0 and "x0 was set in many steps" in ranking.reason


def test_shocks_that_reach_all_at_once_are_no_passing_events(flood):
    """Returns of a market: alike, with jumps, and no variable comes first."""
    rng = np.random.default_rng(0)
    shared, own = rng.standard_t(3, size=(1500, 1)), rng.standard_t(3, size=(1500, 6))
    assert read_events(ndde.read_samples(shared + 0.6 * own, dt=1.0), lags=(0, 1)) is None
    # The innovation of one of them alone moves another, so that one variable does come first.
    own[1:, 3] += own[:-1, 0]
    samples = ndde.read_samples(shared + 0.6 * own, dt=1.0)
    assert ndde.measure.precedence(samples)[0, 3] > 0.05
    assert read_events(samples, lags=(0, 1)) is None and trust_bound(samples) == 0
    assert read_events(flood[0], lags=LAGS) is not None and trust_bound(flood[0]) > 0.5


def test_recordings_of_four_samples_hold_no_passing_events():
    rng = np.random.default_rng(0)
    short = [rng.standard_t(2, size=(4, 3)) for _ in range(30)]
    assert trust_bound(ndde.read_samples(short, dt=1.0)) == 0


def test_spikes_of_a_relaxation_oscillation_are_no_passing_events():
    """Spikes of a Brusselator: rare, alike, and determined by the present states of both."""
    rng, h = np.random.default_rng(0), 0.0025
    x, path = np.array([1.0, 1.0]), []
    for k in range(20_000):
        square = x[0] ** 2 * x[1]
        rates = np.array([1 + square - 4 * x[0], 3 * x[0] - square])
        x = x + h * rates + 0.1 * np.sqrt(h) * rng.normal(size=2)
        if k % 20 == 0:
            path.append(x)
    samples = ndde.read_samples(np.array(path), dt=0.05)
    assert trust_bound(samples) > 0.5
    assert read_events(samples, lags=(0, 1, 2, 3)) is None


@pytest.mark.slow
def test_rain_that_wets_the_soil_on_many_days_is_no_passing_event():
    """Rare, heavy and alike, but rain explains the soil, given all others."""
    rng, n = np.random.default_rng(10), 1460
    wet, warm = np.zeros(n, bool), np.zeros(n)
    noise = rng.normal(size=(n, 3)) * (0.004, 0.002, 0.4)
    for k in range(1, n):
        wet[k] = rng.random() < (0.65 if wet[k - 1] else 0.11)
        warm[k] = 0.7 * warm[k - 1] + noise[k, 2]
    rain = np.where(wet, rng.gamma(0.6, 6, n), 0)
    dry = 3 + 2.5 * np.sin(2 * np.pi * np.arange(n) / 365) + warm
    x = np.full((n, 2), 0.5)
    for k in range(n - 1):
        soil, deep = x[k]
        moves = rain[k] / 80 - 0.012 * max(dry[k], 0) * soil - 0.02 * (soil - deep)
        x[k + 1] = soil + moves, deep + 0.03 * (soil - deep)
        x[k + 1] = np.clip(x[k + 1] + noise[k, :2], 0.02, 1)
    samples = ndde.read_samples(np.column_stack([rain, dry, x]), dt=1.0)
    assert trust_bound(samples) > 0.5
    assert read_events(samples, lags=(0, 1, 2)) is None
    found = ndde.discover(samples, lags=tuple(range(6)), key=jax.random.key(0))
    assert np.flatnonzero(found.graph[0, 2]).tolist() == [0] and found.graph[1, 2, 0]


@pytest.mark.slow
def test_the_delay_of_a_step_test_is_its_dead_time():
    """It is not the duration of the whole response."""
    lags = (0, 6, 12, 18)
    found = ndde.discover(
        step_test(30), lags=lags, recipe=ndde.Recipe.fast(), key=jax.random.key(0)
    )
    np.testing.assert_array_equal(found.graph[0, 1], [False, False, True, False])
    assert found.reading == "map" and float(found.delays[0, 1, 2]) == 120


@pytest.mark.parametrize("joined", [1.0, 0.5])
def test_the_tree_is_that_of_brute_force(joined):
    """The choice with the most pairs without a ring, and of these the one with the greatest sum."""
    rng = np.random.default_rng(3)
    for dim in (2, 4, 5):
        alike = rng.uniform(-1, 1, (dim, dim))
        alike[rng.random((dim, dim)) >= joined] = -np.inf
        alike = np.maximum(alike, alike.T)
        pairs = [(i, j) for i, j in itertools.combinations(range(dim), 2) if alike[i, j] > -2]
        choices = []
        for size in range(dim):
            for chosen in itertools.combinations(pairs, size):
                graph = np.zeros((dim, dim), bool)
                graph[tuple(np.transpose(chosen or np.zeros((0, 2), int)))] = True
                n_parts, _ = connected_components(graph, directed=False)
                if n_parts == dim - size:
                    choices.append((size, sum(alike[pair] for pair in chosen), graph | graph.T))
        best = max(choices, key=lambda choice: choice[:2])[2]
        np.testing.assert_array_equal(_tree(alike), best)


def test_who_follows_whom_is_a_forest_and_no_unit_matters(flood):
    samples, truth = flood
    events = read_events(samples, lags=LAGS)
    assert events.ranking.trust > 0.5
    assert events.next.any() and not np.diag(events.next).any()
    assert (events.next.sum(axis=1) <= 1).all()
    n_parts, _ = connected_components(events.next, directed=False)
    assert n_parts == 5 - events.next.sum()
    assert (events.ranking.precedence[events.next] > 0).all()
    assert (events.next & truth).sum() >= events.next.sum() / 2
    units = ndde.read_samples(samples.values[0] * [1e-5, 3, 1e6, 1, 7] - 4, dt=0.25)
    np.testing.assert_array_equal(read_events(units, lags=LAGS).next, events.next)


def test_noise_driven_loops_are_no_events():
    rng, x = np.random.default_rng(0), np.zeros((1500, 3))
    for t in range(1, len(x)):
        x[t] = x[t - 1] @ [[0.6, 0.3, 0], [0.3, 0.6, 0], [0, 0.4, 0.5]] + rng.normal(size=3)
    assert read_events(ndde.read_samples(x, dt=1.0), lags=(0,)) is None
    assert read_events(ndde.read_samples(x[:, :1], dt=1.0), lags=(0,)) is None


def test_required_edges_stay_and_forbidden_ones_do_not_come_back(flood):
    samples, _ = flood
    free = read_events(samples, lags=LAGS).next
    source, target = map(int, np.argwhere(free)[0])
    away = map(int, np.argwhere(~free & ~np.eye(5, dtype=bool))[0])
    names = samples.names
    first, second = (names[k] for k in away)
    prior = ndde.prior_knowledge(
        names,
        lags=LAGS,
        forbidden=[(names[source], names[target])],
        required=[(first, second, 2)],
    )
    allowed = np.asarray(read_events(samples, lags=LAGS, prior=prior).prior.allowed)
    assert not allowed[source, target].any()
    i, j = names.index(first), names.index(second)
    assert allowed[i, j].tolist() == [False, True, False]


def test_likeness_is_a_correlation_of_later_values(flood):
    samples, _ = flood
    x = samples.values[0]
    d = x - np.median(x, axis=0)
    d = d * np.abs(d)
    d = (d - d.mean(axis=0)) / d.std(axis=0)
    best = [
        [max(np.sum(d[: len(d) - s, i] * d[s:, j]) for s in range(41)) / len(d) for j in range(5)]
        for i in range(5)
    ]
    np.testing.assert_allclose(likeness(samples, 40), best, atol=1e-9)


@pytest.mark.slow
def test_a_discovery_joins_who_follows_only_and_says_why(found):
    events = read_events(found.samples, lags=LAGS)
    between = found.graph.any(axis=2) & ~np.eye(5, dtype=bool)
    assert found.events and between.any()
    assert not (between & ~events.next).any()
    assert not found.networks.any()
    apart = ~np.eye(5, dtype=bool)
    np.testing.assert_allclose(found.source_scores[apart], events.ranking.value[apart])
    assert "passing events" in {finding.name for finding in found.verdict.reasons}
    assert "comes first" in found.verdict.text
    assert events.choice in found.choices


@pytest.mark.slow
def test_of_many_variables_the_graph_is_not_supported(found):
    def weight(found):
        return {f.weight for f in found.verdict.reasons if f.name == "passing events"}

    assert weight(found) == {"reservation"}
    many = ndde.read_samples(simulate(23, 9)[0], dt=0.25)
    many = ndde.discover(many, recipe=ndde.Recipe.fast(), key=jax.random.key(0))
    assert many.events and weight(many) == {"problem"}


def test_its_delays_are_travel_times(found):
    between = found.graph.any(axis=2) & ~np.eye(5, dtype=bool)
    for i, j in np.argwhere(between):
        largest = largest_shift(found.samples)
        own = ndde.measure.travel_time(
            found.samples, int(i), int(j), largest, key=jax.random.key(3)
        )
        assert found.delays[i, j][found.graph[i, j]] == pytest.approx(own.delay)
        low, high = found.delay_intervals[i, j][found.graph[i, j]].T
        assert (low <= own.delay).all() and (own.delay <= high).all()
    itself = found.graph & np.eye(5, dtype=bool)[..., None]
    lags = np.broadcast_to(0.25 * np.asarray(found.lags), itself.shape)
    np.testing.assert_allclose(found.delays[itself], lags[itself])


@pytest.mark.slow
def test_a_recipe_may_do_without(flood):
    recipe = ndde.Recipe(
        events=False, strategy=ndde.select.Default(networks=None), delays=False, passes=1
    )
    found = ndde.discover(flood[0], lags=LAGS, recipe=recipe, key=jax.random.key(0))
    assert not found.events
    assert "passing events" not in found.verdict.text
