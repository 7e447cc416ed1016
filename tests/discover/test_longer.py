"""A discovery goes on with what was measured since, and is held against other records."""

import jax
import numpy as np
import pytest

import ndde_jax as ndde

KEY, FAST = jax.random.key(0), ndde.Recipe.fast()


def record(seed, n=1200, c=0.6):
    """y[t+1] = y/2 + c x[t−1] + e, x[t+1] = x/2 + e."""
    rng, x = np.random.default_rng(seed), np.zeros((n, 2))
    for t in range(1, n - 1):
        x[t + 1] = 0.5 * x[t] + np.array([0, c * x[t - 1, 0]]) + rng.normal(size=2)
    return x


@pytest.fixture(scope="module")
def whole():
    return ndde.discover(record(0), dt=0.5, lags=range(4), recipe=FAST, key=KEY)


@pytest.fixture(scope="module")
def first():
    return ndde.discover(record(0)[:700], dt=0.5, lags=range(4), recipe=FAST, key=KEY)


def test_what_was_measured_since_makes_it_the_discovery_of_the_whole(first, whole):
    longer = first.update(record(0)[700:])
    np.testing.assert_array_equal(longer.graph, whole.graph)
    np.testing.assert_allclose(longer.scores, whole.scores, atol=1e-6)
    np.testing.assert_allclose(longer.samples.times[0], whole.samples.times[0])


def test_further_recordings_are_others(first):
    more = first.update([record(1), record(2)])
    assert len(more.samples.values) == 3 and more.graph[0, 1].tolist() == [
        False,
        True,
        False,
        False,
    ]


def test_other_variables_are_refused(first):
    with pytest.raises(ValueError, match=r"expected arrays \[time 2\]"):
        first.update(np.zeros((50, 3)))


def test_another_record_of_the_system_confirms_it(whole):
    said = whole.validate(record(5))
    np.testing.assert_array_equal(said.holds, whole.graph)
    # On a record of its own the true law explains: 1 - Var(e) / Var(rate).
    x = record(5)
    rates = np.diff(x, axis=0)[1:]
    np.testing.assert_allclose(said.explained, 1 - 1 / rates.var(axis=0), atol=0.03)
    assert "edges hold" in str(said)


def test_a_record_without_the_link_does_not(whole):
    said = whole.validate(record(6, c=0.0))
    assert not said.holds[0, 1].any() and said.explained[1] < 0.1
    assert "does not hold: x0 -> x1 at lag 1" in str(said)


def test_records_of_something_else_are_refused(whole):
    with pytest.raises(ValueError, match=r"expected a sampling interval of 0\.5; got 0\.25"):
        whole.validate(record(0), dt=0.25)
    with pytest.raises(ValueError, match="variables"):
        whole.validate(ndde.read_samples(record(0), dt=0.5, names=("a", "b")))
