"""The price of an edge: the reduction of risk that is required to keep it."""

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._checks import argument_error
from .._types import as_number, floating_type

# Strengths below this share of a rate's variance are within the error of difference quotients.
RESOLUTION = 1e-4


class AbstractPrice(eqx.Module):
    """The price of an input: the reduction of its target's risk that is required to keep it.

    A price is a function of the corrected risk of the target with its current inputs, the numbers
    of windows and candidate inputs, and the number of weights that an input adds.
    """

    @abc.abstractmethod
    def __call__(
        self, risk: Float[Array, "*batch"], n_windows: Any, n_inputs: Any, width: int
    ) -> Float[Array, "*batch"]:
        """Return the price, as a share of the variance of a target's rate."""


class EBIC(AbstractPrice):
    """The extended Bayesian information criterion, which needs no coefficient:

        10⁻⁴ + risk · width · (ln n − 2 + ln F) / n.

    It charges (ln n + ln F) / n of the risk for each of the `width` weights of an input chosen
    among F, of which the correction of the risk already charges 2/n. Differences below 10⁻⁴ of a
    rate's variance are within the error of difference quotients. The criterion is stricter with
    noise and more candidates, and laxer with more data.

    Chen and Chen, *Extended Bayesian information criteria for model selection with large model
    spaces*, Biometrika 95 (2008).

    ```python
    import ndde_jax as ndde

    print(ndde.select.EBIC()(0.1, 1000, 6, 8))  # 0.0055
    ```
    """

    def __call__(self, risk, n_windows, n_inputs: Any, width: int):
        """Return the criterion at this risk."""
        risk = jnp.asarray(risk, floating_type(risk))
        n = jnp.asarray(n_windows, risk.dtype)
        candidates = jnp.asarray(n_inputs, risk.dtype)
        share = width * jnp.maximum(jnp.log(n) - 2 + jnp.log(candidates), 0) / n
        return RESOLUTION + share * risk


class PerInput(AbstractPrice):
    """A price of λ / F at any risk, with F candidate inputs, as in [`L0NDDE`][ndde_jax.L0NDDE] and
    the paper's objective.

    ```python
    import ndde_jax as ndde

    print(ndde.select.PerInput(0.05)(0.1, 1000, 10, 8))  # 0.005
    ```
    """

    coefficient: Float[Array, ""] = eqx.field(converter=as_number("coefficient", above=0))

    def __call__(self, risk, n_windows, n_inputs: Any, width: int):
        """Return λ / F for every target."""
        dtype = floating_type(risk)
        share = self.coefficient.astype(dtype) / jnp.asarray(n_inputs, dtype)
        return jnp.broadcast_to(share, jnp.shape(risk))


def as_price(price: Any, name: str = "price") -> AbstractPrice:
    """Return a price; a number is the coefficient λ of a price per input, None is
    [`EBIC`][ndde_jax.select.EBIC].

    **Raises:** `ValueError` for anything else.
    """
    if price is None:
        return EBIC()
    if isinstance(price, AbstractPrice):
        return price
    if isinstance(price, type | str):
        remedy = "Mind the parentheses: EBIC()."
        raise argument_error(name, "a price such as ndde_jax.select.EBIC()", price, remedy)
    return PerInput(as_number(name, above=0)(price))
