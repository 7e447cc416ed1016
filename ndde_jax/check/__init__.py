"""May these data be believed: findings, the verdict, and what residuals say.

See [`data_findings`][ndde_jax.data_findings] and
[`identifiability_report`][ndde_jax.identifiability_report].
"""

from ._conditioning import (
    noise_covariance as noise_covariance,
    residual_memory as residual_memory,
)
from ._finding import Finding as Finding
from ._identifiability import IdentifiabilityReport as IdentifiabilityReport
from ._verdict import Verdict as Verdict
