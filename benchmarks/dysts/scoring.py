"""The benchmark's metrics of one system, most of them the library's."""

import jax
import numpy as np
from jaxtyping import Bool, Float
from scipy import signal

from ndde_jax import kaplan_yorke_dimension, metrics

from .data import Problem

# Name, digits in the table, and whether more is better.
METRICS = {
    "nrmse": ("NRMSE", 2, False),
    "vlpt": ("VLPT", 2, True),
    "flee": ("FLEE", 4, False),
    "dky": ("D_KY", 4, False),
    "lsd": ("LSD", 2, False),
    "dstsp": ("D_stsp", 2, False),
    "shd": ("SHD/D²", 3, False),
}
# A further column without a rank: LSD in the paper's words, a squared difference.
UNRANKED = {"lsd_squared": ("LSD²", 2)}
# Number of standard deviations beyond which a trajectory has left the attractor.
FAR = 20.0


def score(
    problem: Problem,
    trajectories: Float[np.ndarray, "test time dim"],
    spectra: Float[np.ndarray, "test dim"] | None,
    graph: Bool[np.ndarray, "source target"] | None,
    truth: Float[np.ndarray, "test dim"] | None,
) -> dict[str, float]:
    """Return means over the tests of every metric that can be computed, and NaN for the others.

    `truth` are the spectra of the true system along the tests. `escaped` is the share of tests that
    end far outside the attractor, `wide` D_stsp with components of unit variance.
    """
    full, long, stride = problem.tests, problem.long_tests, problem.stride
    with jax.enable_x64(True):
        predicted = np.asarray(metrics.bounded(np.asarray(trajectories, float)))
        start = predicted[:, : full.shape[1]]
        thin = predicted[:, ::stride][:, : long.shape[1]]
        time = dict(dt=problem.dt, lyapunov=problem.lyapunov)
        values = {
            "nrmse": metrics.nrmse(start, full.astype(float), **time),
            "vlpt": metrics.valid_prediction_time(start, full.astype(float), **time),
            "lsd": metrics.log_spectral_distance(start, full.astype(float)),
            "lsd_squared": squared_spectral_distance(start, full.astype(float)),
        }
    # Distances of a million pairs: single precision is ample for a Monte Carlo estimate.
    thin, long = thin.astype(np.float32), long.astype(np.float32)
    values["dstsp"] = metrics.state_space_divergence(thin, long)
    values["wide"] = metrics.state_space_divergence(thin, long, variance=1.0)
    values["escaped"] = np.abs(predicted[:, -1]).max(axis=-1) > FAR
    values["flee"] = values["dky"] = np.nan
    if spectra is not None and truth is not None:
        values["flee"] = (np.max(spectra, axis=-1) - np.max(truth, axis=-1)) ** 2
        values["dky"] = (kaplan_yorke_dimension(spectra) - kaplan_yorke_dimension(truth)) ** 2
    values["shd"] = np.nan
    if graph is not None:
        values["shd"] = metrics.structural_hamming_distance(graph, problem.graph, normalize=True)
    return {name: float(np.mean(np.asarray(value))) for name, value in values.items()}


def squared_spectral_distance(
    predicted: Float[np.ndarray, "*batch time dim"], truth: Float[np.ndarray, "*batch time dim"]
) -> Float[np.ndarray, "*batch"]:
    """Return the mean over variables and frequencies of (ln P − ln P̂)²: the paper's LSD, "the
    squared difference between the true and estimated log power spectral density".

    The paper specifies neither the logarithm nor the spectral estimator. Spectra are those of the
    library's `log_spectral_distance`, without a floor.
    """
    segment, tiny = min(2048, truth.shape[-2] // 4), np.finfo(float).tiny
    power, true_power = (
        np.maximum(signal.welch(x, nperseg=segment, axis=-2)[1][..., 1:, :], tiny)
        for x in (predicted, truth)
    )
    return np.mean((np.log(true_power) - np.log(power)) ** 2, axis=(-2, -1))
