"""Other libraries' methods, in the terms of the benchmarks; `pip install -e ".[peers]"`.

Their defaults are kept where they have any.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

from .linear import standardise

# Of PCMCI+, its default.
LEVEL = 0.01


def pcmci_plus(
    x: Float[np.ndarray, "time dim"], lags: Sequence[int]
) -> tuple[Float[np.ndarray, "source target lag"], Bool[np.ndarray, "source target lag"]]:
    """PCMCI+ (Runge 2020) with partial correlations, from tigramite.

    A drift with lag l moves the next sample, so its candidates are the links of lag l + 1; those of
    lag 0 are conditioned on and oriented, and not reported. Returns absolute partial correlations,
    and the links directed forward in time.
    """
    from tigramite import data_processing
    from tigramite.independence_tests.parcorr import ParCorr
    from tigramite.pcmci import PCMCI

    dim = x.shape[1]
    delayed = {(i, -lag - 1): "-?>" for i in range(dim) for lag in lags}
    links = {j: delayed | {(i, 0): "o?o" for i in range(dim) if i != j} for j in range(dim)}
    method = PCMCI(data_processing.DataFrame(x), cond_ind_test=ParCorr(), verbosity=0)
    found = method.run_pcmciplus(
        link_assumptions=links, tau_min=0, tau_max=max(lags) + 1, pc_alpha=LEVEL
    )
    at = np.asarray(lags) + 1
    return np.abs(found["val_matrix"][..., at]), found["graph"][..., at] == "-->"


def sparse_regression(
    x: Float[np.ndarray, "time dim"], dt: float, *, degree: int = 3
) -> tuple[Int[np.ndarray, "term dim"], Float[np.ndarray, "target term"]]:
    """SINDy (Brunton, Proctor, Kutz 2016) with polynomials, from PySINDy: exponents of the terms,
    and coefficients.
    """
    import pysindy

    library = pysindy.PolynomialLibrary(degree=degree)
    model = pysindy.SINDy(feature_library=library)
    model.fit(np.asarray(x, float), t=dt)
    return library.powers_, np.asarray(model.coefficients())


def lagged_sparse_regression(
    inputs: Float[np.ndarray, "window input"], rate: Float[np.ndarray, "window target"]
) -> tuple[Float[np.ndarray, "target input"], Bool[np.ndarray, "target input"]]:
    """SINDy of every rate on all lagged inputs, standardised, from PySINDy.

    Polynomials of degree 3 up to 12 inputs, of degree 2 up to 40, linear beyond: more terms than
    samples help nobody. Returns the summed absolute coefficients of the terms that hold an input,
    and whether there are any.
    """
    import pysindy

    n_inputs, n_targets = inputs.shape[1], rate.shape[1]
    library = pysindy.PolynomialLibrary(degree=3 if n_inputs <= 12 else 2 if n_inputs <= 40 else 1)
    model = pysindy.SINDy(feature_library=library)
    inputs, rate = standardise(inputs), standardise(rate)
    # It wants as many states as rates; what is delayed enters as control.
    model.fit(inputs[:, :n_targets], t=1.0, x_dot=rate, u=inputs[:, n_targets:])
    sizes = np.abs(np.asarray(model.coefficients())) @ (library.powers_ > 0)
    return sizes, sizes > 0
