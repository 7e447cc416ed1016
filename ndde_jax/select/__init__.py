"""How graphs are found: strategies and prices for [`recover`][ndde_jax.recover].

A strategy and a price are values. Strategies:

- `Gates`: hard-concrete gates (or another penalty), improved edge by edge; for few candidates.
- `Splines`: closed forms, milliseconds.
- `Moves`: splines first, then networks judge edges added, dropped and exchanged; for many lags.
- `Exhaustive`: all subsets, for at most twelve candidates.
- `CoefficientPath`: a grid of coefficients, one of which held-out blocks choose.

Prices: `EBIC`, the default, needs no coefficient; `PerInput(λ)` is the paper's.
"""

from ..fit._prices import EBIC as EBIC, AbstractPrice as AbstractPrice, PerInput as PerInput
from ._strategies import (
    CoefficientPath as CoefficientPath,
    Exhaustive as Exhaustive,
    Gates as Gates,
    Moves as Moves,
    Splines as Splines,
)
from ._strategy import AbstractStrategy as AbstractStrategy, Recovery as Recovery
