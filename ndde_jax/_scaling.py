"""Standardised units, and the way back to physical ones."""

import equinox as eqx
from jaxtyping import Array, Float


class Scaling(eqx.Module):
    """The means and standard deviations that make states and rates of change dimensionless.

    A physical state x becomes (x − center) / scale, a physical rate of change r becomes
    (r − rate_center) / rate_scale; all per variable.
    """

    center: Float[Array, "dim"]
    scale: Float[Array, "dim"]
    rate_center: Float[Array, "dim"]
    rate_scale: Float[Array, "dim"]
