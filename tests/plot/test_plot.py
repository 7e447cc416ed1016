"""Pictures: orientation, content, and legibility measured on the drawn objects."""

import io
import itertools
import sys
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("matplotlib")
from matplotlib.collections import PatchCollection, QuadMesh
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch

from ndde_jax import _output, plot


def _found(dim, lags=(0, 1, 2, 3, 4), names=None, seed=0, dt=0.5, time_unit="h"):
    rng = np.random.default_rng(seed)
    graph = rng.random((dim, dim, len(lags))) < 0.8 / (dim * len(lags))
    graph[np.arange(dim), np.arange(dim), 0] = True
    scores = rng.gamma(0.3, 0.02, graph.shape) + graph * rng.gamma(2, 0.2, graph.shape)
    names = names or tuple(f"x{i}" for i in range(dim))
    return SimpleNamespace(
        graph=graph, scores=scores, lags=lags, names=names, dt=dt, time_unit=time_unit
    )


def _settings(found):
    names = ("lags", "names", "dt", "time_unit")
    return {name: getattr(found, name) for name in names}


def _render(figure):
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=50)
    return buffer.getvalue()


def _patches(ax, kind):
    return [patch for patch in ax.patches if isinstance(patch, kind)]


def _ends(arrow):
    vertices = arrow._path_original.vertices
    return vertices[0], vertices[-1]


def test_lag_matrix_puts_sources_in_rows_and_lags_in_columns():
    scores = np.zeros((2, 2, 3))
    scores[0, 1, 2] = 1.0
    figure = plot.plot_lag_matrix(scores, graph=scores > 0, lags=(0, 2, 5), names=("a", "b"))
    to_a, to_b = (ax for ax in figure.axes if ax.get_title())
    assert (to_a.get_title(), to_b.get_title()) == ("→ a", "→ b")
    (mesh,) = (item for item in to_b.collections if isinstance(item, QuadMesh))
    np.testing.assert_array_equal(mesh.get_array(), [[0, 0, 1], [0, 0, 0]])
    assert to_b.yaxis_inverted()  # row 0 is on top, beside the label "a"
    assert [tick.get_text() for tick in to_a.get_yticklabels()] == ["a", "b"]
    assert [tick.get_text() for tick in to_b.get_xticklabels()] == ["0", "2", "5"]
    (frames,) = (item for item in to_b.collections if isinstance(item, PatchCollection))
    (frame,) = frames.get_paths()
    assert np.all((frame.vertices.mean(axis=0) // 1) == (2, 0))
    assert not any(isinstance(item, PatchCollection) for item in to_a.collections)


def test_many_targets_share_one_matrix_with_a_block_for_each_source():
    found = _found(9, lags=(0, 3))
    figure = plot.plot_lag_matrix(found.scores, **_settings(found))
    (mesh,) = (
        item for ax in figure.axes for item in ax.collections
        if isinstance(item, QuadMesh) and item.get_array().shape == (9, 18)
    )  # fmt: skip
    expected = np.concatenate([found.scores[source] for source in range(9)], axis=1)
    np.testing.assert_array_equal(mesh.get_array(), expected)


@pytest.mark.parametrize(
    ("dim", "lags"), [(1, range(13)), (2, (0,)), (3, range(40)), (8, (0, 5)), (20, range(7))]
)
def test_every_size_renders(dim, lags):
    found = _found(dim, lags=tuple(lags))
    figure = plot.plot_lag_matrix(found.scores, graph=found.graph, **_settings(found))
    assert isinstance(figure, Figure)
    assert max(figure.get_size_inches()) <= 20
    assert _render(figure).startswith(b"\x89PNG")


def test_scores_may_be_nan_negative_zero_or_jax():
    scores = np.zeros((2, 2, 2))
    assert _render(plot.plot_lag_matrix(scores, lags=(0, 1), names=("a", "b")))
    scores[0] = np.nan
    scores[1] = -1
    assert _render(plot.plot_lag_matrix(jnp.asarray(scores), lags=(0, 1), names=("a", "b")))
    ax = plot.plot_process_graph(
        jnp.ones((2, 2, 2), bool), scores=scores, lags=(0, 1), names=("a", "b")
    )
    assert _render(ax.get_figure())


def test_arrows_lead_from_source_to_target():
    graph = np.zeros((3, 3, 2), bool)
    graph[0, 2, 1] = graph[0, 2, 0] = graph[1, 1, 0] = True
    ax = plot.plot_process_graph(graph, lags=(0, 4), names=("a", "b", "c"))
    centres = {text.get_text(): text.get_position() for text in ax.texts}
    arrows = [tuple(map(np.asarray, _ends(arrow))) for arrow in _patches(ax, FancyArrowPatch)]
    radius = _patches(ax, Circle)[0].get_radius()
    assert len(arrows) == 2  # both lags of a pair share an arrow
    loop = min(arrows, key=lambda ends: np.hypot(*(ends[1] - ends[0])))
    (edge,) = (ends for ends in arrows if ends is not loop)
    for end, name in [(edge[0], "a"), (edge[1], "c"), (loop[0], "b"), (loop[1], "b")]:
        assert np.hypot(*(end - centres[name])) == pytest.approx(radius, rel=0.15)
    assert {"0, 4", "0"} <= set(centres)


def test_labels_merge_lags_and_translate_them():
    graph = np.zeros((2, 2, 7), bool)
    graph[0, 1, [1, 2, 3, 6]] = True
    arguments = {"lags": tuple(range(7)), "names": ("a", "b")}

    def words(**options):
        ax = plot.plot_process_graph(graph, **arguments, **options)
        return {text.get_text() for text in ax.texts}, ax.get_xlabel()

    assert "1–3, 6" in words()[0]
    texts, caption = words(dt=9.0, time_unit="s")
    assert "1–3, 6\n(9–27, 54 s)" in texts
    assert "delay in s" in caption
    texts, caption = words(dt=1.0, time_unit="month")
    assert "1–3, 6" in texts
    assert "delay (month)" in caption
    # Estimated delays replace those of the lags.
    delays = np.where(graph, np.arange(7) * 9.0, np.nan)
    delays[0, 1, 6] = 51.7
    texts, _ = words(dt=9.0, time_unit="s", delays=delays)
    assert "1–3, 6\n(9–27, 51.7 s)" in texts
    texts, caption = words(dt=1.0, time_unit="month", delays=delays / 9)
    assert "1–3, 6\n(1–3, 5.74 month)" in texts and "delay in month" in caption


def test_stronger_edges_are_wider():
    graph = np.zeros((3, 3, 1), bool)
    graph[0, 1, 0] = graph[1, 2, 0] = True
    scores = graph * np.array([1.0, 0.04, 1.0])[:, None, None]
    ax = plot.plot_process_graph(graph, scores=scores, lags=(0,), names=("a", "b", "c"))
    thick, thin = sorted(
        (arrow.get_linewidth() for arrow in _patches(ax, FancyArrowPatch)), reverse=True
    )
    assert thick > 2 * thin
    assert len(ax.texts) == 3  # lag 0 only: nothing is delayed, so nothing is labelled


@pytest.mark.parametrize("dim", [1, 2, 3, 5, 8, 13, 20])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_no_text_overlaps_another_text_or_a_node(dim, seed):
    found = _found(dim, seed=seed)
    ax = plot.plot_process_graph(found.graph, scores=found.scores, **_settings(found))
    figure = ax.get_figure()
    figure.draw_without_rendering()
    boxes = {text: text.get_window_extent() for text in ax.texts}
    for (one, a), (other, b) in itertools.combinations(boxes.items(), 2):
        assert not a.overlaps(b), (one.get_text(), other.get_text())
    for text, box in boxes.items():
        assert figure.bbox.padded(1).contains(*box.min), text.get_text()
        assert figure.bbox.padded(1).contains(*box.max), text.get_text()
        if text.get_text() not in found.names:
            for node in _patches(ax, Circle):
                at = ax.transData.transform(node.center)
                reach = ax.transData.transform(np.add(node.center, (node.get_radius(), 0)))
                nearest = np.clip(at, box.min, box.max)
                assert np.hypot(*(nearest - at)) > 0.85 * (reach[0] - at[0])
    labelled = len(boxes) - dim
    pairs = found.graph.any(axis=2).sum()
    assert labelled + ax.get_xlabel().count("left out") >= pairs - 2


def test_long_names_are_written_in_full():
    names = tuple(f"station_{i}_sea_level_pressure_anomaly" for i in range(6))
    found = _found(6, names=names)
    ax = plot.plot_process_graph(found.graph, **_settings(found))
    text = "|".join(item.get_text().replace("\n", "") for item in ax.texts)
    assert all(name in text for name in names)


VERY_LONG = [
    f"a very long name of variable {i}, measured at the upper station, in m/s" for i in "abcde"
]


def test_very_long_names_are_shortened_and_stay_apart():
    for names in (VERY_LONG, [i + "x" * 60 for i in "abc"], ["x" * 60 + i for i in "abc"]):
        short = plot._graphs.short_names(names)
        assert len(set(short)) == len(names) and max(map(len, short)) <= 40
    middle = ["x" * 60 + i + "y" * 60 for i in ("a", "a" * 50 + "b", "a" * 50 + "c")]
    assert len(set(plot._graphs.short_names([*middle, "b"]))) == 4
    assert plot._graphs.short_names(["plain", "x" * 40]) == ["plain", "x" * 40]


def test_very_long_names_leave_room_for_pictures():
    found = _found(5, names=VERY_LONG)
    _render(plot.plot_discovery(found))  # warns where axes have no room
    forecast = SimpleNamespace(
        quantile=lambda q: np.zeros((len(q), 4, 5)), history=np.zeros((9, 5)), ts=np.arange(4.0),
        names=VERY_LONG, start="", time_unit="",
    )  # fmt: skip
    figure = plot.plot_forecast(forecast)
    figure.draw_without_rendering()
    boxes = [ax.yaxis.label.get_window_extent() for ax in figure.axes]
    for one, other in itertools.combinations(boxes, 2):
        assert not one.overlaps(other)


@pytest.mark.parametrize("dim", [4, 12, 20])
def test_no_arrow_passes_through_a_third_node(dim):
    graph = ~np.eye(dim, dtype=bool)[:, :, None]
    ax = plot.plot_process_graph(graph, lags=(0,), names=[str(i) for i in range(dim)])
    nodes = _patches(ax, Circle)
    for arrow in _patches(ax, FancyArrowPatch):
        points = arrow._path_original.vertices
        gaps = [np.hypot(*(points - node.center).T).min() / node.get_radius() for node in nodes]
        start, end, third, *_ = sorted(gaps)
        assert 1 <= start <= end < 1.3
        assert third > 1.1


def test_empty_graph_says_so():
    ax = plot.plot_process_graph(np.zeros((3, 3, 1), bool), lags=(0,), names=("a", "b", "c"))
    assert "no edge" in ax.get_xlabel()
    assert not _patches(ax, FancyArrowPatch)


@pytest.mark.parametrize("dim", [1, 3, 9])
def test_discovery_shows_both(dim):
    figure = plot.plot_discovery(_found(dim))
    titles = {ax.get_title() for ax in figure.axes}
    assert titles & {"→ x0", "source"}
    assert any(_patches(ax, FancyArrowPatch) for ax in figure.axes)
    assert _render(figure)


def test_files_of_the_command_count_lags_as_the_report_does():
    """For a map to the level that moves, for a flow by its delays."""
    found = _found(2, lags=(0, 1))
    found.graph[:], found.confounded = False, None
    found.graph[0, 1, 1] = True
    found.delays, found.level_lags = np.where(found.graph, 0.7, np.nan), (1, 2)
    for found.moves_between_samples, label, ticks in (
        (False, "2\n(1 h)", "12"),
        (True, "1\n(0.7 h)", "01"),
    ):
        drawn = _output._drawn(found)
        (ax,) = drawn["process_graph.png"].axes
        assert label in {text.get_text() for text in ax.texts}
        shown = [tick.get_text() for tick in drawn["lag_matrix.png"].axes[0].get_xticklabels()]
        assert "".join(shown) == ticks


def test_trajectories_leave_gaps_and_name_their_axes():
    t = np.arange("2001-01", "2003-01", dtype="datetime64[M]")
    x = np.random.default_rng(0).normal(size=(24, 2))
    x[5:8, 1] = np.nan
    figure = plot.plot_trajectories(t, x, ("sea", "wind"), units=("°C", "m/s"))
    sea, wind = figure.axes
    assert wind.get_ylabel() == "wind\n(m/s)"
    assert np.isnan(wind.lines[0].get_ydata()).sum() == 3
    assert not np.isnan(sea.lines[0].get_ydata()).any()
    assert _render(figure)
    figure = plot.plot_trajectories(np.arange(24.0), x, ("sea", "wind"), time_unit="s")
    assert figure.axes[-1].get_xlabel() == "time (s)"


def test_pictures_work_without_pyplot(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)  # importing it would fail
    assert _render(plot.plot_discovery(_found(3)))


def test_arrays_must_fit_names_and_lags():
    scores = np.zeros((2, 2, 3))
    with pytest.raises(ValueError, match=r"scores of shape \(2, 2, 2\).*2 lags; got \(2, 2, 3\)"):
        plot.plot_lag_matrix(scores, lags=(0, 1), names=("a", "b"))
    with pytest.raises(ValueError, match="3 names"):
        plot.plot_process_graph(scores > 0, lags=(0, 1, 2), names=("a", "b", "c"))
    with pytest.raises(ValueError, match=r"lags must be .*got none"):
        plot.plot_lag_matrix(np.zeros((2, 2, 0)), lags=(), names=("a", "b"))
    with pytest.raises(ValueError, match="units must be 2"):
        plot.plot_trajectories(np.arange(4), np.zeros((4, 2)), ("a", "b"), units=("m",))
