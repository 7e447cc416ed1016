"""Search strategies and prices for [`recover`][ndde_jax.recover].

A strategy and a price are values. The strategies are:

- `Default`: closed-form regressions, and networks where these explain more; the default of
    `recover` and `discover`.
- `Gates`: hard-concrete gates, another penalty or given graphs, improved edge by edge; for few
    candidates.
- `Splines`: spline regression in closed form; takes milliseconds.
- `Moves`: splines first, then networks judge edges added, dropped and exchanged; for many lags.
- `Exhaustive`: every subset of inputs, for at most twelve candidates.
- `CoefficientPath`: a grid of coefficients, one of which is chosen on held-out blocks.

The prices are `EBIC`, the default, which needs no coefficient, and `PerInput(λ)`, the paper's.

The building blocks can be called directly: `spline_graph`, `coefficient_path`, and
`midpoint_windows`, whose states a model makes more accurate.
"""

from ..fit._prices import EBIC as EBIC, AbstractPrice as AbstractPrice, PerInput as PerInput
from ._default import Default as Default
from ._measured import Measured as Measured, fit_splines as fit_splines
from ._midpoint import midpoint_windows as midpoint_windows
from ._splines import SplineGraph as SplineGraph, spline_graph as spline_graph
from ._strategies import (
    AbstractStrategy as AbstractStrategy,
    CoefficientPath as CoefficientPath,
    Exhaustive as Exhaustive,
    Gates as Gates,
    Moves as Moves,
    Recovery as Recovery,
    Splines as Splines,
    SweptGraphs as SweptGraphs,
    coefficient_path as coefficient_path,
)
