"""Delays between the candidate lags: one edge each, in the search and in all results."""

import functools

import jax
import numpy as np
import pytest
import scipy.signal

import ndde_jax as ndde
from ndde_jax.regression._design import design_of
from ndde_jax.regression._terms import best_fit, find_terms, fit_terms
from ndde_jax.select import _between
from ndde_jax.select._between import (
    FittedDelays,
    Record,
    Refiner,
    delays_between,
    edge_of_reads,
    fit_delays,
    linearised,
    with_candidate_per_edge,
)
from ndde_jax.windows._windows import KnownData

DT, LAGS, NAMES, PARTS = 0.1, (0, 10, 20, 30), ("driver", "follower"), 10
SLOPE = 1.5
GIVEN = dict(dt=DT, lags=LAGS, names=NAMES, inputs=("driver",), key=jax.random.key(0))


def path(*delays, n=1500, law=np.asarray, seed=1):
    """`driver` is smooth noise, `follower` sums its values `delays` samples ago; ten Euler–Maruyama
    steps a sample.
    """
    rng, step = np.random.default_rng(seed), DT / PARTS
    late = [round(delay * PARTS) for delay in delays]
    first = max(late)
    kicks = np.sqrt(step) * rng.normal(size=(first + n * PARTS, 2))

    def decays(rate, change):
        """x[k + 1] = (1 − step · rate) x[k] + change[k], from 0."""
        return scipy.signal.lfilter([0.0, 1.0], [1.0, step * rate - 1], change)

    driver = decays(0.7, step * 0.7 * decays(0.7, 0.8 * kicks[:, 0]))
    drive = np.zeros(len(kicks))
    drive[first:] = sum(law(SLOPE * driver[first - lag : len(driver) - lag]) for lag in late)
    follower = decays(1.0, step * drive + 0.2 * kicks[:, 1])
    return np.stack([driver, follower], axis=1)[first::PARTS]


@functools.cache
def found(*delays, **options):
    recipe = ndde.Recipe(strategy=ndde.select.Default(networks=None), **options)
    return ndde.discover(path(*delays), recipe=recipe, **GIVEN)


def edges(graph):
    """To the follower."""
    return {(NAMES[i], NAMES[1], LAGS[a]) for i, a in np.argwhere(graph[:, 1])}


OWN = {("follower", "follower", 0)}


FURTHER = pytest.param(24, 20, marks=pytest.mark.slow)


@pytest.mark.slow
@pytest.mark.parametrize("delay, candidate", [(14, 10), (16.8, 20), FURTHER])
def test_a_delay_between_candidates_is_one_edge(delay, candidate):
    one = found(delay)
    edge = ("driver", "follower", candidate)
    assert edges(one.graph) == OWN | {edge}
    place = 0, 1, LAGS.index(candidate)
    low, high = one.delay_intervals[place] / DT
    assert low <= delay <= high and high - low < 4
    # The drift reads candidates on both sides of it.
    at = np.array(LAGS)[one.reads[0, 1]]
    assert at.min() < delay < at.max()
    assert (one.reads[one.graph]).all()
    # Without a delay of its own it appears as several inputs that are proxies for it.
    without = found(delay, delays=False)
    assert without.graph[:, 1].sum() > one.graph[:, 1].sum()
    # The edge has the whole strength, and the others none.
    assert one.scores[place] > without.scores[0, 1].max()
    assert (np.delete(one.scores[0, 1], place[2]) <= 0).all()


@pytest.mark.slow
def test_two_delays_at_neighbouring_candidates_stay_two():
    two = found(10, 20)
    assert edges(two.graph) == OWN | {("driver", "follower", 10), ("driver", "follower", 20)}
    assert (two.reads[:, 1] == two.graph[:, 1]).all()


@pytest.mark.slow
def test_a_delay_at_a_candidate_is_read_there_alone():
    one = found(20)
    assert edges(one.graph) == OWN | {("driver", "follower", 20)}
    assert (one.reads[:, 1] == one.graph[:, 1]).all()


def test_delays_settle_where_a_scan_finds_the_least_criterion():
    x = path(14, law=np.tanh)
    samples = ndde.read_samples(x, dt=DT)
    windows = ndde.select.midpoint_windows(x, dt=DT, lags=LAGS)
    record, data = Record.of(samples, windows), KnownData(windows)
    known = data.inputs[:, [1]]
    settled = fit_delays(record, data, known, [0], [18.0], [10.0], 1)
    scan = np.arange(8, 24, 0.2)
    costs = [linearised(record, data, known, [0], [delay], 1).criterion for delay in scan]
    assert abs(settled.delay[0] - scan[np.argmin(costs)]) <= 0.25
    assert settled.criterion <= min(costs) + 0.5


def test_a_smooth_path_near_the_present_is_known_to_half_a_sample():
    """There it is interpolated linearly, although chance leaves little doubt about its delay."""
    rng, t = np.random.default_rng(0), np.arange(600.0)
    source = np.sin(0.5 * t) + np.sin(0.31 * t + 1)
    late = np.sin(0.5 * (t - 2.3)) + np.sin(0.31 * (t - 2.3) + 1)
    follower = np.cumsum(late + 0.05 * rng.normal(size=600))
    x = np.stack([source, follower], axis=1)
    windows = ndde.lagged_windows(x, dt=1.0, lags=(0, 2, 4), scheme="euler")
    record, data = Record.of(ndde.read_samples(x, dt=1.0), windows), KnownData(windows)
    assert not record.rough[0]
    near = fit_delays(record, data, data.inputs[:, :0], [0], [2.0], [1.0], 1)
    assert near.half[0] > 0.5 > near.error[0]


def test_a_record_is_read_where_its_rows_are():
    """Sums of sines, whose values between samples are known; in halves and two trajectories."""

    def wave(t):
        return np.stack([np.sin(0.3 * t), np.cos(0.2 * t + 1)], axis=-1)

    parts = [wave(np.arange(90.0)), wave(np.arange(200.0, 270.0))]
    windows = ndde.lagged_windows(parts, dt=1.0, lags=(0, 4))
    record = Record.of(ndde.read_samples(parts, dt=1.0), windows)
    times = np.concatenate([np.arange(4, 89), np.arange(204, 269)])
    center, scale = (np.asarray(a) for a in (windows.scaling.center, windows.scaling.scale))
    # A rate is the mean over a step, which is slightly later for a damped variable.
    inside = (np.arange(1000) + 0.5) / 1000
    first = times[:, None] - 3.7 + inside
    later = [wave(first + record.later[i])[..., i].mean(axis=1) for i in range(2)]
    expected = (np.stack(later, axis=1) - center) / scale
    assert not record.rough.any()
    # A cubic at the first row of a trajectory would read a sample before it.
    seen = ~np.isin(np.arange(len(times)), (0, 85))
    for i in range(2):
        read = record.at(i, 3.7, i)
        np.testing.assert_array_equal(np.isfinite(read), seen)
        np.testing.assert_allclose(read[seen], expected[seen, i], atol=2e-3)
    row = np.arange(270.0)
    lines = np.interp(first + record.later[0], row, wave(row)[:, 0]).mean(axis=1)
    lines = (lines - center[0]) / scale[0]
    np.testing.assert_allclose(record.at(0, 3.7, 0, True), lines, atol=1e-4)
    rows = slice(40, 120)
    half = ndde.Windows(
        **{
            name: value[rows] if name in ("history", "increment", "valid", "weight", "position")
            else value
            for name, value in vars(windows).items()
        }
    )  # fmt: skip
    read = np.where(seen, expected[:, 0], np.nan)[rows]
    np.testing.assert_allclose(record.of_rows(half).at(0, 3.7, 0), read, atol=2e-3)


def test_columns_with_other_inputs_are_those_of_these_inputs():
    rng = np.random.default_rng(3)
    inputs, weight = rng.normal(size=(300, 5)), np.where(rng.random(300) < 0.9, 1.0, 0.0)
    other = rng.normal(size=(300, 2)) ** 3
    changed = inputs.copy()
    changed[:, [3, 1]] = other
    before = design_of(inputs, weight)
    copies = [np.array(part) for part in (before.features, before.gram, before.norms)]
    got, expected = before.with_inputs([3, 1], other), design_of(changed, weight)
    for mine, theirs in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-9)
    for copy, name in zip(copies, ("features", "gram", "norms"), strict=True):
        assert (copy == getattr(before, name)).all()  # the common part of others did not change


def test_candidates_belong_to_the_edge_whose_delay_is_nearest():
    lags = np.array([0.0, 5, 10, 15, 20])
    graph = np.array([1, 0, 1, 0, 0], bool)
    delays = np.where(graph, [0, 0, 12.4, 0, 0], np.nan)
    reads = np.array([1, 1, 1, 1, 0], bool)
    # 5 is nearer to 0 than to 12.4; each edge keeps its own.
    assert edge_of_reads(reads, graph, delays, lags).tolist() == [0, 0, 2, 2, -1]
    nothing = np.zeros(5, bool)
    assert edge_of_reads(reads, nothing, delays * np.nan, lags).tolist() == [-1] * 5
    assert with_candidate_per_edge(nothing, graph, delays, lags).tolist() == graph.tolist()
    only = np.array([0, 0, 0, 1, 0], bool)
    assert with_candidate_per_edge(only, graph, delays, lags).tolist() == [
        True,
        False,
        False,
        True,
        False,
    ]
    assert not with_candidate_per_edge(reads, nothing, delays, lags).any()


@pytest.mark.slow
def test_effects_are_of_the_edge_and_not_of_its_readers():
    one = found(14)
    e = one.effects()
    i, j, a = 0, 1, LAGS.index(10)
    assert np.isfinite(e.slope[0, 1]).tolist() == [lag == 10 for lag in LAGS]
    assert e.slope_low[i, j, a] < SLOPE < e.slope_high[i, j, a]
    assert abs(e.slope[i, j, a] - SLOPE) < 0.15
    x, y, *_ = e.curve("driver", "follower")
    assert abs(np.polyfit(x, y, 1)[0] - SLOPE) < 0.2


@pytest.mark.slow
def test_a_cut_edge_is_cut_at_every_reader():
    one, key = found(14), jax.random.key(1)
    options = dict(horizon=40, paths=4, key=key, cut=[("driver", "follower")])
    high, low = (one.intervene({"driver": value}, **options) for value in (2.0, -2.0))
    np.testing.assert_allclose(high.changed[..., 1], low.changed[..., 1], atol=1e-5)
    options.pop("cut")
    high, low = (one.intervene({"driver": value}, **options) for value in (2.0, -2.0))
    assert np.mean(high.changed[:, -1, 1] - low.changed[:, -1, 1]) == pytest.approx(
        4 * SLOPE, rel=0.15
    )


@pytest.mark.slow
def test_halves_of_the_record_know_delays_of_their_own():
    one = found(14)
    again = ndde.recover(one.windows, one._strategy(), key=jax.random.key(2))
    assert (np.asarray(again.graph)[:, 1] == one.graph[:, 1]).all()


@pytest.mark.slow
def test_networks_see_sources_at_their_delays():
    """A law with more bends than splines can follow."""

    def law(drive):
        return np.sin(6 * drive)

    one = ndde.discover(path(14, law=law, n=3000, seed=0), **GIVEN)
    assert one.networks[1]
    assert edges(one.graph) == OWN | {("driver", "follower", 10)}
    assert one.delay_intervals[0, 1, 1, 0] / DT <= 14 <= one.delay_intervals[0, 1, 1, 1] / DT


def test_one_candidate_alone_is_refined_as_well():
    one = ndde.discover(path(14), **GIVEN | {"lags": (10,)}, recipe=ndde.Recipe.fast())
    assert one.graph[0, 1, 0]
    assert np.isfinite(one.delays[one.graph]).all()


@pytest.mark.slow
def test_lags_that_grow_keep_delays_near_their_candidates():
    """The distance between the longest candidates is no room for the shortest."""
    one = ndde.discover(
        path(14), **GIVEN | {"lags": (0, 5, 10, 20, 40, 80)}, recipe=ndde.Recipe.fast()
    )
    assert one.graph[0, 1].tolist() == [False, False, True, False, False, False]
    low, high = one.delay_intervals[0, 1, 2] / DT
    assert low <= 14 <= high


@pytest.mark.slow
def test_the_report_lists_the_lags_that_a_drift_would_read():
    one = found(14)
    (note,) = (note for note in one.verdict.notes if note.name == "delay between lags")
    assert "driver → follower after 1.4" in note.text
    assert "lags=(0, 10, 14, 20, 30)" in note.remedy
    told = ndde.discover(
        path(14), **GIVEN | {"lags": (0, 10, 14, 20, 30)}, recipe=ndde.Recipe.fast()
    )
    assert told.graph[0, 1].tolist() == [False, False, True, False, False]
    assert (told.reads[:, 1] == told.graph[:, 1]).all()
    assert not [note for note in told.verdict.notes if note.name == "delay between lags"]
    # A variable that resembles the source no longer takes part of its effect.
    effect = told.effects()
    assert effect.slope_low[0, 1, 2] < SLOPE < effect.slope_high[0, 1, 2]


def test_lags_that_hold_a_delay_are_no_finer():
    graph = np.zeros((1, 1, 3), bool)
    graph[0, 0, 1] = True
    reads, lags = np.ones((1, 1, 3), bool), (0, 5, 10)
    for delay, finer in ((7.4, (0, 5, 7, 10)), (5.3, lags), (9.8, lags)):
        between, longer = delays_between(graph, reads, np.where(graph, delay, np.nan), lags)
        assert longer == finer and between.any() == (finer != lags)
    assert not delays_between(graph, graph, np.where(graph, 7.4, np.nan), lags)[0].any()


def refiner(*delays, among=None):
    """The record itself, and the choice of splines for the follower, `[input]`."""
    x = path(*delays)
    windows = ndde.select.midpoint_windows(x, dt=DT, lags=LAGS)
    data = KnownData(windows)
    design, places = design_of(data.inputs, data.weight), data.allowed
    if among is not None:
        data = data.allowing(np.stack([among, among]))
    return Refiner(Record.of(ndde.read_samples(x, dt=DT), windows), data, LAGS, design, places)


def searched(own, mask, start):
    """The criterion and result of a search for the follower with the driver settled near a start;
    None if it does not settle.
    """
    at = own._settled(1, mask, [0], np.array([start]))
    output = own.data.outputs[:, 1]
    return None if at is None else own.searched(1, own.with_delays(1, at), output, at)


# Inputs are (lag, source): the follower itself, and the driver at 10 and 20 samples.
BOTH = np.isin(np.arange(8), (1, 2, 4))


def test_a_search_that_is_no_better_is_not_taken(monkeypatch):
    """Worse as one delay, the neighbours are tried as two; rounds end with the first that fails."""
    own, calls = refiner(14), []
    y, _ = own.design.standardised(own.data.outputs[:, 1])
    base = best_fit(own.design, y, BOTH).criterion()
    one, settled = searched(own, BOTH, 14.0)[1], own._settled

    def scripted(costs):
        costs = iter(costs)

        def counted(j, mask, sources, start):
            calls.append(len(sources))
            return settled(j, BOTH, [0], np.array([14.0]))

        def told(j, design, y, at):
            return base + next(costs), one._replace(shortlist=np.array([len(calls)]))

        monkeypatch.setattr(own, "_settled", counted)
        monkeypatch.setattr(own, "searched", told)
        calls.clear()
        found = own(1, BOTH, base)
        return None if found is None else int(found.shortlist[0])

    assert scripted([5.0, 5.0]) is None and calls == [1, 2]
    assert scripted([5.0, -5.0, -4.0]) == 2 and calls == [1, 2, 1]
    assert scripted([-5.0, -9.0, -7.0]) == 2 and calls == [1, 1, 1]


def test_a_delay_may_be_in_the_place_of_a_candidate_that_was_left_out():
    """As for second lags of a source with errors; forbidden inputs stay forbidden."""
    own = refiner(14, among=np.isin(np.arange(8), (1, 4)))
    found = searched(own, BOTH & ~np.isin(np.arange(8), 2), 18.0)[1]
    assert np.flatnonzero(found.mask).tolist() == [1, 2]  # the follower, and the driver at 14
    assert abs(found.delays[2] - 14) < 1


@pytest.mark.parametrize("end, stays", [(29.0, True), (2.5, True), (16.0, False)])
def test_what_runs_to_the_end_of_its_room_stays(end, stays, monkeypatch):
    """From 14 it may move by one and a half steps of ten, and no delay is below 2.5."""
    settled = FittedDelays(np.array([end]), np.array([0.3]), np.zeros(1), np.ones(1), 0.0, 0.5)
    monkeypatch.setattr(_between, "fit_delays", lambda *_: settled)
    found = searched(refiner(14), BOTH, 14.0)
    assert (found is None) == stays


def test_beside_a_candidate_is_at_it():
    own = refiner(14)
    found = searched(own, BOTH, 14.0)[1]
    assert own.between(found)
    here = np.arange(8) == 2  # the driver at 10 samples, with steps of 10
    for delay, clear in ((11.9, False), (12.1, True), (8.1, False), (7.9, True)):
        moved = found._replace(
            delays=np.where(here, delay, np.nan), halves=np.where(here, 0.5, np.nan)
        )
        assert own.between(moved) == clear
    unsure = found._replace(halves=np.where(here, 5.0, np.nan))
    assert not own.between(unsure)


def test_a_delay_costs_a_number_and_its_position():
    own = refiner(14)
    cost, found = searched(own, BOTH, 14.0)
    assert np.isfinite(found.delays).sum() == 1
    # Steps of ten samples hold twenty positions half a sample apart.
    price = np.log(found.design.n_windows) + 2 * np.log(20)
    y, _ = found.design.standardised(own.data.outputs[:, 1])
    assert cost == pytest.approx(best_fit(found.design, y, found.mask).criterion() + price)
    known = own.data.inputs[:, [1]]
    state = linearised(own.record, own.data, known, [0], [14.0], 1)
    late = own.record.at(0, 14.0, 1)
    seen = np.isfinite(own.record.at(0, 13.5, 1) + own.record.at(0, 14.5, 1))
    design = design_of(np.column_stack([known, late])[seen], own.data.weight[seen])
    y, every = design.standardised(own.data.outputs[seen, 1])[0], np.ones(2, bool)
    plain = fit_terms(design, y, find_terms(design, y, every, every)).criterion(candidates=0)
    assert state.criterion == pytest.approx(plain + np.log(design.n_windows))


def test_a_drift_reads_the_candidates_on_either_side():
    own = refiner(24)
    found = searched(own, BOTH, 24.0)[1]
    some, one, two = own.readings(1, found, found.mask, BOTH)
    driver = {name: LAGS_OF[mask[::2]].tolist() for name, mask in (("one", one), ("two", two))}
    assert driver == {"one": [20, 30], "two": [10, 20, 30]}
    assert LAGS_OF[some[::2]].tolist() == [10, 20]  # one of those that splines had chosen


LAGS_OF = np.array(LAGS)


def test_an_edge_keeps_its_own_candidate():
    graph, lags = np.array([False, True, True]), np.array([0.0, 5, 10])
    # 5 is nearer to the delay of the second edge than to its own.
    delays = np.array([np.nan, 2.6, 6.0])
    assert edge_of_reads(graph, graph, delays, lags).tolist() == [-1, 1, 2]
