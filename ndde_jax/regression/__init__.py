"""The regressions on features of lagged states, as functions of sums over windows.

[`sums_of`][ndde_jax.regression.sums_of] makes sums that add up over blocks, recordings and
machines; a [`Problem`][ndde_jax.regression.Problem] has inner products of orthonormal groups of
features of them; and [`search`][ndde_jax.regression.search] finds the groups that are worth their
price, under `jit` and `vmap` too. On these rests [`find_terms`][ndde_jax.regression.find_terms]:
which inputs a rate follows, straight or bent, and which products of two.
[`compare_readings`][ndde_jax.regression.compare_readings] decides by them whether samples are of a
map or of a flow. Nothing is checked here: these are the inside of [`discover`][ndde_jax.discover].
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
from ._terms import Fit as Fit, Terms as Terms, find_terms as find_terms, fit_terms as fit_terms
