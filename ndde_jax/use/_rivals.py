"""Forecasts that anybody should beat, and those of others: `[path origin step dim]`."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

# Of PySINDy: polynomials of degree 3 up to so many inputs, of degree 2 up to so many, then linear.
CUBIC, QUADRATIC = 12, 40
# Deviations of the record, beyond which polynomials are held: an iterated one may explode.
HELD = 20.0
Paths = Float[np.ndarray, "path origin step dim"]


def persistence(record, lags, past, steps, paths, rng) -> Paths:
    """Steps of the record, summed up from the present."""
    change = np.concatenate([np.diff(v, axis=0) for v in record])
    change = change[np.isfinite(change).all(axis=1)]
    change = change - change.mean(axis=0)
    drawn = change[rng.integers(len(change), size=(paths, len(past), steps))]
    return past[None, :, -1:] + np.cumsum(drawn, axis=2)


def climatology(record, lags, past, steps, paths, rng) -> Paths:
    """Values of the record."""
    values = np.concatenate(record)
    values = values[np.isfinite(values).all(axis=1)]
    return values[rng.integers(len(values), size=(paths, len(past), steps))]


def autoregression(record, lags, past, steps, paths, rng) -> Paths:
    """Least squares of increments on all lags, iterated, with Gaussian noise."""
    inputs, change = _lagged(record, lags)
    flat = lambda h: np.concatenate([h, np.ones((*h.shape[:-1], 1))], -1)  # noqa: E731
    weights, *_ = np.linalg.lstsq(flat(inputs), change, rcond=None)
    left = change - flat(inputs) @ weights
    factor = _factor(left, inputs.shape[1] + 1)
    # An unstable autoregression must not overflow.
    return _iterated(
        lambda h: flat(h) @ weights, factor, lags, past, steps, paths, rng, (-1e100, 1e100)
    )


def sparse_regression(record, lags, past, steps, paths, rng) -> Paths:
    """PySINDy's increments on polynomials of all lags, iterated. It has no noise: Gaussian noise of
    its residuals is added, and states are held within twenty deviations of the record.

    **Raises:** `ImportError` without PySINDy.
    """
    try:
        import pysindy
    except ImportError as error:
        raise ImportError(
            'a backtest beside PySINDy needs it: pip install "ndde_jax[peers]".'
        ) from error
    inputs, change = _lagged(record, lags)
    dim, n_inputs = change.shape[1], inputs.shape[1]
    degree = 3 if n_inputs <= CUBIC else 2 if n_inputs <= QUADRATIC else 1
    library = pysindy.PolynomialLibrary(degree=degree)
    model = pysindy.SINDy(feature_library=library)
    middle, spread = inputs.mean(axis=0), _positive(inputs.std(axis=0))
    mean, size = change.mean(axis=0), _positive(change.std(axis=0))
    z = (inputs - middle) / spread
    # It wants as many states as rates; what is delayed enters as control.
    given = dict(u=z[:, dim:]) if n_inputs > dim else {}
    model.fit(z[:, :dim], t=1.0, x_dot=(change - mean) / size, **given)
    weights, powers = np.asarray(model.coefficients()), np.asarray(library.powers_)
    used = (weights != 0).any(axis=0)
    weights, powers = weights[:, used], powers[used]

    def step(h):
        z = (h - middle) / spread
        out = np.zeros((*h.shape[:-1], dim))
        for weight, power in zip(weights.T, powers, strict=True):
            term = np.ones(h.shape[:-1])
            for k in np.flatnonzero(power):
                term = term * z[..., k] ** power[k]
            out += term[..., None] * weight
        return mean + size * out

    factor = _factor(change - step(inputs), int(used.sum()))
    values = np.concatenate(record)
    center, wide = np.nanmean(values, axis=0), HELD * np.nanstd(values, axis=0)
    held = (center - wide, center + wide)
    return _iterated(step, factor, lags, past, steps, paths, rng, held)


RIVALS: dict[str, Callable[..., Paths]] = {
    "persistence": persistence,
    "climatology": climatology,
    "VAR": autoregression,
    "PySINDy": sparse_regression,
}


def _lagged(record, lags):
    """Inputs at all lags, `[row input]`, newest first, and increments, of complete rows."""
    lags = np.asarray(lags)
    inputs, outputs = [], []
    for values in record:
        k = np.arange(lags[-1], len(values) - 1)
        inputs.append(values[k[:, None] - lags[None]].reshape(len(k), -1))
        outputs.append(values[k + 1] - values[k])
    design, change = np.concatenate(inputs), np.concatenate(outputs)
    usable = np.isfinite(design).all(axis=1) & np.isfinite(change).all(axis=1)
    return design[usable], change[usable]


def _factor(left, n_fitted: int):
    """A square root of the covariance of what is left."""
    covariance = left.T @ left / max(len(left) - n_fitted, 1)
    values, vectors = np.linalg.eigh(covariance)
    return vectors * np.sqrt(np.maximum(values, 0))


def _iterated(step, factor, lags, past, steps, paths, rng, held):
    lags = np.asarray(lags)
    buffer = np.broadcast_to(past[None], (paths, *past.shape)).copy()
    out = []
    for _ in range(steps):
        now = buffer[:, :, -1]
        history = buffer[:, :, buffer.shape[2] - 1 - lags]
        kick = rng.normal(size=now.shape) @ factor.T
        new = now + step(history.reshape(*history.shape[:2], -1)) + kick
        new = np.clip(new, *held)
        buffer = np.concatenate([buffer[:, :, 1:], new[:, :, None]], axis=2)
        out.append(new)
    return np.stack(out, axis=2)


def _positive(a):
    return np.where(a > 0, a, 1.0)
