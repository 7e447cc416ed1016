"""The facts beside a graph: error rates of its edges, and pairs that no arrow describes.

A [`Discovery`][ndde_jax.Discovery] has all of it as attributes: `found.p_values`, `found.q_values`,
`found.confounded`, `found.at_once`, `found.residual_correlation` and `found.drifting`.
"""

from ._assess import (
    ErrorRates as ErrorRates,
    Relations as Relations,
    error_rates as error_rates,
    relations as relations,
)
from ._later import Later as Later
from ._rivals import Rivals as Rivals
