"""Regressions on features of lagged states, as functions of sums over windows.

[`sums_of`][ndde_jax.regression.sums_of] computes sufficient statistics that are additive over
blocks, recordings and machines. A [`Problem`][ndde_jax.regression.Problem] contains the inner
products of orthonormal groups of features, and [`search`][ndde_jax.regression.search] selects the
groups that are worth their price, also under `jit` and `vmap`. With these,
[`find_terms`][ndde_jax.regression.find_terms] finds the inputs of a rate, linear or as splines, and
the products of two inputs, and [`compare_readings`][ndde_jax.regression.compare_readings] decides
whether samples are of a map or of a flow. Arguments are not checked: these functions are internals
of [`discover`][ndde_jax.discover].
"""

from ._design import Design as Design, design_of as design_of
from ._missing import Normal as Normal, fit_normal as fit_normal
from ._readings import Readings as Readings, compare_readings as compare_readings
from ._search import (
    Problem as Problem,
    Selection as Selection,
    search as search,
    search_known as search_known,
)
from ._summed import Sums as Sums, sums_of as sums_of
from ._terms import (
    Fit as Fit,
    Own as Own,
    Terms as Terms,
    find_terms as find_terms,
    fit_terms as fit_terms,
)
