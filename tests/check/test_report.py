"""The text of the report of a discovery, and its warnings."""

import dataclasses
import html

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.signal import lfilter

import ndde_jax as ndde
from ndde_jax._axes import from_graph_axes
from ndde_jax.assess import Relations
from ndde_jax.check._finding import Finding
from ndde_jax.check._graph_rules import evidence_of
from ndde_jax.check._line_rules import COLLINEAR
from ndde_jax.check._verdict import Verdict, verdict_from_findings
from tests.helpers import networks

NAMES = ("wind", "sea level")
LAGS = (0, 3)


def noise(n=300, dim=2, seed=0):
    return np.random.default_rng(seed).normal(size=(n, dim))


def found_on(x, *, edges, names=NAMES, lags=LAGS, coefficient=None, time_unit="month"):
    """A discovery whose strengths are set by hand: `edges` maps (source, target, lag index)."""
    windows = ndde.lagged_windows(x, dt=0.5, lags=lags, scheme="euler")
    dim, n_lags = windows.dim, windows.n_lags
    value = np.full((dim, dim, n_lags), -1e-5)
    for edge, strength in edges.items():
        value[edge] = strength
    value = jnp.asarray(value)
    graph = value > 0
    strengths = ndde.measure.SignalStrengths(
        value=value,
        held_out=0.9 * value,
        lower=0.8 * value,
        source_value=value.max(axis=2),
        source_held_out=value.max(axis=2),
        graph=graph,
        risk=jnp.linspace(0.25, 0.125, dim),
        risk_in_sample=jnp.linspace(0.2, 0.1, dim),
        threshold=jnp.full(dim, 0.004),
        prior=windows.prior,
    )
    drift = networks(dim, n_lags, width=2, depth=1, key=jax.random.key(0))
    mask = from_graph_axes(graph)
    model = ndde.models.NeuralDDE(drift, mask, windows.scaling, windows.dt, windows.lags)
    kept = np.asarray(strengths.kept(coefficient))
    delays = np.where(kept, 0.5 * np.asarray(lags, float), np.nan)
    return ndde.Discovery(
        samples=ndde.read_samples(x, dt=0.5, names=names[:dim], time_unit=time_unit),
        lags=windows.lags,
        coefficient=coefficient,
        recipe=ndde.Recipe(),
        windows=windows,
        strengths=strengths,
        model=model,
        graph=kept,
        reads=kept,
        scores=np.asarray(strengths.value),
        lower=np.asarray(strengths.lower),
        ranking=np.asarray(strengths.source_value),
        delays=delays,
        delay_intervals=np.repeat(delays[..., None], 2, axis=-1),
        networks=np.zeros(dim, bool),
        held_out=np.linspace(0.25, 0.125, dim),
        reading="map",
        evidence=-9.0,
    )


EDGES = {(0, 0, 0): 0.11, (0, 1, 1): 0.46, (1, 1, 0): 0.33}


@pytest.fixture(scope="module")
def found():
    return found_on(noise(), edges=EDGES)


def section(report, title):
    """One section as a single line."""
    _, _, rest = report.partition(f"{title}\n{'-' * len(title)}\n")
    assert rest, title
    return " ".join(rest.split("\n\n")[0].split())


def lines(found):
    return section(found.report(full=True), "Identifiability")


def line(found, name):
    """The lines on identifiability with one name."""
    return [one.text for one in found.report_data().lines if one.name == name]


def with_strengths(found, **changes):
    return dataclasses.replace(found, strengths=dataclasses.replace(found.strengths, **changes))


# ---- content ----


def test_data_are_described(found):
    assert section(found.report(full=True), "Data") == (
        "2 variables (wind, sea level), 300 samples, one every 0.5 months. 296 windows. Candidate "
        "lags: 0, 3 samples. States and rates of change are standardised per variable."
    )


def test_links_between_variables_come_first_and_the_own_past_is_folded():
    edges = {(0, 0, 0): 0.5, (0, 0, 1): 0.2, (0, 1, 1): 0.46, (1, 1, 0): 0.33, (1, 0, 0): 0.1}
    report = found_on(noise(), edges=edges).report_data()
    assert [(row.link, row.after, row.strength) for row in report.edges] == [
        ("wind → sea level", "2 months", pytest.approx(0.46)),
        ("sea level → wind", "0.5 months", pytest.approx(0.1)),
        ("wind → itself", "lags 1, 4", pytest.approx(0.5)),
        ("sea level → itself", "lag 1", pytest.approx(0.33)),
    ]
    table = report.text().partition("Edges kept")[2].splitlines()[2:7]
    assert len({len(line) for line in table}) == 1  # columns line up with their titles
    assert report.more == 0


def test_a_table_stops_at_thirty_rows_and_names_are_few(monkeypatch):
    nothing = lambda _, graph, *__, **___: Relations.none(graph)  # noqa: E731
    monkeypatch.setattr("ndde_jax._discovery.relations", nothing)
    names = tuple(f"station {k}" for k in range(12))
    edges = {(i, j, 0): 0.1 + 0.001 * i for i in range(12) for j in range(4)}
    report = found_on(noise(dim=12), edges=edges, names=names).report_data()
    assert len(report.edges) == 30 and report.more == len(edges) - 30
    text = report.text(full=True)
    assert f"and {report.more} more: see found.to_frame()" in text
    assert report.title == f"{', '.join(names[:8])} and 4 more"


def test_text_and_page_say_the_same(found):
    report = found.report_data()
    page = html.unescape(report.html(pictures={}).decode())
    assert report.text(full=True) == found.report(full=True)
    for part in (*report.verdict.lines, *(row.words for row in report.targets)):
        assert part in page
    for row in report.edges:
        assert row.link in page and f"{row.strength:.3f}" in page
    assert found.report(full=True) in page


def test_findings_of_one_name_have_headings_of_their_own(found):
    report = found.report_data()
    one = Finding("measured", "missing values", 3.0, "", "3 are missing.", "Nothing.", "note")
    two = dataclasses.replace(one, text="9 were filled.", remedy="")
    verdict = Verdict(notes=[one, two])
    page = dataclasses.replace(report, verdict=verdict).html(pictures={}).decode()
    assert "<dt>Missing values, 1 of 2 <span>(note)</span></dt>" in page
    assert "<dd>3 are missing. To do: Nothing.</dd>" in page
    assert "<dt>Missing values, 2 of 2 <span>(note)</span></dt>\n<dd>9 were filled.</dd>" in page


def test_names_are_escaped_and_printable():
    names = ("<b>wind</b>", "sea\x1b[31m")
    found = found_on(noise(), edges=EDGES, names=names)
    page = found.report_data().html(pictures={}).decode()
    assert "<b>wind" not in page and "&lt;b&gt;wind" in page
    assert "\x1b" not in page + found.report(full=True)


def test_an_undecided_record_says_as_what_it_was_read(found):
    said = "Map or flow is undecided (1 nats between them); the graph is that of a map."
    decided = found.report_data()
    report = dataclasses.replace(decided, method=(*decided.method, said))
    assert said in " ".join(report.text().split()) and "undecided" not in decided.text()
    assert " ".join(report.text(full=True).split()).count(said) == 1


def test_a_delay_that_may_be_of_a_map_or_a_flow_is_said_with_both():
    """y[t] follows x[t - 4] if the record is a map, and x of 3 to 4 samples before if it is a
    flow.
    """
    found = found_on(noise(), edges={(0, 1, 1): 0.4})
    delays = found.delays[..., None] + np.array([0.0, 0.5])
    either = dataclasses.replace(found, reading="undecided", delay_intervals=delays)
    (link,) = evidence_of(either).links()
    assert evidence_of(either).after(link) == "2 months (1.5 to 2)"
    certain = dataclasses.replace(
        found, reading="map", delay_intervals=found.delays[..., None] + [0, 0]
    )
    assert evidence_of(certain).after(link) == "2 months"


def test_no_edge_is_said_in_words():
    found = found_on(noise(), edges={})
    assert section(found.report(), "Edges kept").startswith("none:")


def test_targets_give_risk_and_price(found):
    targets = section(found.report(full=True), "Targets")
    assert "wind: 1 input explains 75.0% of the variance of its rate; 75.0% on held-out" in targets
    assert "sea level: 2 inputs explain 87.5%" in targets
    assert targets.count("An edge must explain more than 0.004.") == 2


def test_rule_follows_the_coefficient(found):
    assert "Bayesian information criterion" in section(found.report(full=True), "Method")
    chosen = found_on(noise(), edges=EDGES, coefficient=0.6)
    method = section(chosen.report(full=True), "Method")
    assert "λ/F = 0.6/4 = 0.15 of the variance" in method
    assert "Bayesian" not in method
    targets = section(chosen.report(full=True), "Targets")
    assert targets.count("An edge must explain more than 0.15.") == 2
    # 0.11 does not pay 0.15: the edge goes.
    assert not chosen.graph[0, 0, 0] and "wind: 0 inputs" in targets


def test_choices_are_explained(found):
    method = section(found.report(full=True), "Method")
    assert "scheme 'euler': (X[k+1] - X[k]) / Δ" in method
    assert "networks explained no more" in method


def test_lines_fit_a_page(found):
    assert max(map(len, found.report(full=True).splitlines())) <= 88


# ---- lines on identifiability ----


def test_missing_values():
    x = noise()
    x[50, 0] = np.nan
    found = found_on(x, edges=EDGES)
    # Sample 50 is missing as present state, as next state, and as lagged state.
    assert "293 windows; 3 more contain a missing value" in section(found.report(full=True), "Data")


def test_hardly_explained(found):
    (text,) = line(with_strengths(found, risk=jnp.array([0.5, 0.95])), "largest unexplained share")
    assert "of sea level;" in text and "Almost nothing is explained for 1 of 2." in text
    (text,) = line(found, "largest unexplained share")
    assert "of wind;" in text and "Almost" not in text


def test_collinear_inputs():
    x = noise()
    x[:, 1] = x[:, 0] + 1e-3 * x[:, 1]
    assert "read a lag as an interval" not in lines(found_on(x, edges=EDGES))
    x[:, 1] = x[:, 0] + 0.1 / COLLINEAR * noise(seed=1)[:, 1]
    assert "read a lag as an interval" in lines(found_on(x, edges=EDGES))


def test_edges_dropped_together(found):
    measured = found.strengths.graph
    one = with_strengths(found, graph=measured.at[1, 0, 0].set(True))
    assert line(one, "dropped together") == []
    two = with_strengths(found, graph=measured.at[1, 0].set(True))
    (text,) = line(two, "dropped together")
    assert "Inputs of wind were dropped together" in text


def test_present_state_left_out():
    found = found_on(noise(), edges={(0, 1, 0): 0.4}, lags=(1, 3))
    assert "lag 0: no candidate. Drivers without a delay" in lines(found)


def test_the_prior_is_tested(found):
    prior = ndde.prior_knowledge(
        2, lags=LAGS, forbidden=[(0, 1, 3), (1, 0)], required=[(0, 0, 3), (0, 0, 0)]
    )
    windows = eqx.tree_at(lambda w: w.prior, found.windows, prior)
    name = "prior against data"
    forbidden, required = line(dataclasses.replace(found, windows=windows), name)
    assert forbidden == (
        "wind@3 → sea level is forbidden, but would explain 0.46 of the rate's variance."
    )
    assert required.startswith("wind@3 → wind is required, but the data do not need it")
    # At a price set by the user, four candidates each: 0.46 is not worth 0.5, 0.11 is worth 0.1.
    priced = line(dataclasses.replace(found, windows=windows, coefficient=4 * 0.5), name)
    assert sum("forbidden" in text for text in priced) == 0
    assert any(text.startswith("wind@0 → wind is required") for text in priced)
    priced = line(dataclasses.replace(found, windows=windows, coefficient=4 * 0.1), name)
    assert not any(text.startswith("wind@0 → wind is required") for text in priced)


# ---- identifiability ----


def test_identifiability_without_refits(found):
    text = lines_of(found)
    assert "smallest signal strength: 0.11" in text
    assert "found.identifiability(key=...)" in text


def lines_of(found):
    return " ".join(found.report(full=True).partition("Identifiability\n")[2].split())


def test_quick_full_page_and_refits_have_one_verdict():
    """On the record of a map, found once; refits may only add findings."""
    rng, x = np.random.default_rng(0), np.zeros((400, 2))
    for k in range(2, 399):
        x[k + 1, 0] = 0.5 * x[k, 0] + 0.5 * rng.normal()
        x[k + 1, 1] = 0.3 * x[k, 1] + np.tanh(x[k - 2, 0]) + 0.3 * rng.normal()
    options = dict(dt=1.0, lags=(0, 2), scheme="euler", recipe=ndde.Recipe.fast())
    found = ndde.discover(x, **options, key=jax.random.key(0))
    first = f"Verdict: {found.verdict}"
    assert found.report().startswith(first + ". ") and found.report(full=True).startswith(first)
    page = found.report_data().html(pictures={}).decode()
    assert f'">{found.verdict}</span></h1>' in page and f"<p>{first}. " in page
    checked = found.identifiability(key=jax.random.key(1), seeds=1)
    assert found.verdict == checked.verdict == "supported" and checked.supported
    assert {f.name for f in found.verdict.reasons} <= {f.name for f in checked.verdict.reasons}
    assert found.report(checked).startswith(first + ", refits on parts of the data included.")
    # Findings of refits change the verdict wherever it is shown.
    unstable = dataclasses.replace(checked.stability, selected=0 * checked.stability.selected)
    worse = dataclasses.replace(checked.refits, stability=unstable)
    told = ndde.check.RULES["stable edges"].findings(worse)
    graver = dataclasses.replace(checked, verdict=verdict_from_findings(checked.evidence, told))
    assert found.report(graver).startswith("Verdict: not supported")
    page = found.report_data(graver).html(pictures={}).decode()
    assert '<span class="verdict not-supported">not supported</span>' in page


# ---- tables and pictures ----


def test_frame_holds_every_candidate_edge(found):
    pytest.importorskip("pandas")
    frame = found.to_frame()
    assert list(frame.columns) == [
        *("source", "target", "lag", "level_lag", "delay", "kept", "score", "lower"),
        *("delay_estimate", "delay_low", "delay_high", "p", "q", "reason"),
    ]
    assert len(frame) == found.graph.size
    assert list(frame.index) == list(range(8))
    assert len(frame[["source", "target", "lag"]].drop_duplicates()) == 8
    for row in frame.itertuples():
        at = NAMES.index(row.source), NAMES.index(row.target), LAGS.index(row.lag)
        assert (row.kept, row.score, row.lower) == (
            found.graph[at],
            found.scores[at],
            found.lower[at],
        )
        assert row.delay == 0.5 * row.lag
        np.testing.assert_equal(row.delay_estimate, found.delays[at])
        np.testing.assert_equal((row.delay_low, row.delay_high), tuple(found.delay_intervals[at]))
        assert row.level_lag == row.lag + 1
        np.testing.assert_equal((row.p, row.q), (found.p_values[at], found.q_values[at]))
        assert row.reason == found.reasons[at]


def test_frame_is_sorted_kept_first_then_strongest():
    pytest.importorskip("pandas")
    found = found_on(noise(), edges={(0, 0, 0): 0.11, (0, 1, 1): 0.46, (1, 0, 1): 0.002})
    weak = dataclasses.replace(found, graph=found.graph & (found.scores < 0.3))
    frame = weak.to_frame()
    # The strongest edge is not among the kept ones here, so the two orders differ.
    assert frame["kept"].tolist() == [True] + [False] * 7
    assert frame["score"].tolist()[:3] == [0.11, 0.46, 0.002]
    assert frame["score"][1:].is_monotonic_decreasing


def test_plot_is_a_figure_of_both_views(found):
    figures = pytest.importorskip("matplotlib.figure")
    figure = found.plot()
    assert isinstance(figure, figures.Figure)
    texts = {
        " ".join(text.get_text().split())
        for text in figure.findobj(lambda a: hasattr(a, "get_text"))
    }
    assert {"→ wind", "→ sea level"} <= texts
    # As the report counts, to the level that moves; the drift of a flow is at the source's lag.
    assert found.report_data().edges[0].after == "2 months" and "4 (2 month)" in texts
    flow = dataclasses.replace(found, reading="flow")
    assert flow.report_data().edges[0].after == "1.5 months" and "3 (1.5 month)" in {
        " ".join(text.get_text().split())
        for text in flow.plot().findobj(lambda a: hasattr(a, "get_text"))
    }


def test_without_refits_everything_is_said_that_needs_none(found):
    text = lines_of(found)
    for name in ("windows per input", "penalty window", "largest residual memory",
                 "noise condition number", "radial drift", "no hidden driver"):  # fmt: skip
        assert f"{name}:" in text, name


@pytest.mark.parametrize("kept", [0.0, 0.5])
def test_of_independent_values_nothing_is_foretold(kept):
    """Half of the rate of white noise follows from its value; for an autoregression the squared
    coefficient is the share of the next value.
    """
    noise = np.random.default_rng(0).normal(size=(3000, 2))
    x = lfilter([1.0], [1.0, -kept], noise, axis=0)
    found = ndde.discover(x, dt=1.0, lags=(0, 1), scheme="euler", key=jax.random.key(0))
    np.testing.assert_allclose(found.strengths.risk, (1 + kept) / 2, atol=0.03)
    said = [f for f in found.findings if f.name == "no foresight"]
    assert [f.weight for f in said] == ([] if kept else ["note"])
    assert all(f.value == pytest.approx(1, abs=0.01) and "x0, x1" in f.text for f in said)
