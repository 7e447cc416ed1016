"""Simulating stochastic delay equations, true or learned, and their Lyapunov spectra."""

from ._diffeqsolve import DelaySolver as DelaySolver, DelayTerm as DelayTerm
from ._noise import GridBrownianPath as GridBrownianPath
from ._rollout import rollout as rollout
from ._solve import Path as Path, PathStatus as PathStatus, solve_sdde as solve_sdde
