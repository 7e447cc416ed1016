"""Uses of a discovery: effects, forecasts, interventions, and their uncertainty.

A [`Discovery`][ndde_jax.Discovery] has them as methods: `found.effects()`, `found.forecast(...)`,
`found.intervene(...)`, `found.backtest(...)`, `found.influence(...)`, `found.impute(...)`,
`found.validate(...)` and `found.resample(...)`. Their results are defined here.
"""

from ._backtest import Backtest as Backtest
from ._effects import (
    Effects as Effects,
    Interactions as Interactions,
    Surface as Surface,
    Total as Total,
)
from ._ensemble import Ensemble as Ensemble, Noise as Noise
from ._evidence import Influence as Influence, Validation as Validation
from ._forecast import Forecast as Forecast
from ._impute import Imputed as Imputed
from ._intervene import Intervention as Intervention
