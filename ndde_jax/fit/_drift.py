"""One function for drifts: of a family, on a given graph, by the flow or by the rate."""

from typing import Any

import equinox as eqx
from jaxtyping import PRNGKeyArray

from .._checks import check_whole, refusal
from .._types import Checked
from ..models._families import AbstractFamily, Best, Networks, Polynomials
from ..models._model import AbstractDelayModel
from ..windows._windows import Windows
from ._flow import fit_flow
from ._refit import StrengthConfig


class Flow(eqx.Module):
    """The correction of forward differences by the motion of the fitted drift during a step.

    - `rounds`: corrections, each followed by a fit; 6. In a linear system a round leaves (h‖A‖)²/6
        of a small bias at most, so three are many where sampling resolves the dynamics.
    """

    rounds: Checked[int] = eqx.field(static=True, default=6)

    def __check_init__(self):
        check_whole(self.rounds, "rounds", least=0)


def fit_drift(
    windows: Checked[Windows],
    graph: Any = "full",
    family: Checked[AbstractFamily | None] = None,
    *,
    flow: Checked[Flow | None] = Flow(),  # noqa: B008, a frozen value
    key: Checked[PRNGKeyArray],
) -> AbstractDelayModel:
    """Fit the drift of a given graph.

    Pure: `jit`, `vmap` and `grad` apply, with respect to the numbers of the windows. A fit to
    forward differences of a smooth system is biased by the step; `flow` removes that, and does
    nothing for windows of central differences or midpoints, whose rates are those of the drift.

    **Arguments:**

    - `windows`: of one system.
    - `graph`: `[source target lag]`, or `"full"` for all edges allowed. A target without inputs
        gets its mean rate.
    - `family`: [`Networks`][ndde_jax.models.Networks],
        [`Polynomials`][ndde_jax.models.Polynomials] or [`Best`][ndde_jax.models.Best], the default.
    - `flow`: [`Flow`][ndde_jax.fitting.Flow]; None fits the one-step map as it is.
    - `key`: random starts.

    **Returns:** a model, whose mask is the graph and whose weights are NaN for windows that
    [`fit`][ndde_jax.fit] would refuse. Forecast with a solver of higher order where the flow was
    corrected: it is a differential equation then, not a one-step map.

    **Raises:** `ValueError` for a graph of another shape, for what is no family, and for
    polynomials of a hundred inputs.

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    t = np.arange(500) * 0.1
    windows = ndde.lagged_windows(np.stack([np.sin(t), np.cos(t)], 1), dt=0.1)
    polynomials = ndde.models.Polynomials()
    model = ndde.fit_drift(windows, "full", polynomials, key=jax.random.key(0))
    print(ndde.equations(model, ["x", "y"]))
    ```
    """
    family = Best() if family is None else family
    if not isinstance(family, AbstractFamily):
        raise refusal(
            "family", "a family such as ndde_jax.models.Networks()", family, "Mind the parentheses."
        )
    if flow is not None and not isinstance(flow, Flow):
        raise refusal("flow", "a ndde_jax.fitting.Flow or None", flow)
    networks = family.networks if isinstance(family, Best) else family
    polynomials = family.polynomials if isinstance(family, Best) else family
    options: dict[str, Any] = {"rounds": 0 if flow is None else flow.rounds}
    if isinstance(networks, Networks):
        size = dict(width=networks.width, depth=networks.depth, steps=networks.steps)
        options |= {"members": networks.members, "config": StrengthConfig(**size)}
    if isinstance(polynomials, Polynomials):
        options["simple_numbers"] = polynomials.simple_numbers
    names = {Networks: "network", Polynomials: "polynomial", Best: "auto"}
    return fit_flow(windows, graph, key=key, family=names[type(family)], **options)
