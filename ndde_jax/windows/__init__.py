"""Lagged windows, the training data of a drift: lags, stencils, thinning, prior knowledge.

Windows are made by [`lagged_windows`][ndde_jax.lagged_windows].
"""

from ._choose_lags import choose_lags as choose_lags
from ._prior import PriorKnowledge as PriorKnowledge
from ._windows import (
    PartialWindows as PartialWindows,
    Scaling as Scaling,
    thin_windows as thin_windows,
    unstack_windows as unstack_windows,
)
