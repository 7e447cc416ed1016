"""The paper's methods with the paper's settings, and readings of what it leaves open.

Settings are Euler rates, the present state alone (the paper names no lags for this benchmark, and
says that it has SDEs rather than SDDEs), the paper's zero rules, warm-up, patience and
coefficients. The paper leaves the unit of λ open: a *reading* is a method, the factor of its λ, and
for L0-NDDE the start of gates. Readings are methods of this benchmark, so its tables compare them
with the published rows.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from .outcomes import Method, Prediction, blind_to_constants
from .settings import Settings

# log_alpha before training.
STARTS: Mapping[str, float] = {"undecided": 0.0, "one": 1.0, "open": 2.0}
# Factor of the library's λ of `unit="mean"`, given dim (also the number of inputs), where the
# objective is the risk of a target + λ / inputs · gates of the target.
UNITS: Mapping[str, Callable[[int], float]] = {
    "sum": lambda dim: dim * dim,
    "target": lambda dim: dim,
    "mean": lambda dim: 1.0,
    "batch": lambda dim: dim / 128,
}
OBJECTIVES: Mapping[str, str] = {
    "sum": "mean_j risk_j + λ Σ_ij z_ij",
    "target": "Σ_j (risk_j + λ Σ_i z_ij)",
    "mean": "Σ_j (risk_j + λ mean_i z_ij)",
    "batch": "Σ_k Σ_j error² + λ Σ_ij z_ij",
}


def presets() -> dict[str, Method]:
    """The four methods of the paper's table, and a fifth with its coefficient for dysts, which the
    paper does not evaluate here; its NODE has no coefficient.
    """
    return {
        "l0ndde_paper": _row(lambda ndde: ndde.L0NDDE.paper()),
        "l0ndde_paper_no_gradient": _row(
            lambda ndde: ndde.L0NDDE.paper(0.01), gradient_penalty=None
        ),
        "agl_paper": _row(lambda ndde: ndde.AGL.paper()),
        "cnode_paper": _row(lambda ndde: ndde.CNODE.paper()),
        "node_paper": _row(lambda ndde: ndde.NODE.paper()),
        "pathreg_paper": _row(lambda ndde: ndde.PathReg.paper()),
    }


def readings() -> dict[str, Method]:
    """Return the readings of each method in each unit; for L0-NDDE, from each start."""
    found = {}
    for unit, scale in UNITS.items():
        for start, log_alpha in STARTS.items():
            found[f"unit_l0ndde_{unit}_{start}"] = _row(_l0ndde(scale, log_alpha))
        found[f"unit_agl_{unit}"] = _row(
            lambda ndde, dim, scale=scale: ndde.AGL(coefficient=5.0 * scale(dim))
        )
        found[f"unit_cnode_{unit}"] = _row(
            lambda ndde, dim, scale=scale: ndde.CNODE(
                coefficient=50.0 * scale(dim), variant="weights", threshold=1e-8
            )
        )
    # The weights of C-NODE as sigmoids, which the paper's words allow but its remark on their sizes
    # does not; and gates whose plateau is judged on means of 50 steps.
    found["unit_cnode_mean_sigmoids"] = _row(
        lambda ndde: ndde.CNODE(coefficient=50.0, threshold=1e-8)
    )
    found["unit_l0ndde_sum_open_smoothed"] = _row(
        _l0ndde(UNITS["sum"], STARTS["open"]),
        **{"epoch_steps": 50, "smoothing": 0.7, "improvement": 1e-3},
    )
    return found


def _l0ndde(scale: Callable[[int], float], log_alpha: float) -> Callable:
    return lambda ndde, dim: ndde.L0NDDE(
        coefficient=0.025 * scale(dim), path=(), rule="median", log_alpha=log_alpha
    )


def _row(make: Callable, **changes) -> Method:
    """A method of `make`, from the library and, if it needs it, the dimension. Training after the
    mask is frozen changes neither graph nor scores, and is omitted.
    """

    @blind_to_constants
    def adapter(series: Sequence[np.ndarray], dt: float, settings: Settings, *, key):
        import ndde_jax as ndde

        given = (ndde, series[0].shape[1])[: make.__code__.co_argcount]
        config = ndde.FitConfig.paper(**({"refine": "none"} | changes))
        windows = [ndde.lagged_windows(x, dt=dt, lags=(0,), scheme="euler") for x in series]
        fits = ndde.fit_many(make(*given), windows, config, key=key, progress=False, workers=1)
        return [
            Prediction(
                np.asarray(ndde.edge_scores(fit))[:, :, 0],
                np.asarray(ndde.window_graph(fit))[:, :, 0],
                fit.outcome,
            )
            for fit in fits
        ]

    return adapter
