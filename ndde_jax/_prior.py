"""What is known before any fit: edges that cannot exist, and edges that must."""

from collections.abc import Iterable, Sequence
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Bool

from ._trajectories import read_lags
from ._types import Graph, to_jax


class PriorKnowledge(eqx.Module):
    """Edges that are allowed and edges that are required, the same for every method.

    Made by [`prior_knowledge`][ndde_jax.prior_knowledge]; both are leaves, so a batch of priors is
    a `vmap` axis. Windows carry it, and whatever fits them obeys: an edge that is not allowed is
    never open and scores 0, one that is required is always open, scores 1 and pays no penalty.

    - `allowed`: candidate edges, `[source target lag]`.
    - `required`: edges of every graph, `[source target lag]`; also allowed.
    """

    allowed: Graph
    required: Graph

    @classmethod
    def nothing(cls, dim: int, n_lags: int) -> "PriorKnowledge":
        """Every edge is a candidate and none is required."""
        shape = (dim, dim, n_lags)
        return cls(to_jax(np.ones(shape, bool)), to_jax(np.zeros(shape, bool)))

    @property
    def undecided(self) -> Graph:
        """Edges that the data decide, `[source target lag]`."""
        return self.allowed & ~self.required

    def apply(self, graph: Bool[Array, "*batch source target lag"]) -> Bool[Array, "..."]:
        """The graph with what is not allowed removed and what is required added."""
        lead = (1,) * (graph.ndim - self.allowed.ndim)
        allowed = self.allowed.reshape(lead + self.allowed.shape)
        return (graph & allowed) | self.required.reshape(allowed.shape)


def prior_knowledge(
    names: int | Sequence[str],
    *,
    lags: Iterable = (0,),
    forbidden: Iterable = (),
    required: Iterable = (),
    exogenous: Iterable = (),
    self_edges: bool = True,
) -> PriorKnowledge:
    """Say what is known about a system before its data are seen.

    **Arguments:**

    - `names`: of the variables, or their number. Edges name variables by these or by index.
    - `lags`: candidate lags, the same as those of the windows, in samples.
    - `forbidden`: edges that do not exist: (source, target) at all lags, (source, target, lag) at
        one.
    - `required`: edges that exist: (source, target, lag), or (source, target) if there is one lag
        only; at which of several lags must be said, since all of them would rarely be meant.
    - `exogenous`: variables that drive but are driven by nothing except themselves, such as the
        season or a stimulus.
    - `self_edges`: False forbids that a variable's rate depends on its own state, at any lag.

    **Returns:** [`PriorKnowledge`][ndde_jax.PriorKnowledge], for the argument `prior` of
    [`lagged_windows`][ndde_jax.lagged_windows] and [`discover`][ndde_jax.discover].

    **Raises:** `ValueError` for unknown names or lags, and for edges that are both required and
    forbidden.

    ```python
    import ndde_jax as ndde

    prior = ndde.prior_knowledge(
        ("sun", "ocean", "wind"),
        lags=(0, 6),
        exogenous=("sun",),
        forbidden=[("sun", "wind")],
        required=[("wind", "ocean", 0)],
    )
    print(prior.allowed[:, :, 0])
    ```
    """
    names = tuple(str(i) for i in range(names)) if isinstance(names, int) else tuple(names)
    lags = read_lags(lags)
    dim = len(names)
    allowed = np.ones((dim, dim, len(lags)), bool)
    must = np.zeros_like(allowed)
    if not self_edges:
        allowed[np.arange(dim), np.arange(dim)] = False
    for variable in exogenous:
        j = _index(variable, names)
        allowed[np.arange(dim) != j, j] = False
    for edge in forbidden:
        allowed[_edge(edge, names, lags)] = False
    for edge in required:
        if len(edge) == 2 and len(lags) > 1:
            raise ValueError(
                f"required edge {edge}: say at which lag, (source, target, lag); the candidates "
                f"are {lags}."
            )
        must[_edge(edge, names, lags)] = True
    clash = np.argwhere(must & ~allowed)
    if len(clash):
        i, j, a = clash[0]
        raise ValueError(
            f"the edge {names[i]} -> {names[j]} at lag {lags[a]} is both required and forbidden."
        )
    return PriorKnowledge(to_jax(allowed), to_jax(must))


def read_prior(prior: PriorKnowledge | None, dim: int, n_lags: int) -> PriorKnowledge:
    """The prior, of the right shape; none means that nothing is known."""
    if prior is None:
        return PriorKnowledge.nothing(dim, n_lags)
    if prior.allowed.shape != (dim, dim, n_lags):
        raise ValueError(
            f"the prior has shape {prior.allowed.shape}, but the data have [source target lag] = "
            f"{(dim, dim, n_lags)}; make it with the same variables and lags."
        )
    return prior


def _index(variable: Any, names: tuple[str, ...]) -> int:
    if isinstance(variable, str):
        if variable in names:
            return names.index(variable)
    elif 0 <= int(variable) < len(names):
        return int(variable)
    raise ValueError(f"there is no variable {variable!r}; the variables are {', '.join(names)}.")


def _edge(edge: Any, names: tuple[str, ...], lags: tuple[int, ...]) -> tuple:
    if isinstance(edge, str) or len(edge) not in (2, 3):
        raise ValueError(f"an edge is (source, target) or (source, target, lag); got {edge!r}.")
    source, target = (_index(variable, names) for variable in edge[:2])
    if len(edge) == 2:
        return source, target
    if edge[2] not in lags:
        raise ValueError(f"edge {edge}: lag {edge[2]} is no candidate; candidates are {lags}.")
    return source, target, lags.index(edge[2])
