"""Simulation of stochastic delay equations, true or learned: paths, rollouts, and Diffrax terms.

See [`solve_sdde`][ndde_jax.solve_sdde] and [`lyapunov_spectrum`][ndde_jax.lyapunov_spectrum].
"""

from ._advance import Path as Path, PathStatus as PathStatus
from ._diffeqsolve import DelaySolver as DelaySolver, DelayTerm as DelayTerm
from ._kinks import kinks as kinks
from ._lyapunov import LyapunovSpectrum as LyapunovSpectrum
from ._solve import log_density as log_density, rollout as rollout
