"""Clocks as inputs: a season that drives the system stays in the data, and has its own links."""

import jax
import numpy as np
import pytest

import ndde_jax as ndde
from benchmarks.dirty.data import LAGS, dirty
from ndde_jax.check._graph_rules import evidence_of
from ndde_jax.samples._prepare import STEPS

FAST = dict(recipe=ndde.Recipe.fast(), key=jax.random.key(0))
ANGLE = 2 * np.pi / 365.2425


def store_and_head(n=2000, fine=12):
    """A soil that rain fills and evaporation, strongest in summer, empties; it drains nonlinearly
    into groundwater. Daily rain of the day ahead, store and head.
    """
    rng, wet = np.random.default_rng(1), False
    store, head, days = 40.0, 5.0, np.zeros((n, 3))
    for day in range(n):
        wet = rng.random() < (0.6 if wet else 0.25)
        rain = rng.gamma(0.7, 8) if wet else 0.0
        days[day] = rain, store, head
        for _ in range(fine):
            drained = 0.002 * store**1.6
            lost = 3 * (1 - 0.7 * np.cos(ANGLE * day)) * store / (store + 50)
            noise = rng.normal(size=2) * [0.3, 0.03] / np.sqrt(fine)
            store = max(store + (rain - drained - lost) / fine + noise[0], 0.0)
            head += (0.5 * drained - 0.06 * head) / fine + noise[1]
    return days


def wave_columns(found):
    return np.asarray(found.samples.as_measured().values[0])[:, -2:]


@pytest.fixture(scope="module")
def found():
    x, names = store_and_head(), ("rain", "store", "head")
    return ndde.discover(
        x,
        dt=1.0,
        time_unit="day",
        names=names,
        lags=(0, 1, 2),
        scheme="midpoint",
        inputs=["rain", "year"],
        **FAST,
    )


def test_a_clock_is_two_inputs(found):
    assert found.names[3:] == ("year cosine", "year sine")
    assert found.inputs == ("rain", "year cosine", "year sine")
    expected = [np.cos(ANGLE * np.arange(2000)), np.sin(ANGLE * np.arange(2000))]
    np.testing.assert_allclose(wave_columns(found).T, expected, atol=1e-9)
    others = found.graph[:, [0, 3, 4]].copy()
    others[[0, 3, 4], range(3)] = False
    assert not others.any()


def test_nothing_is_removed_and_the_season_drives_what_evaporates(found):
    assert not found.samples.treatments
    links = found.graph.any(axis=2)
    assert links[0, 1] and links[1, 2] and links[3:, 1].any()
    assert not links[2, 1] and not links[3:, 2].any()
    # Cosine and sine are no copies of one another, and no season is left unnamed.
    names = {finding.name for finding in found.verdict.reasons}
    assert not names & {"season", "rhythm", "duplicate", "near duplicate", "linear combination"}


def test_forecasts_continue_the_clock(found):
    ahead = found.forecast(20, inputs={"rain": 0.0}, paths=8, key=jax.random.key(1))
    expected = np.cos(ANGLE * np.arange(2000, 2020))
    np.testing.assert_allclose(ahead.median[:, 3], expected, atol=1e-5)


def test_a_backtest_scores_no_known_inputs(found):
    tested = found.backtest(3, origins=4, paths=8, key=jax.random.key(0))
    assert tested.names == ("store", "head") and tested.coverage.shape[2] == 2


def test_an_update_needs_no_columns_of_clocks():
    x, names = store_and_head(700), ("rain", "store", "head")
    options = dict(dt=1.0, time_unit="day", names=names, lags=(0, 1), **FAST)
    first = ndde.discover(x[:600], inputs=["rain", "year"], **options)
    longer = first.update(x[600:], key=jax.random.key(0))
    assert longer.names == first.names and longer.inputs == first.inputs
    expected = np.sin(ANGLE * np.arange(700))
    np.testing.assert_allclose(wave_columns(longer)[:, 1], expected, atol=1e-9)


def test_dates_align_the_clock_of_several_recordings():
    x = np.random.default_rng(0).normal(size=(900, 2))
    pandas = pytest.importorskip("pandas")
    stamps = pandas.date_range("2001-03-01", periods=900, freq="D")
    frame = pandas.DataFrame(x, index=stamps, columns=["a", "b"])
    parts = [frame.iloc[:400], frame.iloc[500:]]
    found = ndde.discover(parts, inputs="year", lags=(0,), **FAST)
    for values, days in zip(found.samples.values, (range(400), range(500, 900)), strict=True):
        np.testing.assert_allclose(values[:, 3], np.sin(ANGLE * np.array(days)), atol=1e-9)


@pytest.mark.slow
def test_a_common_season_leaves_the_lags_of_links():
    """Four saturating variables, all driven by one season. With the season removed, five of six
    such graphs have a wrong lag or link.
    """
    right = {"clock": 0, "removed": 0}
    for seed in range(6):
        case = dirty("season_common", seed)
        options = dict(lags=LAGS, time_unit="h", key=jax.random.key(0), **case.options)
        off = ~np.eye(4, dtype=bool)[:, :, None]
        period = f"{24 * case.options['dt']}h"
        for name, inputs in (("clock", [period]), ("removed", None)):
            graph = ndde.discover(case.x, inputs=inputs, **options).graph[:4, :4]
            right[name] += np.array_equal(graph & off, case.graph & off)
    assert right["clock"] >= 5 > right["removed"]


@pytest.mark.parametrize(
    ("inputs", "options", "why"),
    [
        ("yeer", {}, 'or name a clock: "day", "week", "year"'),
        ("year", {}, "the unit of dt is unknown; pass time_unit"),
        ("12.42h", {"time_unit": "tick"}, "'tick' cannot be converted"),
    ],
)
def test_what_is_no_clock_is_refused(inputs, options, why):
    x = np.random.default_rng(0).normal(size=(200, 2))
    with pytest.raises(ValueError, match=why):
        ndde.discover(x, dt=1.0, inputs=inputs, **options, **FAST)


def test_several_recordings_without_dates_have_no_phase():
    x = np.random.default_rng(0).normal(size=(200, 2))
    with pytest.raises(ValueError, match="have no dates that show its phase"):
        ndde.discover([x, x + 1], dt=1.0, time_unit="day", inputs="week", **FAST)


def test_totals_that_begin_their_interval_are_not_moved_again(found):
    """Rain acts on the head within the day, through the store."""
    every = (*found.verdict.reasons, *found.verdict.notes)
    (told,) = (f for f in every if f.name == "links at once")
    assert "rain → head acts within" in told.text and told.remedy == "Sample more often."


def waves(days, period):
    angle = 2 * np.pi * np.arange(days) / period
    return np.column_stack([np.cos(angle), np.sin(angle)])


def findings(x, names, inputs):
    samples = ndde.read_samples(x, dt=1.0, time_unit="h", names=names)
    return {finding.name for finding in ndde.data_findings(samples, inputs)}


def test_a_sine_is_no_copy_of_its_cosine_if_both_are_inputs():
    x = np.column_stack([np.random.default_rng(0).normal(size=(600, 2)), waves(600, 24)])
    assert "duplicate" in findings(x, ("a", "b", "cos", "sin"), ())
    assert "duplicate" not in findings(x, ("a", "b", "cos", "sin"), ("cos", "sin"))


def test_columns_of_a_clock_keep_the_season_of_what_they_drive():
    """Also its overtones, and whatever the columns are called."""
    year, noise = waves(2500, 365.2425), np.random.default_rng(0).normal(size=(2500, 2))
    seasonal = noise + 3 * np.column_stack([year[:, 0], waves(2500, 365.2425 / 2)[:, 0]])
    x, names = np.column_stack([seasonal, year]), ("a", "b", "c", "s")
    samples = ndde.read_samples(x, dt=1.0, time_unit="day", names=names)
    removed = [
        [treatment.name for treatment in ndde.prepare_samples(samples, STEPS, known).treatments]
        for known in ((), ("c", "s"))
    ]
    assert removed == [["season"], []]


def test_cosine_and_sine_of_a_clock_are_no_rivals():
    """A quarter of a year later the sine is the cosine."""
    rng, x, year = np.random.default_rng(0), np.zeros((1500, 1)), waves(1500, 365.2425)
    for day in range(1499):
        x[day + 1] = 0.8 * x[day] + 0.5 * year[day, 0] + rng.normal()
    options = dict(dt=1.0, time_unit="day", names=("x",), inputs="year", lags=(0, 91), **FAST)
    evidence = evidence_of(ndde.discover(x, **options))
    rivals, edge = evidence.relations.rivals, (1, 0, 0)
    assert evidence.kept[edge] and rivals.rival[edge].tolist() == [2, 1]
    assert rivals.cost[edge] < 0.5 * evidence.price[0]
    assert not evidence.replaceable[edge]


def test_a_cycle_that_a_clock_explains_is_no_finding():
    """An infection spreads better in one half of the year; its overtones are those of the clock."""
    rng, well, ill, weeks = np.random.default_rng(1), 0.7, 0.01, np.zeros((1500, 2))
    year = waves(1500, 365.2425 / 7)
    for week in range(1500):
        for _ in range(7):
            new = (1 + 0.25 * year[week, 0]) * well * ill * np.exp(0.3 * rng.normal())
            well += (0.04 * (1 - well - ill) + 0.02 * (1 - well) - new) / 7
            ill += (new - 0.5 * ill + 1e-4) / 7
        weeks[week] = well, ill
    samples = ndde.read_samples(
        np.column_stack([weeks, year]), dt=1.0, time_unit="week", names=("well", "ill", "c", "s")
    )
    told = {f.name: f.weight for f in ndde.data_findings(samples, ("c", "s"))}
    assert told["season"] == "note" and "rhythm" not in told
