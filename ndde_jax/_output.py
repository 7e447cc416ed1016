"""The files that the command line writes: either all results of a discovery or none."""

import contextlib
import io
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from ._discovery import FOLDER
from ._files import together
from ._report import Report

# Samples ahead in the forecast of the report, the default of `ndde-jax forecast`.
HORIZON = 24

# Columns of `Discovery.to_frame` that are empty where nothing was estimated.
ESTIMATES = ("delay_estimate", "delay_low", "delay_high", "p", "q")


class Pictures(NamedTuple):
    """The PNG files by name, and why effects and a forecast are missing; empty if they are
    there, or were not requested.
    """

    files: dict[str, bytes]
    why_not: str = ""


def pictures_of(found: Any, *, effects: bool = False) -> Pictures:
    """Return the pictures of a discovery; with `effects` also those of effects and a forecast."""
    files = pictures_or_none(lambda: _drawn(found))
    if not (files and effects):
        return Pictures(files)
    try:
        with plain_names():
            figures = found.effects().plot(), found.forecast(HORIZON, key=jax.random.key(0)).plot()
            uses = dict(zip(("effects.png", "forecast.png"), map(png, figures), strict=True))
    except Exception as error:  # irregular sampling, too few samples, or a failure to draw
        return Pictures(files, f"Not drawn: {error}")
    return Pictures(files | uses)


def write_results(
    found: Any | None,
    report: Report,
    directory: Path,
    pictures: Pictures,
    *,
    full: bool = False,
    repeat: Sequence[str] = (),
) -> list[str]:
    """Write all results, or none if one cannot be written, and return their names. Without the
    discovery, write only both reports, as after a long check.

    With `full` the text is the full report; `repeat` are the commands that reproduce it.
    """
    contents = {
        # Exactly one newline at the end.
        "report.txt": (report.text(full=full).rstrip() + "\n").encode(),
        "report.html": report.html(pictures=pictures.files, repeat=repeat, uses=pictures.why_not),
    }
    if found is not None:
        contents |= {"edges.csv": _edges(found), **pictures.files}
    with together({directory / name: content for name, content in contents.items()}):
        if found is not None:
            found.save(directory / FOLDER)
    return [*contents, FOLDER]


def escape_formula(cell: Any) -> Any:
    """Return a cell that a spreadsheet shows as text even if it begins like a formula."""
    formula = isinstance(cell, str) and cell[:1] in tuple("=+-@\t\r")
    if not formula:
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


@contextlib.contextmanager
def plain_names() -> Iterator[None]:
    """Draw names literally: a dollar sign does not begin a formula."""
    import matplotlib

    with matplotlib.rc_context({"text.parse_math": False}):
        yield


def csv_table(frame: Any) -> bytes:
    """Return a pandas DataFrame as a CSV file in which no spreadsheet sees formulas."""
    words = {
        name: frame[name].map(escape_formula) for name in frame if frame[name].dtype.kind == "O"
    }
    return (
        frame.assign(**words)
        .to_csv(index=False, lineterminator="\n", na_rep="nan", float_format="%.12g")
        .encode()
    )


def _edges(found: Any) -> bytes:
    """Return one row per candidate edge."""
    frame = found.to_frame()
    said = lambda value: f"{value:.6g}" if np.isfinite(value) else ""  # noqa: E731
    return csv_table(frame.assign(**{name: frame[name].map(said) for name in ESTIMATES}))


def pictures_or_none(draw: Callable[[], dict[str, Any]]) -> dict[str, bytes]:
    """Return figures by name as PNG files; print why and return none if drawing fails."""
    try:
        with plain_names():
            return {name: png(figure) for name, figure in draw().items()}
    except ImportError:
        print("No pictures: install ndde_jax[plot], or pass --no-plot.", file=sys.stderr)
    except Exception as error:  # the results are kept if drawing fails
        print(f"No pictures: {type(error).__name__}: {error}", file=sys.stderr)
    return {}


def _drawn(found: Any) -> dict[str, Any]:
    from .plot import plot_lag_matrix, plot_process_graph
    from .plot._graphs import beside_arrows, labels_of

    shared = labels_of(found)
    matrix = plot_lag_matrix(found.scores, graph=found.graph, **shared)
    shared |= beside_arrows(found)
    process = plot_process_graph(found.graph, scores=found.scores, **shared).get_figure()
    return {"lag_matrix.png": matrix, "process_graph.png": process}


def png(figure: Any) -> bytes:
    """Return a figure as a PNG file."""
    content = io.BytesIO()
    figure.savefig(content, dpi=150, format="png")
    return content.getvalue()


def forget_stages(directory: Path) -> None:
    """Remove the stored stages of a saved discovery, and those of its search with longer lags."""
    for file in directory.rglob("*.npz"):
        file.unlink(missing_ok=True)
    for folder in (*directory.glob("*/"), directory):
        with contextlib.suppress(OSError):  # it does not exist, or holds other files
            folder.rmdir()
