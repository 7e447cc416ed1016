"""Variables that miss much, and what the others tell without them."""

import itertools

import numpy as np

import ndde_jax as ndde
from ndde_jax.check._sample_rules import data_findings
from ndde_jax.regression._readings import compare_readings
from ndde_jax.samples._gaps import Stretch, measured_together
from ndde_jax.select._partial import with_partial
from ndde_jax.select._screened import Screened


def chain(n=400, dim=6, seed=0):
    """A map in which each of the first three drives the next two samples later."""
    rng, x = np.random.default_rng(seed), np.zeros((n, dim))
    for k in range(2, n):
        x[k] = 0.5 * x[k - 1] + rng.normal(size=dim)
        x[k, 1:3] += 0.5 * x[k - 2, :2]
    return x


def seldom(x, column=4, measured=60):
    gaps = x.copy()
    gaps[measured:, column] = np.nan
    return gaps


def test_variables_measured_together_are_those_of_a_search_of_all_sets():
    rng = np.random.default_rng(0)
    for _ in range(10):
        there = rng.random((300, 5)) > rng.choice([0.02, 0.02, 0.5, 0.8], 5)[None]
        found = measured_together(there)
        size = int(found.sum())
        sets = itertools.combinations(range(5), size)
        most = max(int(there[:, list(some)].all(axis=1).sum()) for some in sets)
        assert int(there[:, found].all(axis=1).sum()) == most
    assert measured_together(rng.random((300, 5)) > 0.1).all()
    assert measured_together(np.zeros((10, 4), bool)).sum() >= 2


def test_the_longest_stretch_passes_short_gaps_alone():
    x = np.arange(50.0) ** 2
    gaps = x.copy()
    gaps[:2], gaps[20], gaps[30:40] = np.nan, np.nan, np.nan
    found = Stretch.longest(gaps)
    assert found.first == 2 and len(found.x) == 28
    np.testing.assert_allclose(
        found.x, np.where(np.arange(2, 30) == 20, x[[19, 21]].mean(), x[2:30])
    )
    assert not len(Stretch.longest(np.full(5, np.nan)).x)


def test_a_long_gap_makes_no_memory():
    lags, _ = ndde.windows.choose_lags(ndde.read_samples(chain(), dt=1.0))
    found, _ = ndde.windows.choose_lags(ndde.read_samples(seldom(chain()), dt=1.0))
    assert found == lags


def test_a_record_is_read_by_the_variables_that_are_measured():
    x, dim = chain(), 6
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    edges = np.ones((dim, dim, 3), bool)
    found = compare_readings([seldom(z)], (0, 1, 2), edges, ~edges)
    others = np.arange(dim) != 4
    part = edges[others][:, others]
    expected = compare_readings([z[:, others]], (0, 1, 2), part, ~part)
    np.testing.assert_allclose(found.nats[others], expected.nats)
    assert found.nats[4] == 0 and found.name == expected.name
    assert (found.map_graph[others][:, others] == expected.map_graph).all()


def test_what_is_told_of_the_others_is_what_they_tell_alone():
    x, dim, lags = chain(), 6, (0, 1, 2)
    graph = np.zeros((dim, dim, 3), bool)
    graph[range(dim), range(dim), 0] = True
    graph[[0, 1], [1, 2], 1] = True
    others = np.arange(dim) != 4

    def relations_of(x, graph):
        samples = ndde.read_samples(x, dt=1.0)
        windows = ndde.lagged_windows(samples, lags=lags, scheme="euler")
        windows = with_partial(Screened(windows), samples).windows
        return ndde.assess.relations(windows, graph)

    found = relations_of(seldom(x), graph)
    part = graph[others][:, others]
    expected = relations_of(x[:, others], part)
    within = np.ix_(others, others)
    np.testing.assert_allclose(
        found.rivals.cost[within][part], expected.rivals.cost[part], rtol=0.02
    )
    np.testing.assert_allclose(found.correlation[within], expected.correlation, atol=0.01)
    for name in ("at_once", "confounded", "not_excluded", "unconfirmed", "drifting"):
        assert (getattr(found, name)[within] == getattr(expected, name)).all(), name
    # The number of the rival is that among all variables.
    rival, alone = found.rivals.rival[within][part], expected.rivals.rival[part]
    assert (rival[:, 0] == np.flatnonzero(others)[alone[:, 0]]).all()
    # Of the variable that is missing the few rows tell that hold all: a link to itself has rivals.
    assert np.isfinite(found.rivals.cost[4, 4, 0])


def test_no_regime_changes_where_a_gap_begins():
    samples = ndde.read_samples(seldom(chain(600), measured=250), dt=1.0)
    assert "change of regime" not in [finding.name for finding in data_findings(samples)]
    # One that is there is found, and where.
    x = chain(600)
    x[:, 4] += np.where(np.arange(600) > 400, 8.0, 0.0)
    x[:300, 4] = np.nan
    (change,) = [
        one for one in data_findings(ndde.read_samples(x, dt=1.0)) if one.name == "change of regime"
    ]
    assert "about 67% of" in change.text
