"""The windows of each variable where values of others are missing."""

import equinox as eqx
from jaxtyping import Array, ArrayLike, Bool, Float, Int

from .._types import namespace_of, to_jax


class PartialWindows(eqx.Module):
    """The windows in which some variables are measured and others are not, row by row beside the
    complete ones of [`Windows`][ndde_jax.Windows].

    A missing value costs the variables that need it. A window counts for a target where its rate
    and the inputs that it is fitted on are measured. Other inputs that are missing there, which a
    search compares with those, are set to what is expected of them given all measured states of
    the window (multivariate normal, Little and Rubin, *Statistical Analysis with Missing Data*,
    2019, section 11.2), none of them later than the present: so no noise of the rate is in them,
    and every sum of products stays that of a real matrix, which is positive semidefinite.

    - `history`: standardised states, expected ones where they are not measured.
    - `increment`: standardised rates, 0 where they are not measured.
    - `known`, `rated`: which of these are measured.
    """

    history: Float[Array, "window lag dim"]
    increment: Float[Array, "window dim"]
    known: Bool[Array, "window lag dim"]
    rated: Bool[Array, "window dim"]

    def count(self, graph: Bool[ArrayLike, "source target lag"]) -> Int[Array, "target"]:
        """Return the number of windows that count for each target, given its inputs: those in which
        its rate and all of these are measured.
        """
        xp = namespace_of((self, graph))
        known, graph = xp.asarray(self.known), xp.asarray(graph)
        lost = xp.einsum(
            "wls,stl->wt", (~known).astype(xp.int32), graph.astype(xp.int32), optimize=True
        )
        return to_jax(xp.sum(xp.asarray(self.rated) & (lost == 0), axis=0))
