"""The association of forecast metrics with errors of the graph, and with the error of a step."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from benchmarks import tables
from benchmarks._store import Store

from .report import ANCHORS, BENCHMARK, Values, read
from .scoring import METRICS

RELATED = tuple(metric for metric in METRICS if metric != "shd")
AGAINST = {"shd": "SHD/D²", "train": "one-step error"}
LEVEL = 0.05


class Association(NamedTuple):
    """Values of one metric and of an error, by method, and Kendall's τ over all."""

    x: dict[str, Float[np.ndarray, " system"]]
    y: dict[str, Float[np.ndarray, " system"]]
    tau: float
    chance: float

    @property
    def text(self) -> str:
        """The value of τ, with a star if it is significant at the 5 % level."""
        return f"{tables.number(self.tau, 2)}{'*' if self.chance < LEVEL else ''}"


def association(values: Values, metric: str, against: str) -> Association:
    """Return the association over all methods except anchors, and all systems that have both."""
    from scipy.stats import kendalltau

    x, y = {}, {}
    for method in (m for m in values if m not in ANCHORS):
        own = values[method]
        systems = [s for s in own[metric] if s in own[against]]
        x[method] = np.array([own[against][s] for s in systems])
        y[method] = np.array([own[metric][s] for s in systems])
    found = kendalltau(
        np.concatenate(list(x.values())), np.concatenate(list(y.values())), nan_policy="omit"
    )
    return Association(x, y, float(found.statistic), float(found.pvalue))


def table(store: Store, *, only: str | None = None, category: str = "data") -> str:
    """Return τ of every metric, as Markdown."""
    values = read(store.rows(BENCHMARK), only=only, category=category)
    if not set(values) - set(ANCHORS):
        raise ValueError(f"{store.path} holds only anchors; associations need another method.")
    body = [
        [label, *(association(values, metric, against).text for metric in RELATED)]
        for against, label in AGAINST.items()
    ]
    return tables.markdown(["Kendall's τ with", *(METRICS[m][0] for m in RELATED)], body)
