"""A certificate that flipping no single edge would pay."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from .._checks import refusal
from .._types import Checked
from ..fit._prices import as_price
from ..select._measured import SignalStrengths


class OneFlip(eqx.Module):
    """The local optimality of a graph in the L0 objective: no single edge is worth flipping.

    - `optimal`: whether no flip pays, per target.
    - `margin`: by how much flipping an edge would raise the objective, `[source target lag]`; a
        negative one says that flipping it pays. Infinite for edges that the prior decides.
    - `price`: price of an edge, `[target]`.
    """

    optimal: Bool[Array, "target"]
    margin: Float[Array, "source target lag"]
    price: Float[Array, "target"]


def one_flip_certificate(
    strengths: Checked[SignalStrengths], coefficient: Checked[float | None] = None
) -> OneFlip:
    """Certify the graph that strengths were measured on.

    Every single addition and removal has been refitted for the strengths; this compares them with
    the price of an edge. Relative to the refits, as [`exact_graph`][ndde_jax.select.exact_graph]
    is.

    **Arguments:**

    - `strengths`: from [`signal_strengths`][ndde_jax.signal_strengths].
    - `coefficient`: λ, an edge costs λ/F; by default the price of
        [`SignalStrengths.kept`][ndde_jax.measure.SignalStrengths.kept].

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    t = np.arange(300) * 0.1
    windows = ndde.lagged_windows(np.stack([np.sin(t), np.cos(t)], 1), dt=0.1, scheme="central4")
    strengths = ndde.signal_strengths(windows, key=jax.random.key(0))
    print(ndde.measure.one_flip_certificate(strengths).optimal)
    ```
    """
    if not isinstance(strengths, SignalStrengths):
        raise refusal("strengths", "what signal_strengths returns", strengths)
    price = strengths.price(as_price(coefficient, "coefficient"))
    gain = strengths.value - price[None, :, None]
    margin = jnp.where(strengths.graph, gain, -gain)
    margin = jnp.where(strengths.prior.undecided, margin, jnp.inf)
    return OneFlip(jnp.all(margin >= 0, axis=(0, 2)), margin, price)
