"""Families of drifts, learned drifts, and their formulas and confinement.

The families for [`fit_drift`][ndde_jax.fit_drift] are `Networks`, `Polynomials`, and `Best`, the
better of the two for each variable.
"""

from ._confine import (
    Certificate as Certificate,
    RestoredDDE as RestoredDDE,
    damp as damp,
    drift_bound as drift_bound,
)
from ._families import (
    AbstractDrift as AbstractDrift,
    AbstractFamily as AbstractFamily,
    Best as Best,
    Networks as Networks,
    Polynomials as Polynomials,
)
from ._model import NeuralDDE as NeuralDDE
from ._networks import MaskedDrift as MaskedDrift
from ._polynomials import PolynomialDrift as PolynomialDrift
from ._splines import SplineDrift as SplineDrift
