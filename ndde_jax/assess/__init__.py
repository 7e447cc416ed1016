"""Facts about a graph: error rates of its edges, and relations of pairs that no arrow describes.

A [`Discovery`][ndde_jax.Discovery] has them as attributes: `found.p_values`, `found.q_values`,
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
