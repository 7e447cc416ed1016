"""Tables of the results, a picture of them, and predictions as files."""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks import tables
from benchmarks._figures import axes, save
from benchmarks._store import Store, Unit
from benchmarks.dirty.report import calibration

from .data import FAMILIES, PLANTS
from .methods import METHODS
from .runner import BENCHMARK

# The method with which others are compared, and the standard errors of a small and a large gap.
REFERENCE, SMALL, LARGE = "discover", 1.0, 2.0
# Standard errors below this are rounding errors.
TIE = 1e-9
# Common names of families and methods, for pictures and the short table.
WORDS = {
    "linear": "linear processes",
    "linear_at_once": "… with links at once",
    "nonlinear": "nonlinear processes",
    "nonlinear_at_once": "… with links at once",
    "sparse_var": "sparse weak VAR",
    "threshold": "threshold autoregressions",
    "bilinear": "bilinear autoregressions",
    "logistic": "coupled logistic maps",
    "henon": "Hénon maps",
    "ikeda": "Ikeda maps",
    "lorenz96_f10": "Lorenz-96, F = 10",
    "lorenz96_f40": "Lorenz-96, F = 40",
    "lotka_volterra": "predators and prey",
    "kuramoto": "phase oscillators",
    "delayed_flow": "delayed flows",
    "haemodynamic": "brain regions (haemodynamic)",
    "genes": "gene networks",
    "shares": "shares of a market",
    "hidden": "a hidden driver",
    PLANTS: "plants (real)",
    "independent": "independent series",
    "random_walks": "random walks",
    "growth": "growth that goes on",
    "seasons": "shared seasons",
    "stations": "stations in one field",
}
NAMES = {
    "discover": "ndde_jax",
    "pcmci_plus": "PCMCI+",
    "pcmci_robust": "PCMCI+ robust",
    "var": "VAR",
    "varlingam": "VARLiNGAM",
    "trees": "boosted trees",
    "transfer": "transfer entropy",
    "pysindy": "PySINDy",
}


class Row(NamedTuple):
    """A row of records: a family and a size, or all plants."""

    family: str
    size: str


class Score(NamedTuple):
    """A score: its name, its value from the metrics of a record, whether more is better, and its
    digits.
    """

    name: str
    of: Callable[[Mapping[str, float]], float]
    more: bool = True
    digits: int = 2


def _share_false(metrics) -> float:
    nothing = metrics.get("summary_truth", math.nan) == 0
    return metrics["false"] / metrics["possible"] if nothing else math.nan


F1 = Score("F1", lambda metrics: metrics.get("f1", math.nan))
AUROC = Score("AUROC", lambda metrics: metrics["auroc"])
FALSE = Score("false", _share_false, more=False, digits=3)
AT_ONCE = Score("F1 at once", lambda metrics: metrics.get("at_once.f1", math.nan))
CPU = Score("CPU s", lambda metrics: metrics["cpu"], more=False)
HEADINGS = {
    F1: "F1, at exact lags where the truth has lags, of pairs elsewhere:",
    AUROC: "AUROC of pairs:",
    FALSE: "Nothing drives anything; links kept, as a share of all pairs (less is better):",
    AT_ONCE: "Pairs related within one sampling interval, F1:",
}
# Metrics by row, method and record.
Results = Mapping[Row, Mapping[str, Mapping[object, Mapping[str, float]]]]


def results(store: Store) -> Results:
    """Return metrics by row, method, and record (its seed, or the plant's name), in order of
    families.

    **Raises:** `ValueError` if there are none.
    """
    found = defaultdict(lambda: defaultdict(lambda: defaultdict(dict)))
    for row in store.rows(BENCHMARK):
        plant = row.category == PLANTS
        place = Row(row.category, "all" if plant else row.graph)
        record = row.graph if plant else row.seed
        found[place][row.method][record][row.metric] = row.value
    if not found:
        raise ValueError(f"{store.path} holds no results of {BENCHMARK}; run it first.")
    order = [*FAMILIES, PLANTS]

    def by_size(row: Row):
        return order.index(row.family), [int(part) for part in row.size.split("x") if part != "all"]

    return {row: found[row] for row in sorted(found, key=by_size)}


def values(score: Score, of_method: Mapping) -> dict[object, float]:
    """Return values by record, where defined."""
    found = {record: score.of(metrics) for record, metrics in of_method.items()}
    return {record: value for record, value in found.items() if not math.isnan(value)}


def mean_and_error(numbers) -> tuple[float, float]:
    """Return a mean and its standard error; NaN if there are too few values."""
    numbers = np.array(list(numbers), float)
    mean = numbers.mean() if len(numbers) else math.nan
    error = numbers.std(ddof=1) / np.sqrt(len(numbers)) if len(numbers) > 1 else math.nan
    return float(mean), float(error)


def best(score: Score, of_row: Mapping[str, Mapping]) -> str | None:
    """Return the method with the best mean, the reference if it ties."""
    means = {m: mean_and_error(values(score, found).values())[0] for m, found in of_row.items()}
    means = {method: mean for method, mean in means.items() if not math.isnan(mean)}
    sign = 1 if score.more else -1
    key = {method: (sign * round(mean, 9), method == REFERENCE) for method, mean in means.items()}
    return max(key, key=key.get) if key else None


def behind(score: Score, of_row: Mapping[str, Mapping]) -> tuple[str, float] | None:
    """Return the best method of a row and the gap of the reference, in standard errors of the
    difference, record by record: 0 if the reference is the best to the digits of the table,
    infinite if the difference is constant. None if either has no value.
    """
    winner = best(score, of_row)
    if winner is None or not values(score, of_row.get(REFERENCE, {})):
        return None
    ours, theirs = (values(score, of_row[method]) for method in (REFERENCE, winner))
    gaps = [(theirs[k] - ours[k]) * (1 if score.more else -1) for k in ours if k in theirs]
    if winner == REFERENCE or not gaps:
        return winner, 0.0
    mean, error = mean_and_error(gaps)
    if mean < 0.5 * 10**-score.digits:
        return winner, 0.0
    return winner, mean / error if error > TIE else math.inf


def table(store: Store) -> str:
    """Return Markdown: F1, AUROC, false links, contemporaneous relations and times, each with
    families and sizes down and methods across; the reliability of verdicts; and how often the
    reference is best.

    Cells are means over records and their standard errors, the best in bold. `!` marks rows in
    which the reference is behind the best by more than one standard error of the difference, `!!`
    by more than two.

    **Raises:** `ValueError` if there are no results.
    """
    found = results(store)
    methods = _methods(found)
    parts = []
    for score, heading in HEADINGS.items():
        if body := _body(score, found, methods):
            header = ["family", "size", "records", *methods]
            parts += [heading, tables.markdown(header, body, text_columns=2)]
    parts += ["Seconds of one core, the median of all records:", _times(found, methods)]
    verdicts = [
        (("", "", "", method, ""), metrics)
        for of_row in found.values()
        for method, of_method in of_row.items()
        for metrics in of_method.values()
        if "edges" in metrics
    ]
    if any(metrics["verdict"] >= 0 for _, metrics in verdicts):
        parts += ["How far verdicts can be trusted:", calibration(verdicts)]
    counted = [count(score, found) for score in HEADINGS]
    return "\n\n".join([*parts, *(sentence for sentence in counted if sentence)])


def _methods(found: Results) -> list[str]:
    there = {method for of_row in found.values() for method in of_row}
    return [method for method in METHODS if method in there] + sorted(there - set(METHODS))


def _body(score: Score, found: Results, methods: list[str]) -> list[list[str]]:
    rows = []
    for row, of_row in found.items():
        found_there = {m: values(score, of_row.get(m, {})).values() for m in methods}
        means = {m: mean_and_error(numbers) for m, numbers in found_there.items()}
        shown = {m: mean for m, (mean, _) in means.items()}
        winners, gap = _winners(score, shown, methods, score.digits), behind(score, of_row)
        if not winners:
            continue
        cells = []
        for method, (mean, error) in means.items():
            cell = tables.number(mean, score.digits)
            cell = f"**{cell}**" if method in winners else cell
            cell += "" if math.isnan(error) else f"±{tables.number(error, score.digits)}"
            if method == REFERENCE and gap is not None:
                cell += " !!" if gap[1] > LARGE else " !" if gap[1] > SMALL else ""
            cells.append(cell)
        records = max(len(of_method) for of_method in of_row.values())
        rows.append([row.family, row.size, str(records), *cells])
    return rows


def _times(found: Results, methods: list[str]) -> str:
    rows = []
    for row, of_row in found.items():
        seconds = [
            tables.median(values(CPU, of_row.get(method, {})).values()) for method in methods
        ]
        rows.append([row.family, row.size, *(tables.number(second) for second in seconds)])
    return tables.markdown(["family", "size", *methods], rows, text_columns=2)


def count(score: Score, found: Results) -> str:
    """Return a sentence with the number of rows in which the reference is best or close to it, and
    the rows in which it is far behind.
    """
    gaps = {row: behind(score, of_row) for row, of_row in found.items()}
    gaps = {row: gap for row, gap in gaps.items() if gap is not None}
    if not gaps:
        return ""
    close = sum(gap <= SMALL for _, gap in gaps.values())
    far = [f"{r.family} {r.size} ({winner})" for r, (winner, gap) in gaps.items() if gap > LARGE]
    return (
        f"{score.name}: `{REFERENCE}` is the best, or within one standard error of it, in {close} "
        f"of {len(gaps)} rows; more than two behind in {len(far)}"
        + (f": {', '.join(far)}." if far else ".")
    )


# ---- briefly ----


def brief(found: Results) -> tuple[list[str], dict[str, dict[str, float]], dict[str, Score]]:
    """Return the methods that most families have; by family the mean over its sizes of F1, or of
    false links if there are no links, NaN for methods without all sizes; and which of the two.
    """
    means, scores = defaultdict(lambda: defaultdict(list)), {}
    for row, of_row in found.items():
        has_links = best(F1, of_row) is not None
        scores[row.family] = score = F1 if has_links else FALSE
        for method in _methods(found):
            mean, _ = mean_and_error(values(score, of_row.get(method, {})).values())
            means[row.family][method].append(mean)
    pooled = {
        family: {method: float(np.mean(numbers)) for method, numbers in of_family.items()}
        for family, of_family in means.items()
    }

    def common(method):
        there = [not math.isnan(by.get(method, math.nan)) for by in pooled.values()]
        return sum(there) > len(pooled) / 2

    return [method for method in _methods(found) if common(method)], pooled, scores


def by_family(store: Store) -> str:
    """Return Markdown: families down and methods across, sizes pooled; F1, and below it the share
    of linked pairs where there are no links. The best in bold.

    **Raises:** `ValueError` if there are no results.
    """
    methods, pooled, scores = brief(results(store))
    header = [NAMES.get(method, method) for method in methods]
    parts = []
    for score, title in ((F1, "F1"), (FALSE, "false links where there are none")):
        rows = [
            [WORDS.get(family, family), *_marked(score, pooled[family], methods)]
            for family in pooled
            if scores[family] is score
        ]
        if rows:
            parts.append(tables.markdown([title, *header], rows))
    return "\n\n".join(parts)


def _winners(score: Score, numbers: Mapping[str, float], methods, digits: int) -> set[str]:
    """Return the methods that no other beats to this number of digits."""
    shown = {m: round(numbers.get(m, math.nan), digits) for m in methods}
    shown = {m: number for m, number in shown.items() if not math.isnan(number)}
    top = (max if score.more else min)(shown.values(), default=math.nan)
    return {method for method, number in shown.items() if number == top}


def _marked(score: Score, numbers, methods) -> list[str]:
    winners = _winners(score, numbers, methods, 2)
    texts = {method: tables.number(numbers.get(method, math.nan), 2) for method in methods}
    return [f"**{texts[method]}**" if method in winners else texts[method] for method in methods]


def picture(store: Store, path: Path) -> Path:
    """Draw the short table in colours, families down and methods across, the best framed.

    **Raises:** `ValueError` if there are no results.
    """
    methods, pooled, scores = brief(results(store))
    panels = [[family for family in pooled if scores[family] is score] for score in (F1, FALSE)]
    panels = [families for families in panels if families]
    heights = [0.4 * len(families) + 0.8 for families in panels]
    figure, _ = axes(1, 3.2 + 1.0 * len(methods), height=sum(heights))
    figure.clear()
    parts = figure.subplots(len(panels), 1, height_ratios=heights, squeeze=False)[:, 0]
    for axis, families in zip(parts, panels, strict=True):
        score = scores[families[0]]
        numbers = np.array([[pooled[f].get(m, math.nan) for m in methods] for f in families])
        limits = (0, 1) if score.more else (0, 0.5)
        axis.imshow(numbers, cmap="YlGn" if score.more else "OrRd", aspect="auto", clim=limits)
        for i, family in enumerate(families):
            winners = _winners(score, pooled[family], methods, 2)
            for j, method in enumerate(methods):
                _cell(axis, i, j, numbers[i, j], method in winners, limits)
        names = [NAMES.get(method, method).replace(" ", "\n") for method in methods]
        axis.set_xticks(range(len(methods)), names)
        axis.set_yticks(range(len(families)), [WORDS.get(family, family) for family in families])
        axis.tick_params(length=0, labeltop=True, labelbottom=False)
        axis.set_title(
            "links found, F1 (framed: the best)"
            if score.more
            else "nothing to find: share of pairs that are linked all the same"
        )
        axis.spines[:].set_visible(False)
    return save(figure, path)


def _cell(axis, i, j, number, wins, limits) -> None:
    from matplotlib.patches import Rectangle

    dark = number > 0.7 * limits[1]
    axis.text(
        j,
        i,
        tables.number(number, 2),
        ha="center",
        va="center",
        color="white" if dark else "black",
        weight="bold" if wins else "normal",
    )
    if wins:
        frame = Rectangle((j - 0.47, i - 0.45), 0.94, 0.9, fill=False, lw=2, edgecolor="black")
        axis.add_patch(frame)


def write_predictions(store: Store, directory: Path) -> int:
    """Write one `method/family_size_seed.npz` per unit with `scores` `[source target]` and, where
    the method keeps links, `graph` `[source target lag]`; return the number of files.
    """
    units = {Unit(*(getattr(r, n) for n in Unit._fields)) for r in store.rows(BENCHMARK)}
    for unit in sorted(units):
        folder = directory / unit.method
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{unit.category}_{unit.graph}_seed{unit.seed}.npz"
        np.savez(file, **store.arrays(unit))
    return len(units)
