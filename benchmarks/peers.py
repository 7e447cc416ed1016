"""The methods of other libraries in the form of the benchmarks; `pip install -e ".[peers]"`.

Their defaults are kept where they exist.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from .linear import standardise

# The default level of PCMCI+.
LEVEL = 0.01
# The code of a missing value in tigramite.
MISSING = 1e30


class TimeLaggedLinks(NamedTuple):
    """Links between levels, directed forward in time.

    - `scores`: absolute test values; `graph`: links kept.
    - `at_once`: pairs with a contemporaneous link, in either direction or without one.
    """

    scores: Float[np.ndarray, "source target lag"]
    graph: Bool[np.ndarray, "source target lag"]
    at_once: Bool[np.ndarray, "source target"]


def pcmci_plus(
    x: Float[np.ndarray, "time dim"], lags: Sequence[int]
) -> tuple[Float[np.ndarray, "source target lag"], Bool[np.ndarray, "source target lag"]]:
    """Return PCMCI+ (Runge 2020) with partial correlations, from tigramite: absolute partial
    correlations, and links.
    """
    found = time_lagged_links(x, lags)
    return found.scores, found.graph


def time_lagged_links(
    x: Float[np.ndarray, "time dim"],
    lags: Sequence[int],
    *,
    level: float = LEVEL,
    robust: bool = False,
    hidden: bool = False,
) -> TimeLaggedLinks:
    """Return PCMCI+ (Runge 2020) or, for records with `hidden` drivers, LPCMCI (Gerhardus and Runge
    2020, which tests all lags up to the longest), with partial correlations; if `robust`, of normal
    scores. Missing values are NaN.

    A drift with lag l moves the next sample, so its candidates are the links of lag l + 1; links of
    lag 0 are conditioned on and oriented.

    **Raises:** `ValueError` if tigramite is not installed.
    """
    try:
        from tigramite import data_processing
        from tigramite.independence_tests.parcorr import ParCorr
        from tigramite.independence_tests.robust_parcorr import RobustParCorr
        from tigramite.lpcmci import LPCMCI
        from tigramite.pcmci import PCMCI
    except ImportError as error:
        raise ValueError("PCMCI+ needs tigramite: install ndde_jax[peers].") from error

    data = data_processing.DataFrame(np.nan_to_num(x, nan=MISSING), missing_flag=MISSING)
    test, longest, at = RobustParCorr() if robust else ParCorr(), max(lags) + 1, np.add(lags, 1)
    if hidden:
        found = LPCMCI(data, cond_ind_test=test).run_lpcmci(tau_max=longest, pc_alpha=level)
    else:
        links = _delayed(x.shape[1], lags)
        found = PCMCI(data, cond_ind_test=test, verbosity=0).run_pcmciplus(
            link_assumptions=links, tau_min=0, tau_max=longest, pc_alpha=level
        )
    graph, values = found["graph"], np.abs(found["val_matrix"])
    return TimeLaggedLinks(values[..., at], graph[..., at] == "-->", graph[..., 0] != "")


def _delayed(dim: int, lags: Sequence[int]) -> dict:
    """Return the links that tigramite may test: these lags of all variables, and contemporaneous
    links between different variables.
    """
    delayed = {(i, -lag - 1): "-?>" for i in range(dim) for lag in lags}
    return {j: delayed | {(i, 0): "o?o" for i in range(dim) if i != j} for j in range(dim)}


def sparse_regression(
    x: Float[np.ndarray, "time dim"], dt: float, *, degree: int = 3
) -> tuple[Int[np.ndarray, "term dim"], Float[np.ndarray, "target term"]]:
    """Return SINDy (Brunton, Proctor, Kutz 2016) with polynomials, from PySINDy: exponents of the
    terms, and coefficients.
    """
    import pysindy

    library = pysindy.PolynomialLibrary(degree=degree)
    model = pysindy.SINDy(feature_library=library)
    model.fit(np.asarray(x, float), t=dt)
    return library.powers_, np.asarray(model.coefficients())


def lagged_sparse_regression(
    inputs: Float[np.ndarray, "window input"], rate: Float[np.ndarray, "window target"]
) -> tuple[Float[np.ndarray, "target input"], Bool[np.ndarray, "target input"]]:
    """Return SINDy of every rate on all lagged inputs, standardised, from PySINDy.

    Polynomials of degree 3 up to 12 inputs, of degree 2 up to 40, linear beyond, so that there are
    not more terms than samples. Returns the summed absolute coefficients of the terms with an
    input, and whether there are any.
    """
    import pysindy

    n_inputs, n_targets = inputs.shape[1], rate.shape[1]
    library = pysindy.PolynomialLibrary(degree=3 if n_inputs <= 12 else 2 if n_inputs <= 40 else 1)
    model = pysindy.SINDy(feature_library=library)
    inputs, rate = standardise(inputs), standardise(rate)
    # PySINDy needs as many states as rates; delayed inputs enter as controls.
    model.fit(inputs[:, :n_targets], t=1.0, x_dot=rate, u=inputs[:, n_targets:])
    sizes = np.abs(np.asarray(model.coefficients())) @ (library.powers_ > 0)
    return sizes, sizes > 0
