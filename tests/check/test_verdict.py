"""The verdict: what decides it, and its five lines."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax.assess import Relations, Rivals
from ndde_jax.check import Finding, _graph_rules
from ndde_jax.check._graph_rules import evidence_of
from ndde_jax.check._verdict import verdict_from_findings
from tests.check.test_data_findings import oscillators
from tests.check.test_report import EDGES, found_on

NAMES = ("a", "b", "c")


@pytest.fixture(autouse=True)
def no_memory(monkeypatch):
    """Models and graphs drawn at random leave arbitrary residuals; each test sets those that
    matter.
    """
    monkeypatch.setattr(_graph_rules, "memory_of", lambda *_: np.zeros(3))
    nothing = lambda _, graph, *__, **___: Relations.none(graph)  # noqa: E731
    monkeypatch.setattr("ndde_jax._discovery.relations", nothing)


@pytest.fixture(scope="module")
def found():
    return found_on(oscillators(), edges=EDGES, names=NAMES)


def with_memory(monkeypatch, *shares):
    monkeypatch.setattr(_graph_rules, "memory_of", lambda *_: np.array(shares))


def again(found, **changes):
    return dataclasses.replace(found, **changes)


def reasons(found):
    return [finding.name for finding in found.verdict.reasons]


def test_clean_data_and_clear_edges_are_supported(found):
    assert found.verdict == "supported" and str(found.verdict) == "supported"
    assert found.verdict.reasons == () and f"{found.verdict}" == "supported"


def test_it_is_said_in_a_few_lines(found):
    lines = found.verdict.lines
    assert [line.partition(":")[0] for line in lines] == [
        "Verdict",
        "How sure",
        "Against it",
        "Next",
    ]
    assert "1 link between variables: a → b after 2 months." in lines[0]
    assert "3 of 3 kept inputs" in lines[1]
    assert lines[2] == "Against it: nothing that was tested."
    assert max(map(len, found.verdict.text.splitlines())) <= 88


def test_a_flow_that_reads_the_present_may_do_so_up_to_a_sample_later():
    edges = {(0, 0, 0): 0.3, (1, 1, 0): 0.3, (2, 2, 0): 0.3, (0, 1, 0): 0.2}
    found = found_on(oscillators(), edges=edges, names=NAMES, lags=(0, 1))
    ends = np.zeros((*found.graph.shape, 2))
    within = ends.copy()
    within[0, 1, 0, 1] = found.dt
    first = again(found, reading="flow", delay_intervals=within).verdict.lines[0]
    assert first.endswith("1 link between variables: a → b after at most 0.5 months.")
    only = again(found, reading="flow", delay_intervals=ends).verdict.lines[0]
    assert only.endswith("1 link between variables: a → b without delay.")


def test_what_explains_little_on_blocks_that_were_not_fitted_is_said(found):
    """The shares are those of the record, and of variables if they are less than half of it."""
    inside = 1 - np.asarray(found.strengths.risk)
    assert "blocks" not in again(found, held_out=1 - 0.6 * inside).verdict.lines[1]
    half = again(found, held_out=1 - np.array([0.6, 0.4, -3.0]) * inside).verdict.lines[1]
    said = f"less than half of that is explained: b {0.4 * inside[1]:.0%}, c 0%."
    assert f"rates of change: a {inside[0]:.0%}, b" in half and said in half


def test_the_report_begins_with_it_and_is_short(found):
    assert found.report().startswith(found.verdict.text)
    assert "Identifiability" not in found.report()
    assert "Identifiability" in found.report(full=True)
    assert len(found.report()) < 2000


def test_inputs_that_another_variable_could_carry(found, monkeypatch):
    """One is a reservation, two of nine are too many."""

    def with_rivals(graph, close, lag=0):
        cost, rival = np.where(graph, 0.2, np.inf), np.zeros((*graph.shape, 2), int)
        rival[..., 1] = lag
        rivals = Rivals(cost, np.where(close, -0.1, cost), rival, cost)
        relations = dataclasses.replace(Relations.none(graph), rivals=rivals)
        monkeypatch.setattr("ndde_jax._discovery.relations", lambda *_, **__: relations)
        return again(found, graph=graph, lower=np.where(graph, 0.1, -1.0), scores=1.0 * graph)

    assert with_rivals(found.graph, np.zeros_like(found.graph)).verdict == "supported"
    one = np.zeros_like(found.graph)
    one[0, 1, 1] = found.graph[0, 1, 1]
    told = with_rivals(found.graph, one).verdict
    assert told == "with reservations" and [r.name for r in told.reasons] == ["replaceable edges"]
    text = told.reasons[0].text
    assert (
        "1 of 3 inputs could" in text and "a → b after 2 months, or from a after 0.5 months" in text
    )
    many = np.ones_like(found.graph)
    many[..., 1] = False  # nine inputs, of two candidate lags
    first = np.zeros_like(many)
    first[0, 1, 0] = True
    assert with_rivals(many, first).verdict == "with reservations"
    first[1, 2, 0] = True
    assert with_rivals(many, first).verdict == "not supported"
    own = np.zeros_like(many)
    own[1, 1, 0] = own[2, 2, 0] = True  # variable 0 already drives both: no link is at stake
    assert with_rivals(many, own).verdict == "supported"
    # A link that the target's own past could replace may be no link from another variable.
    into_first = np.zeros_like(many)
    into_first[1, 0, 0] = into_first[2, 0, 0] = True  # all rivals are variable 0
    assert with_rivals(many, into_first).verdict == "not supported"  # a copy, at the same lag
    told = with_rivals(many, into_first, lag=1).verdict
    assert told == "with reservations" and "or by the target's own past" in told.reasons[0].text
    assert told.reasons[0].remedy.startswith("Record for longer")
    # Variable 0, which drives no other now: at another lag, and as a copy at the same one.
    apart = many & (np.eye(3, dtype=bool) | (np.arange(3) > 0)[:, None])[..., None]
    assert with_rivals(apart, own, lag=1).verdict == "with reservations"  # 1 and 2 are a pair
    assert with_rivals(apart, own).verdict == "not supported"
    evidence = evidence_of(with_rivals(np.ones_like(many), np.ones_like(many)))
    assert evidence.replaceable.all()  # neither of two lags lies between others


def test_cosine_and_sine_of_a_phase_are_no_rivals():
    rng = np.random.default_rng(0)
    phase = 0.7 * np.arange(400) + 0.3 * np.cumsum(rng.normal(size=400))
    x = np.column_stack([np.cos(phase), np.sin(phase), np.sin(phase) + 0.1 * rng.normal(size=400)])
    evidence = evidence_of(found_on(x, edges={(0, 0, 0): 0.3}, names=NAMES))
    np.testing.assert_array_equal(np.argwhere(evidence.one_phase), [[0, 1], [1, 0]])
    rival = np.full((*evidence.graph.shape, 2), 0)
    rival[..., 0] = 1  # the sine in place of the cosine
    cost = np.where(evidence.graph, 0.0, np.inf)
    rivals = Rivals(cost, cost - 1, rival, cost)
    relations = dataclasses.replace(Relations.none(evidence.graph), rivals=rivals)
    assert not dataclasses.replace(evidence, relations=relations).replaceable.any()
    rival[..., 0] = 2
    assert dataclasses.replace(evidence, relations=relations).replaceable.any()


def test_two_lags_of_one_delay_between_them_are_no_neighbours():
    edges = {(0, 0, 0): 0.3, (0, 1, 1): 0.2, (0, 1, 2): 0.2}
    found = found_on(oscillators(), edges=edges, names=NAMES, lags=(0, 1, 2))
    delays = np.where(found.graph, np.asarray(found.lags) * found.dt, np.nan)
    flow = again(found, reading="flow", delays=delays)
    assert np.argwhere(evidence_of(flow).touching).tolist() == [[0, 1, 2]]
    delays = delays.copy()
    delays[0, 1, 1:] = 1.5 * found.dt
    assert not evidence_of(again(flow, delays=delays)).touching.any()


def test_sources_that_nothing_moves_are_said_where_a_graph_is_supported(found):
    assert "Nothing measured moves a: an unobserved driver" in found.verdict.lines[1]
    known = dataclasses.replace(evidence_of(found), inputs=("a",))
    assert "Nothing measured" not in verdict_from_findings(known, []).lines[1]
    doubt = Finding("measured", "residual memory", 1.0, "", ".", weight="reservation")
    assert "Nothing measured" not in verdict_from_findings(evidence_of(found), [doubt]).lines[1]


def test_pairs_that_nothing_else_moves_are_said_where_a_graph_is_supported():
    both = found_on(oscillators(), edges={(0, 1, 0): 0.3, (1, 0, 0): 0.3}, names=NAMES)
    said = verdict_from_findings(evidence_of(both), []).lines[1]
    assert f"{NAMES[0]} and {NAMES[1]} drive each other, and nothing else moves them" in said


def test_weak_edges_are_a_reservation_and_many_a_refusal(found):
    lower = found.lower.copy()
    lower[0, 1, 1] = -0.1
    one = again(found, lower=lower)
    assert one.verdict == "with reservations" and reasons(one) == ["weak edges"]
    assert "a → b after 2 months" in one.verdict.reasons[0].text
    assert "inputs explains little more than an edge must" in one.verdict.reasons[0].text
    lower[1, 1, 0] = -0.1
    assert again(found, lower=lower).verdict == "not supported"


def test_a_weak_own_past_is_noted_where_links_are_clear(found, monkeypatch):
    """A source with a long memory barely needs its own past; its link is no weaker for that."""
    lower = found.lower.copy()
    lower[0, 0, 0] = -0.1
    one = again(found, lower=lower)
    assert one.verdict == "supported" and [n.name for n in one.verdict.notes] == ["weak edges"]
    assert "a → a after 0.5 months" in one.verdict.notes[0].text
    # An unobserved driver may be behind two variables that drive each other, and their pasts.
    graph = np.zeros_like(found.graph)
    graph[[0, 1, 0, 1], [1, 0, 0, 1], 0] = True
    both = again(found, graph=graph, lower=np.where(graph, 0.1, -1.0), scores=1.0 * graph)
    assert both.verdict == "supported"
    lower = both.lower.copy()
    lower[0, 0, 0] = -0.1
    assert again(both, lower=lower).verdict == "with reservations"


def test_most_links_in_doubt_for_two_reasons_are_a_refusal(found, monkeypatch):
    """Two of four links may come from something unseen, and the others are weak."""
    graph = np.zeros_like(found.graph)
    graph[[0, 0, 1, 2], [1, 2, 2, 0], 0] = True
    many = again(found, graph=graph, lower=np.where(graph, 0.1, -1.0), scores=1.0 * graph)
    untold = np.zeros((3, 3), bool)
    untold[0, 1] = untold[1, 2] = True
    told = with_pairs(many, monkeypatch, not_excluded=untold)
    assert told.verdict == "with reservations" and reasons(told) == ["hidden driver possible"]
    lower = told.lower.copy()
    lower[2, 0, 0] = -0.1
    one = with_pairs(again(many, lower=lower), monkeypatch, not_excluded=untold)
    assert one.verdict == "with reservations"  # one weak link alone refuses no graph
    lower[0, 2, 0] = -0.1
    both = with_pairs(again(many, lower=lower), monkeypatch, not_excluded=untold)
    assert both.verdict == "not supported"
    assert "Most links are doubtful, and for more than one reason." in both.verdict.text
    assert reasons(both) == ["weak edges", "hidden driver possible"]
    untold[:] = False
    untold[2, 0] = True  # two of four are not most
    half = with_pairs(again(many, lower=lower), monkeypatch, not_excluded=untold)
    assert half.verdict == "with reservations"


def test_six_reservations_are_a_problem_together(found):
    names = [*"abcdef", "short record", "hidden driver possible"]
    doubts = [Finding("measured", name, 1.0, "", ".", weight="reservation") for name in names]
    five, six = (verdict_from_findings(evidence_of(found), doubts[first:]) for first in (1, 0))
    # A mere failure to decide is no reason to refuse.
    assert five == "with reservations" and len(five.reasons) == 7 and "Too many" not in five.text
    assert six == "not supported" and six.lines[0].startswith("Verdict: not supported.")
    assert "Too many reservations to rely on the links. (a)" in six.text
    mixed = verdict_from_findings(
        evidence_of(found), [*doubts, dataclasses.replace(doubts[0], weight="problem")]
    )
    assert mixed == "not supported" and "Too many" not in mixed.text


def test_what_a_line_of_code_mends_is_told_first(found):
    """A total that is stamped too late may cause all graver findings."""
    known = dataclasses.replace(evidence_of(found), inputs=("a",))
    late = Finding("estimated", "links at once", 0.1, "", "", "x['a'] = x['a'].shift(-1)", "note")
    grave = [Finding("estimated", name, 1.0, "", "", name, "problem") for name in ("this", "that")]
    told = verdict_from_findings(known, [*grave, dataclasses.replace(late, weight="reservation")])
    assert told.lines[-1] == "Next: x['a'] = x['a'].shift(-1) this"
    # Logarithms are worth a try only if something speaks against a graph.
    logs = dataclasses.replace(late, remedy="Compare with transform={'a': 'log'}.")
    told = verdict_from_findings(known, [*grave, logs])
    assert told.lines[-1] == "Next: Compare with transform={'a': 'log'}. this"
    assert "transform" not in verdict_from_findings(known, [logs]).lines[-1]


def test_what_to_do_next_is_said_once(found):
    remedies = (
        "Sample more often, add lags or variables, or record for longer.",
        "Record for longer.",
        "Record for longer, or analyse the changes instead of the levels.",
    )
    known = dataclasses.replace(evidence_of(found), inputs=("a",))
    told = [Finding("measured", said, 1.0, "", "", said, "problem") for said in remedies]
    assert verdict_from_findings(known, told).lines[-1] == (
        f"Next: {remedies[0]} Analyse the changes instead of the levels."
    )


def test_what_nothing_drives_is_to_be_declared_where_a_graph_is_refused(found):
    """Doubt about rain's own past is no doubt about the effects of rain."""
    evidence = evidence_of(found)
    doubts = [Finding("measured", name, 1.0, "", "", name, "problem") for name in ("this", "that")]
    told = verdict_from_findings(evidence, doubts).lines[-1]
    assert told == (
        "Next: If a comes from outside, as weather or settings do, declare that: inputs=['a'] "
        '(--inputs "a"). this'
    )
    doubts = [dataclasses.replace(doubt, weight="reservation") for doubt in doubts]
    assert verdict_from_findings(evidence, doubts).lines[-1] == "Next: this that"


def test_a_delay_has_a_unit_also_where_none_is_known(found):
    edge = (0, 1, 1)
    plain = dataclasses.replace(evidence_of(found), time_unit="", flow=True)
    assert plain.after(edge).split(" (")[0].endswith("time units")
    assert dataclasses.replace(plain, flow=False).after(edge).split(" (")[0].endswith("samples")


def test_links_that_pass_on_nothing_new_are_weak(found, monkeypatch):
    """One of many links is a reservation; more than a fifth of them refute the promise that four of
    five are true.
    """
    graph = np.ones_like(found.graph)  # twelve links
    many = again(found, graph=graph, lower=np.where(graph, 0.1, -1.0), scores=1.0 * graph)
    stale = np.zeros_like(graph)
    stale[0, 1] = True
    one = with_pairs(many, monkeypatch, unconfirmed=stale)
    assert one.verdict == "with reservations" and "weak edges" in reasons(one)
    assert "pass on nothing new from their source" in " ".join(one.verdict.text.split())
    stale[1, 2, 0] = True
    assert with_pairs(many, monkeypatch, unconfirmed=stale).verdict == "not supported"


def test_a_link_that_nothing_tells_from_a_common_cause_is_a_reservation(found, monkeypatch):
    """More than a tenth of the links. A link that something unseen seems to cause is not reported
    twice.
    """
    graph = np.ones_like(found.graph)
    many = again(found, graph=graph, lower=np.where(graph, 0.1, -1.0), scores=1.0 * graph)
    pairs = np.zeros(graph.shape[:2], bool)
    pairs[0, 1] = True
    one = with_pairs(many, monkeypatch, not_excluded=pairs)
    assert one.verdict == "with reservations" and reasons(one) == ["hidden driver possible"]
    assert "the links of 1 of 6 pairs: a → b" in " ".join(one.verdict.reasons[0].text.split())
    hidden = with_pairs(many, monkeypatch, not_excluded=pairs, confounded=pairs | pairs.T)
    assert "hidden driver possible" not in reasons(hidden)


def test_an_edge_must_be_worth_twice_its_price(found):
    for threshold, expected in ((0.229, "supported"), (0.231, "with reservations")):
        strengths = dataclasses.replace(found.strengths, threshold=jnp.full(3, threshold))
        scores = np.where(np.eye(3, dtype=bool)[..., None] & found.graph, 0.9, found.scores)
        assert again(found, strengths=strengths, scores=scores).verdict == expected


def test_a_required_edge_is_not_doubted(found):
    prior = ndde.prior_knowledge(3, lags=(0, 3), required=[(0, 0, 0)])
    windows = dataclasses.replace(found.windows, prior=prior)
    lower = found.lower.copy()
    lower[0, 0, 0] = -0.1
    assert again(found, lower=lower, windows=windows).verdict == "supported"


def test_memory_of_the_residuals(found, monkeypatch):
    with_memory(monkeypatch, 0.0, 0.04, 0.0)
    quiet = again(found)
    assert quiet.verdict == "supported" and quiet.verdict.memory == (0.0, 0.04, 0.0)
    with_memory(monkeypatch, 0.0, 0.06, 0.0)
    reserved = again(found)
    assert reserved.verdict == "with reservations" and "rate of b" in reserved.verdict.text
    with_memory(monkeypatch, 0.0, 0.5, 0.0)
    assert again(found).verdict == "not supported"
    with_memory(monkeypatch, np.nan, 0.0, 0.0)
    assert reasons(again(found)) == ["drift not finite"]


def test_neighbouring_lags_are_a_reservation_but_for_maps():
    own = {(0, 0, 0): 0.3, (1, 1, 0): 0.3, (2, 2, 0): 0.3}
    for more in ({(0, 1, 0): 0.2, (0, 1, 1): 0.2}, {(0, 0, 1): 0.2, (0, 0, 2): 0.2}):
        found = found_on(oscillators(), edges=own | more, names=NAMES, lags=(0, 1, 2))
        flow = again(found, reading="flow")
        assert flow.verdict == "with reservations" and reasons(flow) == ["neighbouring lags"]
        # For a map no delay lies between two lags.
        assert found.verdict == "supported"
        assert [note.name for note in found.verdict.notes] == ["neighbouring lags"]
        assert again(found, reading="undecided").verdict == "with reservations"
    # Decay and a slightly later feedback are two effects, and so are lags that lie apart.
    for more in ({(0, 0, 1): 0.2}, {(0, 1, 0): 0.2, (0, 1, 2): 0.2}):
        found = found_on(oscillators(), edges=own | more, names=NAMES, lags=(0, 1, 2))
        assert found.verdict == "supported"


def test_three_neighbouring_lags_of_a_flow_stand_for_what_is_not_seen(monkeypatch):
    own = {(0, 0, 0): 0.3, (1, 1, 0): 0.3, (2, 2, 0): 0.3}
    more = {(0, 1, 0): 0.2, (0, 1, 1): 0.2, (0, 1, 2): 0.2}
    found = found_on(oscillators(), edges=own | more, names=NAMES, lags=(0, 1, 2))
    # Where the target follows all drivers of its source, a link may act over some time.
    assert again(found, reading="flow").verdict == "with reservations"
    partly = dataclasses.replace(Relations.none(found.graph), partly=~np.eye(3, dtype=bool))
    monkeypatch.setattr("ndde_jax._discovery.relations", lambda *_, **__: partly)
    flow = again(found, reading="flow")
    assert flow.verdict == "not supported" and reasons(flow) == ["neighbouring lags"]
    assert "more than two lags, but more are kept for a → b." in " ".join(flow.verdict.text.split())
    assert again(found).verdict == "supported"  # as a map
    # Nothing unseen drives a variable that was set.
    assert again(flow, inputs=("a",)).verdict == "with reservations"


def test_doubt_about_one_edge_in_twenty_is_noted_and_weighs_nothing():
    everywhere = {(i, j, a): 0.3 for i in range(3) for j in range(3) for a in (0, 2, 4, 6)}
    lags = tuple(range(8))
    one = found_on(oscillators(), edges=everywhere | {(0, 1, 7): 0.2}, names=NAMES, lags=lags)
    assert one.verdict == "supported" and reasons(one) == []
    assert [note.name for note in one.verdict.notes] == ["neighbouring lags"]
    assert "Noted: (neighbouring lags) a → b" in one.verdict.text
    # A weak link elsewhere makes two doubts among 25 links; the same one, weak too, still one.
    lower = one.lower.copy()
    lower[0, 1, 7] = -0.1
    assert again(one, lower=lower).verdict == "supported"
    lower[2, 1, 0] = -0.1
    assert again(one, lower=lower).verdict == "with reservations"


def test_no_edge_is_not_supported():
    found = found_on(oscillators(), edges={}, names=NAMES)
    assert found.verdict == "not supported" and reasons(found) == ["no edge"]


@pytest.mark.parametrize(
    "windows_per_input, expected",
    [(20, "supported"), (8, "with reservations"), (4, "not supported")],
)
def test_a_short_record(windows_per_input, expected):
    n = 6 * windows_per_input + 4
    found = found_on(oscillators(n=n), edges=EDGES, names=NAMES)
    assert found.verdict == expected


def test_what_opposes_its_link_does_not_act_within_the_interval(found, monkeypatch):
    """A total shifted back as the remedy says may leave some totals of the opposite sign."""
    driven = again(found, inputs=("a",))
    pair = np.zeros((3, 3), bool)
    pair[0, 1] = pair[1, 0] = True
    windows, late = found.windows, int(np.flatnonzero(found.graph[0, 1])[0])
    past, rate = np.asarray(windows.history)[:, late, 0], np.asarray(windows.increment)[:, 1]
    sign = np.sign(np.corrcoef(past, rate)[0, 1])
    named = {
        by: "links at once"
        in str(with_pairs(driven, monkeypatch, at_once=pair, correlation=by * pair).findings)
        for by in (0.5 * sign, -0.5 * sign)
    }
    assert list(named.values()) == [True, False]


def test_data_that_lie_are_reasons():
    x = np.hstack([oscillators()[:, :2], oscillators()[:, :1]])
    found = found_on(x, edges=EDGES, names=NAMES)
    assert found.verdict == "not supported" and reasons(found) == ["duplicate"]
    assert "Omit c" in found.verdict.lines[-1]


def test_it_is_kept_with_the_discovery(found, tmp_path):
    found.save(tmp_path)
    assert ndde.Discovery.load(tmp_path).verdict == found.verdict


def with_pairs(found, monkeypatch, **changed):
    other = again(found)
    pairs = Relations.none(found.graph)
    object.__setattr__(other, "_relations", dataclasses.replace(pairs, **changed))
    return other


def test_what_is_unseen_or_at_once_is_never_supported(found, monkeypatch):
    pair, apart = np.zeros((2, 3, 3), bool)
    pair[0, 1] = pair[1, 0] = apart[0, 2] = apart[2, 0] = True
    assert with_pairs(found, monkeypatch).verdict == "supported"
    hidden = with_pairs(found, monkeypatch, confounded=pair)
    # Its only link between variables: more than a fifth of them.
    assert hidden.verdict == "not supported" and reasons(hidden) == ["hidden driver"]
    assert "a <-> b" in hidden.verdict.text
    related = np.where(pair, 0.5, np.eye(3))
    at_once = with_pairs(found, monkeypatch, at_once=pair, correlation=related)
    assert at_once.verdict == "with reservations" and reasons(at_once) == ["links at once"]
    flow = with_pairs(again(found, reading="flow"), monkeypatch, at_once=pair, correlation=related)
    assert flow.verdict == "with reservations" and reasons(flow) == ["links at once"]
    beside = with_pairs(found, monkeypatch, at_once=apart, correlation=np.full((3, 3), 0.3))
    assert beside.verdict == "with reservations" and "a -- c" in beside.verdict.text
    drifts = np.zeros(found.graph.shape, bool)
    drifts[0, 2, 1] = True
    drifting = with_pairs(found, monkeypatch, drifting=drifts)
    # No link is kept from a to c: a link whose sign turns is missing.
    assert drifting.verdict == "not supported" and reasons(drifting) == ["drifting link"]
    kept = with_pairs(found, monkeypatch, drifting=found.graph)
    assert kept.verdict == "with reservations" and reasons(kept) == ["drifting link"]


def test_what_drives_one_of_two_related_at_once_is_found_to_drive_the_other(found, monkeypatch):
    """a → b and b -- c imply a → c. For a map it is omitted, unless the record is so long that it
    is read in chunks, where such links are not searched for.
    """
    pair = np.zeros((3, 3), bool)
    pair[1, 2] = pair[2, 1] = True
    related = {"at_once": pair, "correlation": np.where(pair, 0.5, np.eye(3))}
    alone = with_pairs(found, monkeypatch, **related)
    assert alone.verdict == "with reservations" and reasons(alone) == ["links at once"]
    graph = found.graph.copy()
    graph[0, 2, 1] = True
    both = again(found, graph=graph, lower=np.where(graph, 0.1, -1.0), scores=1.0 * graph)
    assert both.verdict == "supported"
    of_map = with_pairs(both, monkeypatch, **related)
    assert of_map.verdict == "with reservations" and reasons(of_map) == ["links at once"]
    in_chunks = with_pairs(again(both, length=10**6), monkeypatch, **related)
    assert in_chunks.verdict == "not supported" and reasons(in_chunks) == ["links at once"]
