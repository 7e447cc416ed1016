"""Drifts of all kinds, at many histories at once."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._checks import check_real_array, check_windows, refusal
from .._types import floating_type, to_jax
from ..models._model import AbstractDelayModel
from ..systems._system import System


def check_drift(drift: Any, name: str = "drift") -> None:
    """Raise an error unless the drift is a learned model, a `System`, or a function of time, state,
    lagged states and `args`.
    """
    if isinstance(drift, type) or not (isinstance(drift, System) or callable(drift)):
        raise refusal(name, "a function drift(t, x, lagged, args), a System or a model", drift)


def check_present(model: AbstractDelayModel) -> None:
    """Raise an error unless lag 0 is among the lags of a model."""
    if model.lags[0] != 0:
        raise ValueError(f"drift must know the present state, lag 0; its lags are {model.lags}.")


def delays_of(drift: Any, delays: Any = None) -> np.ndarray:
    """Return τ_a in units of time: those of the drift, or those given."""
    own = None
    if isinstance(drift, AbstractDelayModel):
        check_present(drift)
        own = np.asarray(drift.delays, float)[1:]
    elif isinstance(drift, System):
        own = np.asarray(drift.lags, float)
    if own is not None:
        if delays is not None:
            raise ValueError("delays must be left out: the drift brings its own.")
        return own
    check_real_array(() if delays is None else delays, "delays", "times", finite=True)
    delays = np.atleast_1d(np.asarray(() if delays is None else delays, float))
    if delays.ndim != 1 or (delays <= 0).any() or (np.diff(delays) <= 0).any():
        raise ValueError(f"delays must be positive and ascending; got {delays}.")
    return delays


def read_histories(
    histories: Any, dim: int | None, n_delays: int
) -> Float[Array, "sample lag dim"]:
    """Return physical histories, the present first, also those of windows."""
    if type(histories).__name__ == "Windows":
        check_windows(histories, "dissipativity", "take one with unstack_windows")
        scaling = histories.scaling
        valid = np.asarray(histories.valid)
        values = np.asarray(histories.history)[valid]
        histories = values * np.asarray(scaling.scale) + np.asarray(scaling.center)
    shape = f"[sample lag dim] with {1 + n_delays} rows each, the present and the delays"
    check_real_array(histories, "histories", shape, finite=True)
    found = np.shape(histories)
    wrong = len(found) != 3 or found[0] == 0 or found[1] != 1 + n_delays or found[2] == 0
    if wrong or (dim is not None and found[2] != dim):
        of = "" if dim is None else f" and {dim} variables"
        raise ValueError(f"histories must be {shape}{of}; got shape {found}.")
    return to_jax(histories, floating_type(histories))


def drift_on(drift: Any, histories: Float[Array, "sample lag dim"]) -> Float[Array, "sample dim"]:
    """Return the drift at every history, at time 0."""
    if isinstance(drift, AbstractDelayModel):
        return jax.vmap(drift)(histories.astype(drift.scaling.center.dtype))
    field = drift.drift if isinstance(drift, System) else drift
    return jax.vmap(lambda z: jnp.asarray(field(0.0, z[0], z[1:], None)))(histories)
