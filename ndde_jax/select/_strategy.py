"""The interface of a strategy, and the result that every one of them returns."""

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from .._types import Graph, Scores
from ..fit._fit import Status
from ..fit._prices import AbstractPrice
from ..windows._flat import FlatData
from ..windows._windows import Windows


class Recovery(eqx.Module):
    """A graph and its evidence, whatever strategy found it.

    - `graph`: edges kept, `[source target lag]`.
    - `scores`: a ranking of all candidate edges, higher is surer; the unit is the strategy's.
    - `risk`: standardised mean squared error of the graph per target, corrected for the parameters
        used; 1 is as good as predicting the mean rate.
    - `price`: least fall of that risk for which an edge was kept, `[target]`; NaN where the
        strategy has a criterion of its own.
    - `status`: a [`Status`][ndde_jax.Status]. Failures are data, so a batch never stops.
    - `details`: the strategy's own result.
    """

    graph: Graph
    scores: Scores
    risk: Float[Array, "target"]
    price: Float[Array, "target"]
    status: Status
    details: Any


class AbstractStrategy(eqx.Module):
    """A way to find a graph; a value that owns its settings.

    A new one implements `search` and, because [`recover`][ndde_jax.recover] may be under `vmap`,
    does so in JAX.
    """

    @abc.abstractmethod
    def search(self, windows: Windows, price: AbstractPrice | None, key: PRNGKeyArray) -> Recovery:
        """Return the graph of one system; `price` is None where none was given."""


def recovery(windows: Windows, graph, scores, risk, price, details, status=None) -> Recovery:
    """Return the result with the status that its numbers imply."""
    refused = FlatData(windows).refused
    failed = ~jnp.all(jnp.isfinite(risk)) & ~refused
    status = Status.converged if status is None else status
    status = Status.where(failed, Status.diverged, status)
    status = Status.where(refused, Status.refused, status)
    price = jnp.broadcast_to(price, risk.shape)
    return Recovery(graph, scores, risk, price, status, details)
