"""Methods: samples in, a graph out, with the findings of the report."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool

import ndde_jax as ndde
from benchmarks.tables import VERDICTS


class Answer(NamedTuple):
    """The answer of a method for one record.

    - `graph`: edges kept; `names`: of the findings, notes last.
    - `verdict`: position in `tables.VERDICTS`, or -1 if a method has none.
    - `reasons`: number of findings that lower the verdict.
    """

    graph: Bool[np.ndarray, "source target lag"]
    names: tuple[str, ...] = ()
    verdict: int = -1
    reasons: int = 0


def discover(x, lags, *, key, **options) -> Answer:
    """Return the answer of `discover` with its defaults."""
    found = ndde.discover(x, lags=lags, key=key, **options)
    return answer(found)


def fast(x, lags, *, key, **options) -> Answer:
    """Return the answer of `discover` without networks."""
    return answer(ndde.discover(x, lags=lags, recipe=ndde.Recipe.fast(), key=key, **options))


def answer(found: ndde.Discovery) -> Answer:
    """Return a discovery as an answer for the tables."""
    verdict = found.verdict
    names = tuple(finding.name for finding in (*verdict.reasons, *verdict.notes))
    return Answer(
        np.asarray(found.graph), names, VERDICTS.index(str(verdict)), len(verdict.reasons)
    )


def splines(x, lags, *, key, **options) -> Answer:
    """Return the answer of spline regression after the same treatments and findings: a second
    instead of minutes.
    """
    samples = ndde.prepare_samples(ndde.read_samples(x, **options))
    findings = ndde.data_findings(samples)
    if samples.regular:
        windows = ndde.select.midpoint_windows(samples, lags=lags)
    else:
        windows = ndde.lagged_windows(samples, lags=lags)
    weights = [finding.weight for finding in findings]
    worst = 2 if "problem" in weights else 1 if "reservation" in weights else 0
    n_reasons = sum(weight != "note" for weight in weights)
    names = tuple(finding.name for finding in findings)
    return Answer(np.asarray(ndde.select.spline_graph(windows).graph), names, worst, n_reasons)


def untreated(x, lags, *, key, **options) -> Answer:
    """Return the answer of spline regression on the untreated samples."""
    windows = ndde.lagged_windows(x, lags=lags, **options)
    return Answer(np.asarray(ndde.select.spline_graph(windows).graph))


METHODS: dict[str, Callable[..., Answer]] = {
    "discover": discover,
    "fast": fast,
    "splines": splines,
    "untreated": untreated,
}
