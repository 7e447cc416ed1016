"""Records in which most windows miss some variable: each target is fitted in those that it has."""

import jax.random as jr
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax.check._sample_rules import data_findings
from ndde_jax.samples._gaps import Stretch
from ndde_jax.select._partial import completed, with_partial
from ndde_jax.select._reading import choose_windows
from ndde_jax.select._screened import Screened


def chain(n=400, dim=6, seed=0):
    """A map in which each of the first three drives the next, two samples later."""
    rng, x = np.random.default_rng(seed), np.zeros((n, dim))
    for k in range(2, n):
        x[k] = 0.5 * x[k - 1] + rng.normal(size=dim)
        x[k, 1:4] += 0.7 * x[k - 2, :3]
    return x


def seldom(x, column=4, measured=60):
    gaps = x.copy()
    gaps[measured:, column] = np.nan
    return gaps


def test_the_missing_values_of_r_are_missing_values():
    """They are signalling NaNs, and NumPy warned of "invalid values" at every sum."""
    gaps = chain(dim=4)
    gaps[50:53, 1] = np.nan
    signalling = gaps.copy()
    signalling.view(np.uint64)[50:53, 1] = 0x7FF00000000007A2
    options = dict(dt=1.0, lags=(0, 1, 2), key=jr.key(0))
    one, other = (ndde.discover(x, **options) for x in (gaps, signalling))
    np.testing.assert_array_equal(one.scores, other.scores)


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


def drifting_chain(n=800):
    """The chain, whose last link grows steadily."""
    rng, x = np.random.default_rng(0), np.zeros((n, 6))
    for k in range(2, n):
        x[k] = 0.5 * x[k - 1] + rng.normal(size=6)
        x[k, 1:4] += np.array([0.7, 0.7, 1.6 * k / n]) * x[k - 2, :3]
    return x


def outages(x, share, seed=0):
    """Every variable misses a share of its values, ten in a row."""
    gaps, rng = x.copy(), np.random.default_rng(seed)
    for column in gaps.T:
        for start in np.flatnonzero(rng.random(len(x)) < share / 10):
            column[start : start + 10] = np.nan
    return gaps


def read(x):
    samples = ndde.read_samples(x, dt=1.0)
    found = choose_windows(samples, lags=(0, 1, 2, 3), scheme="auto", prior=None).screened
    return found.readings


@pytest.mark.parametrize(
    "gaps", (pytest.param(seldom, marks=pytest.mark.slow), lambda x: outages(x, 0.25))
)
def test_a_record_is_read_by_the_windows_that_each_target_has(gaps):
    x = chain(1000)
    whole, found = read(x), read(gaps(x))
    assert whole.name == found.name == "map"
    assert found.evidence < 0.4 * whole.evidence
    kept = np.isfinite(gaps(x)).all(axis=1).mean()
    assert kept < 0.3
    # For a variable without drivers no link is found, as in the whole record.
    np.testing.assert_allclose(found.nats[5], whole.nats[5], atol=2)


@pytest.mark.slow
def test_what_is_told_of_the_others_is_what_they_tell_alone():
    x, dim, lags = drifting_chain(), 6, (0, 1, 2)
    graph = np.zeros((dim, dim, 3), bool)
    graph[range(dim), range(dim), 0] = True
    graph[[0, 1, 2], [1, 2, 3], 1] = True
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
    assert found.drifting[2, 3, 1]
    # The number of the rival is that among all variables.
    rival, alone = found.rivals.rival[within][part], expected.rivals.rival[part]
    assert (rival[:, 0] == np.flatnonzero(others)[alone[:, 0]]).all()
    # For the missing variable the few complete rows decide: a link to itself has rivals.
    assert np.isfinite(found.rivals.cost[4, 4, 0])


def test_pairs_at_once_are_told_where_hardly_a_window_is_complete():
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(600, 1))
    x = np.zeros((600, 12))
    for k in range(599):
        x[k + 1] = 0.5 * x[k] + rng.normal(size=12)
        x[k + 1, :2] += shared[k]
    samples = ndde.read_samples(outages(x, 0.22), dt=1.0)
    windows = ndde.lagged_windows(samples, lags=(0,), scheme="euler")
    windows = with_partial(Screened(windows), samples).windows
    assert int(windows.n_valid) < 40
    graph = np.eye(12, dtype=bool)[..., None]
    found = ndde.assess.relations(windows, graph)
    expected = np.zeros((12, 12), bool)
    expected[[0, 1], [1, 0]] = True
    assert (found.at_once == expected).all()
    assert found.correlation[0, 1] == pytest.approx(0.5, abs=0.1)


def test_no_regime_changes_where_a_gap_begins():
    samples = ndde.read_samples(seldom(chain(600), measured=250), dt=1.0)
    assert "change of regime" not in [finding.name for finding in data_findings(samples)]
    # An existing one is found, and located.
    x = chain(600)
    x[:, 4] += np.where(np.arange(600) > 400, 8.0, 0.0)
    x[:300, 4] = np.nan
    (change,) = [
        one for one in data_findings(ndde.read_samples(x, dt=1.0)) if one.name == "change of regime"
    ]
    assert "about 67% of" in change.text


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_outages_cost_no_link_and_no_verdict(seed):
    """Each of eight stations is down for a sixth of the time: most windows miss something."""
    rng, n, dim = np.random.default_rng(seed), 800, 8
    links = rng.permutation([(i, j) for i in range(dim) for j in range(dim) if i != j])[:6]
    x = np.zeros((n, dim))
    for k in range(2, n):
        x[k] = 0.5 * x[k - 1] + rng.normal(size=dim)
        for source, target in links:
            x[k, target] += 0.5 * x[k - 2, source]
    found = ndde.discover(outages(x, 0.17, seed), dt=1.0, lags=range(4), key=jr.key(0))
    assert int(found.windows.n_valid) < 0.3 * n
    expected = np.zeros((dim, dim, 4), bool)
    expected[links[:, 0], links[:, 1], 1] = True
    between = ~np.eye(dim, dtype=bool)[..., None]
    assert found.reading == "map" and (found.graph & between == expected).all()
    assert found.verdict == "supported"


@pytest.mark.slow
def test_a_variable_with_few_windows_is_named_and_not_the_record():
    recipe = ndde.Recipe.fast()
    found = ndde.discover(
        seldom(chain(), measured=30), dt=1.0, lags=range(3), recipe=recipe, key=jr.key(0)
    )
    (short,) = [one for one in found.findings if one.name == "short record"]
    assert "candidate inputs of x4." in short.text


def test_windows_that_miss_fewest_values_are_completed():
    x = chain(600, dim=12)
    gaps = outages(x, 0.3)
    samples = ndde.read_samples(gaps, dt=1.0)
    made = completed(samples, (0, 1))
    (values,) = made.samples.values
    there = np.isfinite(gaps)
    assert (values[there] == gaps[there]).all()
    added = np.isfinite(values) & ~there
    # The other values of a window explain at least a quarter of the variance of one.
    assert np.mean((values - x)[added] ** 2) < 0.75 * x[added].var()
    complete = int(ndde.lagged_windows(made.samples, lags=(0, 1, 2)).n_valid)
    assert complete >= 10 * 12
    assert f"{added.sum()} estimates" in made.note
    assert completed(ndde.read_samples(outages(x, 0.02), dt=1.0), (0, 1)) is None


@pytest.mark.slow
def test_a_record_without_a_complete_window_is_discovered():
    gaps = outages(chain(600, dim=12), 0.3)
    lags = (0, 1, 2, 3)
    with pytest.raises(ValueError, match="valid windows remain"):
        ndde.lagged_windows(gaps, dt=1.0, lags=lags)
    found = ndde.discover(gaps, dt=1.0, lags=lags, key=jr.key(0), recipe=ndde.Recipe.fast())
    links = {tuple(map(int, link)) for link in np.argwhere(found.graph) if link[0] != link[1]}
    assert links == {(0, 1, 1), (1, 2, 1), (2, 3, 1)}
    # No window counts in which the rate or an input was estimated.
    rated = np.isfinite(gaps[3:-1]) & np.isfinite(gaps[4:])
    assert (np.asarray(found.windows.partial.rated) == rated).all()
    assert any("windows are complete" in choice for choice in found.choices)
    assert found.resample(resamples=2).resamples == 2
