"""What the report of a discovery says, and when it warns."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax._axes import from_graph_axes
from ndde_jax.check._checks import COLLINEAR, WINDOWS_PER_INPUT

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
    drift = ndde.models.MaskedDrift.create(dim, n_lags, width=2, depth=1, key=jax.random.key(0))
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
        source_scores=np.asarray(strengths.source_value),
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


def warnings(found):
    return section(found.report(full=True), "Warnings")


def with_strengths(found, **changes):
    return dataclasses.replace(found, strengths=dataclasses.replace(found.strengths, **changes))


# ---- content ----


def test_data_are_described(found):
    assert section(found.report(full=True), "Data") == (
        "2 variables (wind, sea level), sampling interval 0.5 month. 296 windows. Candidate lags: "
        "0, 3 samples. States and rates of change are standardised per variable."
    )


def test_every_kept_edge_is_listed_by_name_strongest_first(found):
    lines = found.report().partition("Edges kept")[2].splitlines()[2:6]
    assert "delay [month]" in lines[0]
    numbers = [
        [part.strip() for part in line.replace("->", "  ").split("  ") if part] for line in lines
    ]
    assert numbers[1:] == [
        ["wind", "sea level", "3", "4", "1.5", "0.4600", "0.4140", "0.3680"],
        ["sea level", "sea level", "0", "1", "0", "0.3300", "0.2970", "0.2640"],
        ["wind", "wind", "0", "1", "0", "0.1100", "0.0990", "0.0880"],
    ]
    ends = {len(line) for line in lines}
    assert len(ends) == 1  # columns line up with their titles


def test_no_edge_is_said_in_words():
    found = found_on(noise(), edges={})
    assert section(found.report(), "Edges kept").startswith("none:")


def test_targets_give_risk_and_price(found):
    targets = section(found.report(full=True), "Targets")
    assert "wind: 1 of 4 inputs; unexplained share of the rate's variance 0.2 in-sample, 0.25" in (
        targets
    )
    assert "sea level: 2 of 4 inputs" in targets and "0.1 in-sample, 0.125 on blocks" in targets
    assert targets.count("edges must be worth 0.004.") == 2


def test_rule_follows_the_coefficient(found):
    assert "Bayesian information criterion" in section(found.report(full=True), "Method")
    chosen = found_on(noise(), edges=EDGES, coefficient=0.6)
    method = section(chosen.report(full=True), "Method")
    assert "λ/F = 0.6/4 = 0.15 of the variance" in method
    assert "Bayesian" not in method
    targets = section(chosen.report(full=True), "Targets")
    assert targets.count("edges must be worth 0.15.") == 2
    # 0.11 does not pay 0.15: the edge goes, and the risk is no longer that of the graph kept.
    assert not chosen.graph[0, 0, 0]
    assert "wind: 0 of 4 inputs" in targets and "(of the graph measured, with 1)" in targets


def test_choices_are_explained(found):
    method = section(found.report(full=True), "Method")
    assert " ".join(found.windows.explain().split()) in method
    assert "networks judged it for no variable" in method


def test_lines_fit_a_page(found):
    assert max(map(len, found.report(full=True).splitlines())) <= 88


# ---- warnings ----


def test_nothing_to_warn_of(found):
    assert warnings(found) == "none."


def test_short_data():
    needed = WINDOWS_PER_INPUT * 4
    enough = found_on(noise(needed + 4), edges=EDGES)
    assert int(enough.windows.n_valid) == needed
    assert warnings(enough) == "none."
    short = found_on(noise(needed + 3), edges=EDGES)
    assert f"Short for this many inputs: {needed - 1} windows for 4 candidate" in warnings(short)


def test_missing_values():
    x = noise()
    x[50, 0] = np.nan
    found = found_on(x, edges=EDGES)
    # Sample 50 is missing as present state, as next state, and as lagged state.
    assert "293 windows; 3 more touch a missing value" in section(found.report(full=True), "Data")
    assert warnings(found) == "none."
    x[::4] = np.nan
    x[100:200] = np.nan
    found = found_on(x, edges=EDGES)
    used, dropped = int(found.windows.n_valid), int(found.windows.dropped)
    assert f"lost to missing values ({dropped}) than are left ({used})" in warnings(found)


def test_hardly_explained(found):
    text = warnings(dataclasses.replace(found, held_out=np.array([0.5, 0.95])))
    assert "The rate of sea level is hardly explained (95% of its variance is left on" in text
    assert "wind" not in text
    unknown = dataclasses.replace(found, held_out=np.array([0.5, np.nan]))
    assert "hardly explained" in warnings(unknown)


def test_collinear_inputs():
    x = noise()
    x[:, 1] = x[:, 0] + 1e-3 * x[:, 1]
    assert warnings(found_on(x, edges=EDGES)) == "none."
    x[:, 1] = x[:, 0] + 0.1 / COLLINEAR * noise(seed=1)[:, 1]
    assert "nearly collinear" in warnings(found_on(x, edges=EDGES))
    x[:, 1] = x[:, 0]
    assert "nearly collinear" in warnings(found_on(x, edges=EDGES))


def test_doubtful_edges(found):
    lower = found.lower.copy()
    lower[0, 0, 0] = -0.1
    doubtful = dataclasses.replace(found, lower=lower)
    assert "1 of 3 kept edges have a lower bound at or below zero" in warnings(doubtful)
    # Dropped edges have lower bounds below zero all the time.
    assert (found.lower[~found.graph] < 0).all()


def test_edges_dropped_together(found):
    measured = found.strengths.graph
    one = with_strengths(found, graph=measured.at[1, 0, 0].set(True))
    assert warnings(one) == "none."
    two = with_strengths(found, graph=measured.at[1, 0].set(True))
    assert "2 inputs of wind were dropped together" in warnings(two)


def test_present_state_left_out():
    found = found_on(noise(), edges={(0, 1, 0): 0.4}, lags=(1, 3))
    assert "Lag 0 is not a candidate" in warnings(found)


def test_the_prior_is_tested(found):
    prior = ndde.prior_knowledge(
        2, lags=LAGS, forbidden=[(0, 1, 3), (1, 0)], required=[(0, 0, 3), (0, 0, 0)]
    )
    windows = eqx.tree_at(lambda w: w.prior, found.windows, prior)
    text = warnings(dataclasses.replace(found, windows=windows))
    assert "wind -> sea level at lag 3 is forbidden, but would lower the risk by 0.46" in text
    assert "wind -> wind at lag 3 is required, but the data would do without it" in text
    assert text.count("forbidden") == 1 and text.count("required") == 1
    # At a price of the user's, four candidates each: 0.46 is worth no 0.5, 0.11 worth 0.1.
    priced = dataclasses.replace(found, windows=windows, coefficient=4 * 0.5)
    assert "forbidden" not in warnings(priced)
    assert "wind -> wind at lag 0 is required, but the data" in warnings(priced)
    priced = dataclasses.replace(found, windows=windows, coefficient=4 * 0.1)
    assert "wind -> wind at lag 0 is required" not in warnings(priced)


# ---- identifiability ----


def test_identifiability_without_refits(found):
    _, _, text = found.report(full=True).partition("Identifiability\n")
    assert "no refits on parts of the data yet" in text
    assert "smallest signal strength: 0.11" in found.report(full=True).replace("\n  ", " ")
    assert "found.identifiability(key=...)" in found.report(full=True)


def test_a_full_report_takes_its_place(found):
    full = dataclasses.replace(
        ndde.identifiability_report(
            found.windows, strengths=found.strengths, model=found.model, names=found.names
        ),
        problems=("The record is a copy of itself.",),
    )
    text = section(found.report(full), "Identifiability")
    assert text.startswith("These data do not support the graph. - The record is a copy")


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
    # The strongest edge is not among those kept here, so the two orders differ.
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


def test_without_refits_everything_is_said_that_needs_none(found):
    _, _, text = found.report(full=True).partition("Identifiability\n")
    for name in ("windows per input", "penalty window", "residual memory", "noise condition number",
                 "radial drift", "no hidden driver"):  # fmt: skip
        assert f"{name}:" in text, name
