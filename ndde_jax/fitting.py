"""The parts of [`fit`][ndde_jax.fit] and [`fit_drift`][ndde_jax.fit_drift], to be combined in other
ways.
"""

from .fit._flow import Flow as Flow, fit_flow as fit_flow
from .fit._refit import StrengthConfig as StrengthConfig, fit_graph as fit_graph
from .fit.penalties import AbstractMethod as AbstractMethod
