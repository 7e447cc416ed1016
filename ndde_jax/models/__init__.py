"""Families of drifts, and what a learned one can be asked.

Families for [`fit_drift`][ndde_jax.fit_drift]: `Networks`, `Polynomials`, and `Best`, the better of
the two for each variable.
"""

from ._families import (
    AbstractFamily as AbstractFamily,
    Best as Best,
    Networks as Networks,
    Polynomials as Polynomials,
)
