"""Checks of a discovery: findings, the verdict and tests of residuals.

See [`data_findings`][ndde_jax.data_findings] and
[`identifiability_report`][ndde_jax.identifiability_report].
"""

# Rules register themselves.
from . import _line_rules as _line_rules, _refits as _refits
from ._conditioning import noise_covariance as noise_covariance, residual_memory as residual_memory
from ._finding import (
    RULES as RULES,
    Finding as Finding,
    Hit as Hit,
    Limits as Limits,
    Rule as Rule,
    rule as rule,
)
from ._graph_rules import GraphEvidence as GraphEvidence
from ._identifiability import IdentifiabilityReport as IdentifiabilityReport
from ._sample_rules import SampleEvidence as SampleEvidence
from ._verdict import Verdict as Verdict
