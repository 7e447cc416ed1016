"""A learned drift with what the data leave open: other graphs, other curves, noise, error."""

import dataclasses
from typing import Any

import numpy as np

from .._checks import check_whole
from . import _halves
from ._basis import Basis, make_basis
from ._noise import Noise, estimate_noise
from ._regraph import (
    as_graphs,
    candidates,
    model_risks,
    physical_histories,
    select_again,
    shares,
)
from ._rows import Rows, step_rows
from ._steps import fit_steps

RESAMPLES = 40
# By how much the logarithm of the residuals' variance must fall for another step to be taken.
CLEARLY = 0.03
# Share of a rate's variance by which the learned model may fall short of the regression.
SHORTFALL = 0.05


@dataclasses.dataclass(frozen=True)
class Ensemble:
    """The learned drift, corrected, and its variants on halves of the data; NumPy.

    A member's drift is `trust` times the learned model plus `theta` times the columns of `basis`:
    what a step of the simulator misses on all data, and by how much a regression on a half differs
    from the same regression on all data. Halves spread about as much as the data themselves do.
    Where the model predicts a step no better than the regression, for the numbers it has, the
    regression stands alone: `trust` is 1 or 0 per target.

    - `graphs`: chosen on each half, `[resample source target lag]`.
    - `share`: of the halves whose graph holds an edge at this lag or a neighbouring one,
        `[source target lag]`; NaN where an edge was no candidate.
    - `step`: of the simulator. `"heun"`, with the present predicted at its end; `"flow"`, where one
      that is finer than the sampling, and reads the past between samples, fits better; `"hold"`,
      where neither does as well as holding the present, so that drifts are those of the map from
      one sample to the next.
    - `own`: whether the learned model explains the windows nearly as well as the regression does,
      or better, so that effects are its own, bool `[target]`.
    - `trust`: of the model, `[target]`.
    - `center`: coefficients of the correction alone, `[target feature]`; `theta`: of every member,
        `[resample target feature]`, physical rates.
    - `noise`: of one step.
    - `rows`: the steps they were estimated from.
    """

    graphs: np.ndarray
    share: np.ndarray
    step: str
    own: np.ndarray
    trust: np.ndarray
    center: np.ndarray
    theta: np.ndarray
    basis: Basis
    noise: Noise
    rows: Rows

    @property
    def resamples(self) -> int:
        """Number of halves."""
        return len(self.graphs)


def make_ensemble(found: Any, *, rng: np.random.Generator, resamples: int = RESAMPLES) -> Ensemble:
    """Select the graph again on random halves of the data, and fit what they say, in closed form.

    **Arguments:**

    - `found`: a discovery.
    - `rng`: draws the halves.
    - `resamples`: halves, 40 by default: the least number with which a share of .9 and one of .75
        are told apart at two standard errors.

    **Raises:** `ValueError` for irregular sampling, or fewer than 20 steps.
    """
    check_whole(resamples, "resamples", least=2)
    rows = step_rows(found)
    if len(rows) < 20:
        raise ValueError(
            f"an ensemble needs at least 20 steps between complete samples; there are {len(rows)}."
        )
    graph = np.asarray(found.graph)
    slots = [candidates(found, j) for j in range(graph.shape[1])]
    pairs = lambda s: np.array(  # noqa: E731
        [(a, b) for a in range(len(s)) for b in range(a)], int
    ).reshape(-1, 2)
    bases = [make_basis(rows.start, s, pairs(s)) for s in slots]
    reach = int(found.lags[-1]) + 2
    n_blocks = _halves.count_blocks(
        min(len(rows), int(np.sum(np.asarray(found.windows.valid)))), reach
    )
    halves = _halves.draw_halves(n_blocks, resamples, rng)
    histories = physical_histories(found.windows)
    again = [select_again(found, j, b, histories, halves) for j, b in enumerate(bases)]
    masks, risks = (list(part) for part in zip(*again, strict=True))
    own = model_risks(found, histories) <= np.array(risks) + SHORTFALL

    given = (found, rows, bases, masks, halves)
    fitted = fit_steps(*given, step="heun")
    for step in ("flow", "hold") if 0 in found.lags else ("flow",):
        other = fit_steps(*given, step=step)
        fitted = other if _smaller(other.residual, fitted.residual) else fitted
    scaling = found.model.scaling
    state = (rows.now - np.asarray(scaling.center)) / np.asarray(scaling.scale)
    graphs = as_graphs(graph.shape, slots, masks)
    return Ensemble(
        graphs=graphs,
        share=shares(graphs, slots),
        step=fitted.step,
        own=own,
        trust=fitted.trust,
        center=fitted.center,
        theta=fitted.center[None] + fitted.spread,
        basis=fitted.basis,
        noise=estimate_noise(fitted.residual, state, rows.position, fitted.freedom),
        rows=rows,
    )


def _smaller(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether residuals are clearly smaller, variables taken together."""
    sizes = [np.mean(np.square(np.nan_to_num(r, nan=np.inf)), axis=0) for r in (one, other)]
    with np.errstate(divide="ignore", invalid="ignore"):
        change = np.log(sizes[0] / sizes[1])
    return bool(np.nan_to_num(change, nan=0.0).mean() < -CLEARLY)
