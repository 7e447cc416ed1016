"""The paper's table: methods down, categories across, with published rows and our own."""

import math
import tomllib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks import tables
from benchmarks._store import POOLED, Store

from .runner import BENCHMARK

PUBLISHED = Path(__file__).with_name("published.toml")
SCORES = ("auroc", "auprc", "shd")
MARK = "†"
SERIES = 10


class Cell(NamedTuple):
    """A mean over graphs and its values, none for published means."""

    mean: float
    graphs: tuple[float, ...] = ()


Values = Mapping[tuple[str, str], Cell]  # by method and category


def published(file: Path = PUBLISHED) -> tuple[list[str], dict[str, Values]]:
    """Return categories in the paper's order, and its values of every score; methods are marked."""
    text = tomllib.loads(file.read_text(encoding="utf-8"))
    categories = text["categories"]
    values = {
        score: {
            (f"{method} {MARK}", category): Cell(row[score][i])
            for method, row in text["methods"].items()
            for i, category in enumerate(categories)
        }
        for score in SCORES
    }
    return categories, values


def own(store: Store, labels: str) -> dict[str, Values]:
    """Return the table for the methods in a store: joint scores, means over graphs (and seeds). SHD
    is extrapolated to the ten series of the benchmark if fewer were done.
    """
    found = {score: defaultdict(list) for score in SCORES}
    for rows in _pooled_rows(store).values():
        method, category = rows["unit"]
        for score in SCORES:
            scale = SERIES / rows["series"] if score == "shd" else 1
            found[score][method, category].append(rows[f"{labels}.{score}"] * scale)
    return {
        score: {
            key: Cell(tables.mean(values), tuple(v for v in values if not math.isnan(v)))
            for key, values in by_key.items()
        }
        for score, by_key in found.items()
    }


def _pooled_rows(store: Store) -> dict[tuple, dict]:
    """Return metrics by name for every graph, method and seed."""
    found = defaultdict(dict)
    for row in store.rows(BENCHMARK):
        if row.series == POOLED:
            metrics = found[row.category, row.graph, row.method, row.seed]
            metrics["unit"] = (row.method, row.category)
            metrics[row.metric] = row.value
    return found


def average_ranks(
    values: Values, methods: Sequence[str], categories: Sequence[str], *, largest_first: bool
) -> dict[str, float]:
    """Mean rank of every method over the categories that all of them have; ties share ranks."""
    shared = [c for c in categories if all(_known(values, m, c) for m in methods)]
    grid = np.array([[values[m, c].mean for c in shared] for m in methods]).reshape(
        len(methods), len(shared)
    )
    ranks = tables.ranks(grid, largest_first=largest_first)
    return {m: tables.mean(row) for m, row in zip(methods, ranks.tolist(), strict=True)}


def welch(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the two-sided p-value of Welch's t-test; NaN with fewer than two values on a side."""
    from scipy.stats import ttest_ind_from_stats

    if min(len(first), len(second)) < 2:
        return math.nan
    if np.ptp(first) == np.ptp(second) == 0:
        return 1.0 if first[0] == second[0] else 0.0
    # From their moments, since `ttest_ind` warns about nearly equal values.
    moments = [(np.mean(v), np.std(v, ddof=1), len(v)) for v in (first, second)]
    return float(ttest_ind_from_stats(*moments[0], *moments[1], equal_var=False).pvalue)


def paper_table(
    store: Store,
    *,
    labels: str = "published",
    reference: str | None = None,
    latex: bool = False,
) -> str:
    """Return one block per score, published rows first; a star marks methods that differ from
    `reference` (Welch's t-test over graphs, p < 0.05).

    Published rows are on the full benchmark against the labels as published; ours are on the graphs
    of this store. Ranks are among the rows shown, over the categories that all of them have.
    """
    categories, theirs = published()
    ours = own(store, labels)
    names = sorted({method for method, _ in ours["shd"]})
    if not names:
        raise ValueError(f"{store.path} holds no results of {BENCHMARK}; run the benchmark first.")
    if reference is not None and reference not in names:
        raise ValueError(f"no results of {reference}; there are: {', '.join(names)}.")
    shown = (
        list(dict.fromkeys(method for method, _ in theirs["shd"])) if labels == "published" else []
    )
    blocks = []
    for score, title, digits in (("shd", "SHD", 1), ("auroc", "AUROC", 2), ("auprc", "AUPRC", 2)):
        values = {**theirs[score], **ours[score]}
        methods = [*shown, *names]
        present = [c for c in categories if any((name, c) in values for name in names)]
        ranks = average_ranks(values, methods, present, largest_first=score != "shd")
        rows = [
            [
                method,
                *(_cell(values, method, c, reference, digits) for c in present),
                tables.number(ranks[method], 1),
            ]
            for method in methods
        ]
        header = [title, *present, "avg. rank"]
        blocks.append(_latex(header, rows) if latex else tables.markdown(header, rows))
    note = (
        f"{MARK} as reported in the paper, on the full benchmark. Others: joint scores against "
        f"{labels} labels on the graphs of this store, SHD per ten series."
    )
    return "\n\n".join([*blocks, f"% {note}" if latex else note])


def _cell(values: Values, method: str, category: str, reference: str | None, digits: int) -> str:
    if (method, category) not in values:
        return "-"
    cell = values[method, category]
    text = tables.number(cell.mean, digits)
    if reference is None or method == reference or (reference, category) not in values:
        return text
    differs = welch(cell.graphs, values[reference, category].graphs) < 0.05
    return text + "*" if differs else text


def _latex(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def line(cells):
        escaped = (cell.replace("_", r"\_").replace(MARK, r"$^\dagger$") for cell in cells)
        return " & ".join(escaped) + r" \\"

    return "\n".join(
        [
            rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}",
            r"\toprule",
            line(header),
            r"\midrule",
            *map(line, rows),
            r"\bottomrule",
            r"\end{tabular}",
        ]
    )


def _known(values: Values, method: str, category: str) -> bool:
    return (method, category) in values and not math.isnan(values[method, category].mean)
