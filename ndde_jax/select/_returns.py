"""Records of innovations, such as stock returns: windows weighted by the inverse of the local
variance, and inputs that only correct other inputs for common factors.
"""

import numpy as np
from jaxtyping import Bool, Float

from .._axes import flat_inputs
from .._types import KnownMask, divisor
from ..regression._readings import local_variance
from ..regression._search import columns_price, log_choices
from ..regression._terms import FLOOR
from ..windows._windows import Windows
from ._screened import Screened
from ._target_fit import TargetFit

# The largest autocorrelation at one sample for which values do not persist, and the least share of
# a variable's variance that is innovation, both as medians. Persistent values are drivers and
# cannot be distinguished from factors; and there, residuals are large while a plant is excited,
# which are the most informative times.
MOST_PERSISTENCE, LEAST_INNOVATION = 0.3, 0.5
# Share of the variance of all residuals explained by one common factor, from which on inputs are
# tested for what they explain beyond common factors. Variables per factor: 25 portfolios of a
# market have three factors (Fama and French, 1993), which five contain.
COMMON, PER_FACTOR = 1 / 3, 5
VARIANCE_WEIGHTED = (
    "The values are mostly innovations, as stock returns are, and their variance changes. "
    "Windows are weighted by the inverse of the local variance, so that volatile times do not "
    "dominate all links."
)


def variance_weighted(screened: Screened) -> Screened:
    """Return windows weighted by the inverse of the local residual variance (Aitken, 1935), if
    values are innovations whose variance clearly changes; otherwise the same windows.

    In volatile times all variables move more. With equal weights, volatile times dominate all
    links, and chance explains more than the prices allow for.
    """
    if screened.readings is None or screened.data.refused or screened.data.partial is not None:
        return screened
    if _values_persist(screened.windows):
        return screened
    graph = flat_inputs(np.asarray(screened.found.graph))
    fits = [screened.fit(j, mask) for j, mask in enumerate(graph)]
    if not _mostly_innovation(screened.windows, _risks(fits)):
        return screened
    weight, used = screened.data.weight, screened.data.weight > 0
    variance = local_variance(
        np.stack([_leave_one_out_residuals(own)[used] for own in fits], axis=1)[None]
    )
    if variance is None:
        return screened
    inverse = weight.copy()
    inverse[used] /= variance
    inverse *= used.sum() / inverse.sum()
    return Screened(screened.windows, screened.steps, screened.readings, inverse_variance=inverse)


def correlation_of_neighbours(windows: Windows) -> Float[np.ndarray, " variable"]:
    """Return the autocorrelation of each variable at one sample, from windows whose rates are
    differences of neighbours.
    """
    return 1 - _spread_of_steps(windows) / 2


def _spread_of_steps(windows: Windows) -> Float[np.ndarray, " variable"]:
    """Return the variance of steps between samples relative to the variance of samples."""
    scale, rate_scale = (
        np.asarray(a, float) for a in (windows.scaling.scale, windows.scaling.rate_scale)
    )
    return (rate_scale * float(windows.dt) / divisor(scale)) ** 2


def _values_persist(windows: Windows) -> bool:
    """Return whether values persist from sample to sample."""
    return bool(np.median(correlation_of_neighbours(windows)) > MOST_PERSISTENCE)


def _mostly_innovation(windows: Windows, risk: Float[np.ndarray, " variable"]) -> bool:
    """Return whether most of the variance of the variables is innovation, from the unexplained
    shares of the variances of their rates.
    """
    return bool(np.median(_spread_of_steps(windows) * risk) >= LEAST_INNOVATION)


def _leave_one_out_residuals(own: TargetFit) -> Float[np.ndarray, " window"]:
    """Return the leave-one-out residual of each window, by its leverage."""
    columns = own.part.columns
    reach = np.einsum("wc,cd,wd->w", columns, own.part.inverse, columns)
    return own.part.residual / np.maximum(1 - reach, 1e-3)


def common_factors(
    windows: Windows, left: Float[np.ndarray, "variable row"], risk: Float[np.ndarray, " variable"]
) -> Float[np.ndarray, "variable factor"]:
    """Return the loadings of common factors of residuals, their principal components; none unless
    values are innovations and do not persist, like stock returns, and a large part is common.

    If the idiosyncratic innovation of one share moves a target, the past of every other share
    indicates how much of the first one's change was the market's, and so helps to predict the
    target, although it does not move it. More components than there are common factors do no harm.

    **Arguments:**

    - `left`: residuals of the rates.
    - `risk`: the unexplained share of the variance of each rate.
    """
    count, none = len(left) // PER_FACTOR, np.zeros((len(left), 0))
    if count == 0 or _values_persist(windows) or not _mostly_innovation(windows, risk):
        return none
    size = np.sqrt((left**2).sum(axis=1))
    left = left / np.where(size > 0, size, np.inf)[:, None]
    shares, factors = np.linalg.eigh(left @ left.T)
    if not shares[-1] >= COMMON * len(left):
        return none
    return factors[:, -min(count, int((shares > 1).sum())) :]


def proxies_among(windows: Windows, fits: list[TargetFit]) -> Bool[np.ndarray, "target input"]:
    """Return the inputs of all targets that only correct other inputs for common factors: inputs
    from other variables that explain nothing beyond [`common_factors`]
    [ndde_jax.select._returns.common_factors] at their lag (Bernanke, Boivin and Eliasz, 2005).
    """
    factors = common_factors(windows, np.stack([own.part.residual for own in fits]), _risks(fits))
    if not factors.size:
        return np.zeros((len(fits), len(fits[0].mask)), bool)
    return np.stack([_worthless_given_factors(own, factors) for own in fits])


def _risks(fits: list[TargetFit]) -> Float[np.ndarray, " variable"]:
    return np.array([float(own.part.risk) for own in fits])


def _worthless_given_factors(own: TargetFit, factors: Float[np.ndarray, "dim factor"]) -> KnownMask:
    """Return the inputs of a target from other variables that are not worth their price beyond the
    factors and the target itself at the same lags, by backward elimination.
    """
    dim, root, fit, gone = own.data.dim, own.root, own.part, np.zeros(len(own.mask), bool)
    open_ = own.mask & (np.arange(len(own.mask)) % dim != own.target)
    open_ &= ~own.data.required[own.target]
    past = own.design.inputs.reshape(len(root), -1, dim)[:, np.unique(np.flatnonzero(open_) // dim)]
    past = np.concatenate([past @ factors, past[:, :, own.target, None]], axis=2)
    past = past.reshape(len(root), -1)
    past, _ = np.linalg.qr(root[:, None] * (past - root**2 @ past / (root @ root)))
    columns, y = (a - past @ (past.T @ a) for a in (fit.columns, own.y))
    gram, along, total = columns.T @ columns, columns.T @ y, float(y @ y)

    def cost(without: KnownMask) -> float:
        on = ~(fit.reads & without[None]).any(axis=1)
        found = np.linalg.lstsq(gram[np.ix_(on, on)], along[on], rcond=1e-8)[0]
        left = max(total - float(found @ along[on]), 0)
        return own.n * np.log(left + FLOOR) + columns_price(own.n, float(on.sum()))

    choice = 2 * log_choices(len(gone), 1)
    while (places := np.flatnonzero(open_ & ~gone)).size:
        each = gone | np.eye(len(gone), dtype=bool)[places]
        costs = [cost(without) for without in each]
        if min(costs) > cost(gone) + choice:
            break
        gone = each[np.argmin(costs)]
    return gone
