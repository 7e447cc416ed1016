"""The interface of a strategy, and the result that every one of them returns."""

import abc
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from .._types import Graph, Scores, namespace_of, to_jax
from ..fit._fit import Status
from ..fit._prices import AbstractPrice
from ..models._model import AbstractDelayModel
from ..windows._flat import FlatData
from ..windows._windows import Windows
from ._measured import Measured, measure_graph
from ._screened import Screened


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
    - `model`: the drift that was fitted on the graph, by strategies that choose edges by it alone;
        else None.
    - `measured`: strengths, delays and drift ([`Measured`][ndde_jax.select.Measured]), from
        strategies that measure edges to choose them; else None, and
        [`discover`][ndde_jax.discover] measures the graph in closed form.
    """

    graph: Graph
    scores: Scores
    risk: Float[Array, "target"]
    price: Float[Array, "target"]
    status: Status
    details: Any
    model: AbstractDelayModel | None = None
    measured: Measured | None = None

    def measure(self, screened: Screened, price: AbstractPrice) -> Measured:
        """Return the measure of the graph: the strategy's own, or one in closed form."""
        if self.measured is not None:
            return self.measured
        found = measure_graph(screened, self.graph, price)
        return found if self.model is None else found.with_model(self.model)


class AbstractStrategy(eqx.Module):
    """A way to find a graph; a value that owns its settings.

    A new one implements `search` and, because [`recover`][ndde_jax.recover] may be under `vmap`,
    does so in JAX. [`discover`][ndde_jax.discover] measures what it finds, estimates its delays,
    and reports on it, as for any strategy; the other methods are for strategies that can do more.
    """

    @abc.abstractmethod
    def search(self, windows: Windows, price: AbstractPrice | None, key: PRNGKeyArray) -> Recovery:
        """Return the graph of one system; `price` is None where none was given."""

    @property
    def fits_networks(self) -> bool:
        """Whether the search may fit networks, so that it depends on its key; a drift of present
        states alone may then be a network, too.
        """
        return True

    def without_networks(self) -> "AbstractStrategy":
        """Return the strategy for records in which variables stand in for one another, as where
        events pass through, and networks would tell them apart by accident; by default itself.
        """
        return self

    def on(self, screened: Screened) -> "AbstractStrategy":
        """Return the strategy for windows whose samples are known, which may tell more than
        windows do: errors of measurement, delays between the candidate lags. By default itself,
        which sees windows alone.
        """
        return self

    @property
    def averages_out_errors(self) -> bool:
        """Whether lags that only average out errors of measurement are left out, of windows whose
        samples are known; reports say so.
        """
        return False

    @property
    def reads_sums(self) -> bool:
        """Whether sums over windows are enough, as where a record does not fit into memory."""
        return False

    def remarks(self, screened: Screened, price: AbstractPrice) -> tuple[str, ...]:
        """Return what a report says of how windows whose samples are known are searched, by default
        nothing.
        """
        return ()

    def described(self, judged: str) -> str:
        """Return a sentence for a report; `judged` names the targets that networks describe."""
        return f"Graph found by {type(self).__name__.lower()}."


def recovery(
    windows: Windows, graph, scores, risk, price, details, status=None, **more
) -> Recovery:
    """Return the result with the status that its numbers imply."""
    refused = FlatData(windows).refused
    xp = namespace_of((refused, risk))
    failed = ~xp.all(xp.isfinite(xp.asarray(risk))) & ~xp.asarray(refused)
    status = Status.converged if status is None else status
    status = Status.where(to_jax(failed), Status.diverged, status)
    status = Status.where(refused, Status.refused, status)
    price = to_jax(xp.broadcast_to(xp.asarray(price), np.shape(risk)))
    return Recovery(graph, scores, risk, price, status, details, **more)
