"""Variables that repeat themselves: weekends, daylight, daily set points."""

import jax
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax.samples._columns import period_of
from ndde_jax.use._forecast import inputs_ahead, read_history

RNG = np.random.default_rng(0)
TIME = np.arange(900)
WEEKEND = (TIME % 7 > 4).astype(float)


def visits(n=900, seed=0):
    """Advertisements bring visits two days later, and weekends bring visits the day after."""
    rng = np.random.default_rng(seed)
    ads, seen = np.zeros(n), np.zeros(n)
    for t in range(3, n):
        ads[t] = 0.8 * ads[t - 1] + 0.3 * rng.normal()
        seen[t] = 0.5 * seen[t - 1] + 0.4 * ads[t - 2] + 0.5 * WEEKEND[t - 1] + 0.1 * rng.normal()
    return np.stack([ads, seen, WEEKEND[:n]], axis=1)


@pytest.mark.parametrize(
    "x, period",
    [
        (WEEKEND, 7),
        (np.cos(2 * np.pi * (TIME % 24) / 24), 24),
        (np.repeat([0.0, 1.0, 3.0], 300)[(TIME * 7) % 900], None),
        (np.where(TIME == 400, 9.0, WEEKEND), None),
        (np.cos(TIME), None),
        (np.repeat(RNG.normal(size=90), 10), None),
        (np.zeros(900), None),
        (TIME * 1.0, None),
        (WEEKEND[:20], None),
    ],
    ids="week hours scrambled holiday irrational held constant trend short".split(),
)
def test_a_schedule_repeats_itself_to_rounding_for_three_periods(x, period):
    assert period_of(x) == period
    if period is not None:  # and for no shorter one
        assert not any(np.allclose(x[p:], x[:-p], atol=1e-9) for p in range(1, period))


NAMES = ("ads", "visits", "weekend")
FAST = dict(recipe=ndde.Recipe.fast(), key=jax.random.key(0))


@pytest.fixture(scope="module")
def found():
    options = dict(dt=1.0, names=NAMES, time_unit="day", lags=range(10))
    return ndde.discover(visits(), **options, **FAST)


@pytest.mark.slow
def test_a_schedule_drives_within_its_period_and_nothing_drives_it(found):
    graph = np.asarray(found.graph)
    assert graph[2, 1, 0] and graph[0, 1, 1]
    assert not graph[2, :2, 7:].any() and not graph[:2, 2].any()
    (told,) = [one.text for one in found.findings if "schedule" in one.text]
    assert "weekend repeats itself every 7 days" in told
    free = np.asarray(found.windows.prior.allowed)
    assert not free[:2, 2].any() and not free[2, :2, 7:].any() and free[:2, :2].all()
    assert free[2, 2].all() and free[2, :2, :7].all()
    assert found.inputs == ("weekend",)


@pytest.mark.slow
def test_a_schedule_goes_on_in_forecasts_from_where_a_history_ends(found):
    later = (np.arange(900, 920) % 7 > 4).astype(float)
    ahead = inputs_ahead(read_history(found, None), None, 20)
    np.testing.assert_array_equal(ahead["weekend"], later)
    part = ndde.read_samples(visits()[:50], dt=1.0, names=NAMES, time_unit="day")
    ahead = inputs_ahead(read_history(found, part), None, 20)
    np.testing.assert_array_equal(ahead["weekend"], WEEKEND[50:70])
    # The time at which an array ends is unknown; given values count.
    assert inputs_ahead(read_history(found, visits()[:53]), None, 20) == {}
    assert inputs_ahead(read_history(found, None), {"weekend": 1.0}, 20) == {"weekend": 1.0}


@pytest.mark.slow
def test_of_a_longer_record_a_schedule_may_be_none(found):
    with_holiday = visits(n=60, seed=1)
    with_holiday[::5, 2] = 1.0
    more = found.update(with_holiday)
    assert more.inputs == () and np.asarray(more.windows.prior.allowed).all()


@pytest.mark.slow
def test_what_a_prior_requires_of_a_schedule_stays():
    required = [("weekend", "visits", 8), ("ads", "weekend", 1)]
    prior = ndde.prior_knowledge(NAMES, lags=range(10), required=required)
    options = dict(dt=1.0, names=NAMES, lags=range(10), prior=prior)
    found = ndde.discover(visits(n=300), **options, **FAST)
    assert found.graph[2, 1, 8] and found.graph[0, 2, 1]


def test_an_oscillation_of_all_variables_is_no_schedule():
    x = np.stack([np.cos(2 * np.pi * TIME / 60), np.sin(2 * np.pi * TIME / 60)], axis=1)
    found = ndde.discover(x, dt=0.1, lags=(0,), **FAST)
    assert not any("schedule" in one.text for one in found.findings)
    assert np.asarray(found.graph).any()


@pytest.mark.slow
def test_the_last_of_some_recordings_may_hold_one_period_only():
    parts = [visits(), visits(n=30, seed=1)[:12]]
    options = dict(dt=1.0, names=NAMES, lags=range(4))
    several = ndde.discover(parts, **options, **FAST)
    ahead = inputs_ahead(read_history(several, None), None, 9)
    np.testing.assert_array_equal(ahead["weekend"], WEEKEND[12:21])
