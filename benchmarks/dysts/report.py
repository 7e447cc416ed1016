"""Tables of the results."""

import fnmatch
import math
from collections import defaultdict
from collections.abc import Container, Mapping, Sequence

import numpy as np

from benchmarks import tables
from benchmarks._store import Row, Store

from .scoring import METRICS, UNRANKED

BENCHMARK = "dysts"
REFERENCE = "discover"
ANCHORS = ("oracle", "terms", "floor", "mean")
# The anchor that knows the terms and estimates all numbers.
BEST = "terms"
# Number of sign flips of the paired permutation test.
FLIPS = 9999
LEVEL = 0.05

# [method][metric][system], means over seeds.
Values = dict[str, dict[str, dict[str, float]]]


def read(rows: Sequence[Row], *, only: str | None = None, category: str = "data") -> Values:
    """Return values of a category, by method, metric and system."""
    found: dict = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for row in rows:
        if row.category == category and (only is None or fnmatch.fnmatch(row.graph, f"*{only}*")):
            found[row.method][row.metric][row.graph].append(row.value)
    return {
        method: {
            metric: {system: float(np.mean(values)) for system, values in systems.items()}
            for metric, systems in metrics.items()
        }
        for method, metrics in found.items()
    }


def table(store: Store, *, only: str | None = None, category: str = "data") -> str:
    """Return medians and average ranks of all methods: over the chaotic test systems, which is the
    main table, over all test systems, and over the tuning systems.

    Ranks compare the methods that are not anchors: 1 is the best, ties share their mean, missing
    values rank last. A star marks a rank that differs from that of `discover` in a paired
    permutation test at the 5 % level.
    """
    rows = [row for row in store.rows(BENCHMARK) if row.category == category]
    values = read(rows, only=only, category=category)
    if not values:
        raise ValueError(
            f"{store.path} holds no results of {BENCHMARK}, category {category}; run the "
            "benchmark first."
        )
    flagged = lambda name: {  # noqa: E731
        system
        for metrics in values.values()
        for system, flag in metrics.get(name, {}).items()
        if flag == 1
    }
    everything = {system for metrics in values.values() for system in metrics["vlpt"]}
    test = everything - flagged("tuning")
    parts = []
    groups = {
        "Chaotic test systems": test & flagged("chaotic"),
        "Test systems": test,
        "Tuning systems": everything & flagged("tuning"),
    }
    for title, keep in groups.items():
        if not keep:
            continue
        body, n = _rows(values, keep)
        header = ["method"]
        for label, _, _ in METRICS.values():
            header += [label, "rank"]
        header += [label for label, _ in UNRANKED.values()]
        header += ["mean rank", "escaped", "systems", "s/system"]
        seconds = _seconds(rows)
        for line in body:
            line.append(tables.number(seconds[line[0]], 1))
        parts.append(f"{title} ({n}): medians and average ranks.\n")
        parts.append(tables.markdown(header, body) + "\n")
        if paired := _paired(values, keep):
            parts.append(paired + "\n")
    ended = f"{_test_lengths(values)}Statuses, in systems: {tables.statuses(rows, 'vlpt')}."
    return "\n".join([*parts, ended])


def _test_lengths(values: Values) -> str:
    """Return a sentence on the length of the tests, which `--data` determines if given."""
    found = {}
    for metrics in values.values():
        found |= metrics.get("test_lyapunov_times", {})
    known = {system: length for system, length in found.items() if np.isfinite(length)}
    if not known:
        return ""
    shortest, longest = min(known, key=known.get), max(known, key=known.get)
    return (
        f"Tests last {known[shortest]:.0f} ({shortest}) to {known[longest]:.0f} ({longest}) "
        f"Lyapunov times, half of them at least {np.median(list(known.values())):.0f}.\n\n"
    )


def _paired(values: Values, keep: set[str]) -> str:
    """Return valid times relative to those of the anchor that knows the terms, system by system."""
    best = {s: v for s, v in values.get(BEST, {}).get("vlpt", {}).items() if s in keep and v > 0}
    shares = {
        method: [metrics["vlpt"][s] / v for s, v in best.items() if s in metrics["vlpt"]]
        for method, metrics in values.items()
        if method not in ANCHORS
    }
    said = [f"{m} {tables.number(tables.median(v), 2)}" for m, v in shares.items() if v]
    if not said:
        return ""
    return f"Median over systems of the valid time relative to that of `{BEST}`: {', '.join(said)}."


def _rows(values: Values, keep: set[str]) -> tuple[list[list[str]], int]:
    kept = {
        method: {
            metric: {s: v for s, v in systems.items() if s in keep}
            for metric, systems in metrics.items()
        }
        for method, metrics in values.items()
    }
    contenders = [m for m in kept if m not in ANCHORS]
    # Only systems that all contenders have done, so that ranks and medians are of the same systems.
    done = [set(kept[m]["vlpt"]) for m in contenders or kept]
    systems = sorted(set.intersection(*done))
    ranks = {metric: _ranks(kept, contenders, metric, systems) for metric in METRICS}
    body = []
    for method in [*_sorted(contenders, ranks), *(a for a in ANCHORS if a in kept)]:
        own = kept[method]
        cells = [method]
        for metric, (_, digits, _) in METRICS.items():
            cells.append(tables.number(median(own[metric], systems), digits))
            cells.append(_rank_cell(ranks[metric], contenders, method))
        for metric, (_, digits) in UNRANKED.items():
            cells.append(tables.number(median(own.get(metric, {}), systems), digits))
        anchor = method in ANCHORS or not systems
        means = [] if anchor else [r[contenders.index(method)].mean() for r in ranks.values()]
        cells.append("" if anchor else tables.number(float(np.mean(means)), 2))
        escaped = [own.get("escaped", {}).get(s, math.nan) for s in systems]
        cells.append(str(int(np.nansum(np.asarray(escaped) > 0))))
        cells.append(str(len(set(own["vlpt"]) & set(systems))))
        body.append(cells)
    return body, len(systems)


def median(values: Mapping[str, float], systems: Sequence[str]) -> float:
    """Return the median over the systems that have a value."""
    return tables.median(values.get(s, math.nan) for s in systems)


def _ranks(kept: Values, contenders, metric: str, systems) -> np.ndarray:
    """Return ranks [method system], 1 the best, ties share their mean."""
    values = [kept[m][metric].get(s, math.nan) for m in contenders for s in systems]
    grid = np.reshape(values, (len(contenders), len(systems)))
    return tables.ranks(grid, largest_first=METRICS[metric][2])


def _sorted(contenders, ranks) -> list[str]:
    mean = np.mean([r.mean(axis=1) for r in ranks.values()], axis=0)
    return [contenders[i] for i in np.argsort(mean, kind="stable")]


def _rank_cell(ranks: np.ndarray, contenders, method: str) -> str:
    if method in ANCHORS or ranks.shape[1] == 0:
        return ""
    own = ranks[contenders.index(method)]
    star = ""
    if REFERENCE in contenders and method != REFERENCE:
        reference = ranks[contenders.index(REFERENCE)]
        star = "*" if permutation_p(own - reference) < LEVEL else ""
    return f"{own.mean():.2f}{star}"


def permutation_p(differences: np.ndarray) -> float:
    """Return the two-sided p-value of a mean difference of zero, by flipping the signs of pairs."""
    signs = np.random.default_rng(0).choice([-1, 1], size=(FLIPS, len(differences)))
    null = np.abs(signs @ differences)
    return float((1 + np.sum(null >= abs(differences.sum()) - 1e-12)) / (1 + FLIPS))


def ablation(
    store: Store, *, known: Container[str], only: str | None = None, category: str = "data"
) -> str:
    """Return the position of every method between `node` (0) and `oracle` (1), by medians over the
    chaotic test systems that all three have done; their number is in the last column.
    """
    values = read(list(store.rows(BENCHMARK)), only=only, category=category)
    if not {"node", "oracle"} <= set(values):
        return ""
    flags = values["node"]
    chaotic = {s for s, flag in flags.get("chaotic", {}).items() if flag == 1}
    chaotic -= {s for s, flag in flags.get("tuning", {}).items() if flag == 1}
    anchored = chaotic & set(values["oracle"]["vlpt"])
    compared = ("vlpt", "flee", "dky", "lsd", "dstsp")
    body = []
    for method in values:
        if method in known:
            cells, systems = [], sorted(anchored & set(values[method]["vlpt"]))
            for metric in compared:
                node, best, own = (
                    median(values[m].get(metric, {}), systems) for m in ("node", "oracle", method)
                )
                share = (own - node) / (best - node) if best != node else math.nan
                cells.append(tables.number(share, 2))
            shd = median(values[method]["shd"], systems)
            body.append([method, *cells, tables.number(shd, 3), str(len(systems))])
    header = ["share of the way from node to oracle", *(METRICS[m][0] for m in compared)]
    return tables.markdown([*header, "SHD/D²", "systems"], body) + "\n"


def _seconds(rows) -> dict[str, float]:
    found = defaultdict(list)
    for row in rows:
        if row.metric == "vlpt":
            found[row.method].append(row.seconds)
    return {method: float(np.mean(seconds)) for method, seconds in found.items()}
