"""A learned drift in physical units."""

import abc
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float

from .._checks import check_kind, check_real_array
from .._memory import padded_length
from .._types import Checked, Scaling, concretely, to_jax
from ._families import AbstractDrift


class AbstractDelayModel(eqx.Module):
    """A learned system: a physical history `[lag dim]` in, a physical drift `[dim]` out.

    Simulators, equation printers and the store use only this interface. `lags` are in samples,
    ascending. `dt` is the sampling interval of the data, the unit of `lags`. `scaling` and `mask`,
    `[target lag source]`, belong to the drift without restoring forces.
    """

    lags: eqx.AbstractVar[tuple[int, ...]]
    dt: eqx.AbstractVar[Float[Array, ""]]
    scaling: eqx.AbstractVar[Scaling]
    mask: eqx.AbstractVar[Bool[Array, "target lag source"]]

    @abc.abstractmethod
    def __call__(self, history: Checked[Float[ArrayLike, "lag dim"]]) -> Float[Array, "dim"]:
        """Return the drift for one history."""

    def vector_field(
        self, t: Any, y: Float[ArrayLike, "dim"], args: Any = None
    ) -> Float[Array, "dim"]:
        """Return the drift of a model without delays in the form of `diffrax.ODETerm`.

        **Raises:** `ValueError` if the model has delays; use `ndde_jax.simulate.DelayTerm(model,
        history=...)` then.
        """
        if self.lags != (0,):
            raise ValueError(
                f"a vector field has no delays, but the model has the lags {self.lags}; use "
                "ndde_jax.simulate.DelayTerm(model, history=...)."
            )
        return self(jnp.asarray(y)[None])

    @property
    def dim(self) -> int:
        """The number of variables."""
        return self.scaling.center.shape[-1]

    @property
    def delays(self) -> Float[Array, "lag"]:
        """The lags in units of time."""
        return self.dt * jnp.asarray(self.lags, self.dt.dtype)


class AbstractWrappedModel(AbstractDelayModel):
    """A model that wraps another, `model`, and has its lags, interval, scaling and mask."""

    model: eqx.AbstractVar[AbstractDelayModel]

    @property
    def lags(self) -> tuple[int, ...]:
        """The lags in samples."""
        return self.model.lags

    @property
    def dt(self) -> Float[Array, ""]:
        """The sampling interval."""
        return self.model.dt

    @property
    def scaling(self) -> Scaling:
        """The scaling of the wrapped model."""
        return self.model.scaling

    @property
    def mask(self) -> Bool[Array, "target lag source"]:
        """The inputs of the wrapped model."""
        return self.model.mask


class NeuralDDE(AbstractDelayModel):
    """A learned system: a drift in standardised units, its mask, and the scaling to physical units.

    As a callable it maps a physical history to the physical drift, so it can replace a true drift
    anywhere. Inputs that the mask closes have no influence.

    - `drift`: [`MaskedDrift`][ndde_jax.models.MaskedDrift],
        [`PolynomialDrift`][ndde_jax.models.PolynomialDrift],
        [`SplineDrift`][ndde_jax.models.SplineDrift], or another
        [`AbstractDrift`][ndde_jax.models.AbstractDrift], in standardised units.
    - `mask`: which inputs reach which target, `[target lag source]`.
    - `scaling`: means and standard deviations of states and rates.
    - `dt`: sampling interval of the data, the unit of `lags`.
    - `lags`: in samples, ascending.

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    t = np.arange(400) * 0.1
    windows = ndde.lagged_windows(np.stack([np.sin(t), np.cos(t)], 1), dt=0.1, scheme="central4")
    model = ndde.fit(ndde.L0NDDE(), windows, key=jax.random.key(0)).model
    print(model(np.array([[0.0, 1.0]])))  # about [1, 0]
    ```
    """

    drift: AbstractDrift
    mask: Bool[Array, "target lag source"]
    scaling: Scaling
    dt: Float[Array, ""]
    lags: tuple[int, ...] = eqx.field(static=True)

    def __call__(self, history: Checked[Float[ArrayLike, "lag dim"]]) -> Float[Array, "dim"]:
        """Return the drift, in physical units per unit of time, for one history `[lag dim]` in
        physical units.
        """
        check_real_array(history, "history", "[lag dim]")
        shape, dim = jnp.shape(history), self.dim
        if shape != (len(self.lags), dim):
            raise ValueError(
                f"history must be [lag dim] = {(len(self.lags), dim)}, a row for each of the lags "
                f"{self.lags}; got shape {shape}. For many histories use jax.vmap(model)."
            )
        return _physical(self.drift, self.mask, self.scaling, jnp.asarray(history))


# Compiled as one program when called alone, since each of its small steps would otherwise be one;
# inlined into the caller's program elsewhere.
@partial(jax.jit, inline=True)
def _physical(drift, mask, s: Scaling, history):
    z = (history - s.center[None]) / s.scale[None]
    return s.rate_center + s.rate_scale * drift(z, mask)


@concretely()
def model_rates(model: Any, histories: np.ndarray, dtype: Any) -> np.ndarray:
    """Return the rates of a model at physical histories `[row lag dim]`: `[row dim]`, NumPy."""
    rates = _all_rates(model, to_jax(padded_rows(histories), dtype))
    return np.array(rates, np.float64)[: len(histories)]


def padded_rows(rows: np.ndarray) -> np.ndarray:
    """Return the rows with the last one repeated up to one of a few lengths, since every new length
    is compiled.
    """
    spare = np.repeat(rows[-1:], padded_length(len(rows)) - len(rows), axis=0)
    return np.concatenate([rows, spare])


@eqx.filter_jit
def _all_rates(model, histories):
    return jax.vmap(model)(histories)


def check_model(model: Any) -> None:
    """Raise an error unless the argument is a learned system."""
    expected = "a fitted model, NeuralDDE or RestoredDDE"
    remedy = "For a discovery use found.model, for fit() result.model."
    check_kind(model, AbstractDelayModel, "model", expected, remedy)


def check_model_matches(windows: Any, model: Any) -> None:
    """Raise an error unless the argument is a learned system, or a function with `lags`, that
    matches the lags and variables of the windows.
    """
    if not (callable(model) and hasattr(model, "lags")):
        check_model(model)
    if isinstance(model, AbstractDelayModel) and model.dim != windows.dim:
        raise ValueError(
            f"model must have the {windows.dim} variables of the windows; it has {model.dim}."
        )
    if tuple(model.lags) != tuple(windows.lags):
        raise ValueError(
            f"model must have the lags of the windows, {windows.lags}; got {tuple(model.lags)}."
        )
