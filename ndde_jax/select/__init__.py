"""The strategies that find graphs, and their prices, for [`recover`][ndde_jax.recover].

A strategy and a price are values. Strategies:

- `Default`: closed forms, and networks where these explain more; the default of `recover` and
    `discover`.
- `Gates`: hard-concrete gates, another penalty or given graphs, improved edge by edge; for few
    candidates.
- `Splines`: closed forms, milliseconds.
- `Moves`: splines first, then networks judge edges added, dropped and exchanged; for many lags.
- `Exhaustive`: all subsets, for at most twelve candidates.
- `CoefficientPath`: a grid of coefficients, one of which held-out blocks choose.

Prices: `EBIC`, the default, needs no coefficient; `PerInput(λ)` is the paper's.

What the strategies are made of can be called by itself: `spline_graph`, `search_lags`,
`exact_graph`, `coefficient_path`; and `midpoint_windows`, whose histories a model completes.
"""

from ..fit._prices import EBIC as EBIC, AbstractPrice as AbstractPrice, PerInput as PerInput
from ._default import Default as Default
from ._measured import Measured as Measured, fit_splines as fit_splines
from ._midpoint import midpoint_windows as midpoint_windows
from ._splines import SplineGraph as SplineGraph, spline_graph as spline_graph
from ._strategies import (
    AbstractStrategy as AbstractStrategy,
    CoefficientPath as CoefficientPath,
    ExactGraph as ExactGraph,
    Exhaustive as Exhaustive,
    Gates as Gates,
    LagSearch as LagSearch,
    Moves as Moves,
    Recovery as Recovery,
    Splines as Splines,
    SweptGraphs as SweptGraphs,
    coefficient_path as coefficient_path,
    exact_graph as exact_graph,
    search_lags as search_lags,
)
