"""A discovery is continued with later measurements, and validated on other records."""

import jax
import numpy as np
import pandas as pd
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
    with pytest.raises(ValueError, match=r"expected the variables x0, x1.*shape \(50, 3\)"):
        first.update(np.zeros((50, 3)))
    with pytest.raises(ValueError, match=r"expected the variables x0, x1.*got x0, z"):
        first.update(pd.DataFrame(record(0)[700:], columns=["x0", "z"]))


def test_columns_are_matched_by_their_names_in_any_order(first, whole):
    frame = pd.DataFrame(record(0)[700:], columns=["x0", "x1"])[["x1", "x0"]].assign(other=1.0)
    np.testing.assert_array_equal(first.update(frame).scores, first.update(record(0)[700:]).scores)
    np.testing.assert_array_equal(
        whole.validate(frame).explained, whole.validate(record(0)[700:]).explained
    )


def test_samples_go_on_with_samples_and_nothing_new_changes_nothing(first):
    new = ndde.read_samples(record(0)[700:], dt=0.5)
    np.testing.assert_array_equal(first.update(new).scores, first.update(record(0)[700:]).scores)
    assert first.update(record(0)[:0]) is first


def test_dates_tell_what_follows(first):
    days = pd.date_range("2001-01-01", periods=1200, freq="D")
    frame = pd.DataFrame(record(0), columns=["a", "b"], index=days)
    found = ndde.discover(frame[:700], lags=range(4), recipe=FAST, key=KEY)
    assert list(map(len, found.update(frame[700:]).samples.values)) == [1200]
    assert list(map(len, found.update(frame[720:]).samples.values)) == [700, 480]
    # A single row has a date, but no interval.
    assert list(map(len, found.update(frame[700:701]).samples.values)) == [701]
    with pytest.raises(ValueError, match="expected samples after 2002-12-01"):
        found.update(frame[699:700])
    with pytest.raises(ValueError, match="at least two time stamps; x has one"):
        ndde.read_samples(frame[:1])
    with pytest.raises(ValueError, match="after 2002-12-01; got samples from 2002-11-22 on"):
        found.update(frame[690:])
    hourly = frame[700:].set_axis(pd.date_range("2002-12-02", periods=500, freq="h"))
    for use in (found.update, found.validate):
        with pytest.raises(ValueError, match=r"interval of 1 day; got 0\.0416667 days"):
            use(hourly)


def test_a_record_of_one_variable_goes_on_as_a_vector():
    x = record(0)[:, 0]
    found = ndde.discover(x[:700], dt=0.5, recipe=FAST, key=KEY)
    assert list(map(len, found.update(x[700:]).samples.values)) == [1200]


def test_several_recordings_confirm_it_too(whole):
    said = whole.validate([record(5)[:600], record(5)[600:]])
    np.testing.assert_array_equal(said.holds, whole.graph)
    np.testing.assert_allclose(said.explained, whole.validate(record(5)).explained, atol=0.01)


def test_another_record_of_the_system_confirms_it(whole):
    said = whole.validate(record(5))
    assert repr(said) == str(said) and repr(said).startswith("Explained of the rates")
    np.testing.assert_array_equal(said.holds, whole.graph)
    # On its own record the true law explains 1 - Var(e) / Var(rate).
    x = record(5)
    rates = np.diff(x, axis=0)[1:]
    np.testing.assert_allclose(said.explained, 1 - 1 / rates.var(axis=0), atol=0.03)
    assert "edges hold" in str(said)


def test_a_record_without_the_link_does_not(whole):
    said = whole.validate(record(6, c=0.0))
    assert not said.holds[0, 1].any() and said.explained[1] < 0.1
    assert "does not hold: x0 -> x1 at lag 1" in str(said)


def test_a_season_that_was_removed_is_removed_from_another_record_too():
    """The law explains 1 - Var(e) / Var(rate) of the record without its season."""
    x = record(7)
    season = 4 * np.sin(np.pi / 6 * np.arange(len(x)))[:, None] * [1.0, -0.5]
    months = pd.date_range("1900-01-01", periods=len(x), freq="MS")
    frame = pd.DataFrame(x + season, index=months, columns=["a", "b"])
    found = ndde.discover(frame[:700], lags=range(4), recipe=FAST, key=KEY)
    assert [treatment.name for treatment in found.samples.treatments] == ["season"]
    said, rates = found.validate(frame[700:]), np.diff(x[700:], axis=0)
    np.testing.assert_allclose(said.explained, 1 - 1 / rates.var(axis=0), atol=0.1)
    assert said.holds[found.graph].all()
    with pytest.raises(ValueError, match="a season was removed"):
        found.validate(frame[700:].to_numpy())


def test_records_of_something_else_are_refused(whole):
    with pytest.raises(ValueError, match=r"expected a sampling interval of 0\.5; got 0\.25"):
        whole.validate(record(0), dt=0.25)
    with pytest.raises(ValueError, match="variables"):
        whole.validate(ndde.read_samples(record(0), dt=0.5, names=("a", "b")))


@pytest.mark.slow
def test_columns_of_a_history_are_matched_by_their_names(first):
    frame = pd.DataFrame(record(5)[:50], columns=["x0", "x1"])
    swapped = frame[["x1", "x0"]]
    ahead = [
        first.forecast(horizon=2, paths=3, key=KEY, history=h).paths
        for h in (frame.to_numpy(), frame, swapped)
    ]
    np.testing.assert_array_equal(ahead[1], ahead[0])
    np.testing.assert_array_equal(ahead[2], ahead[0])
    with pytest.raises(ValueError, match="history expected the variables x0, x1"):
        first.forecast(horizon=2, key=KEY, history=frame.rename(columns={"x1": "z"}))
