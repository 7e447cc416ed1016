"""Keeping a learned system on its attractor: damping, and confinement to a box.

A tanh network with an affine output is bounded, so outside the data nothing pulls a learned system
back. The paper ("Dissipativity and ergodicity of the learned system") adds a linear restoring
force, everywhere or outside a box, after which the learned SDDE has a unique invariant law.
"""

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from .._checks import check_real_array, check_windows, is_traced
from .._types import Checked, Scaling, namespace_of, on_host_or_traced, root, to_jax
from ._model import AbstractWrappedModel, NeuralDDE, check_model

# Half-width of a box, of the largest distance from its centre in the data. With a tenth to spare,
# learned attractors that reach a little beyond their data were bent.
SPARE = 2.0


class Certificate(eqx.Module):
    """A proof of dissipativity by its constants, u = x − center, in physical units.

    For every history, ⟨u, G⟩ ≤ α − β₀ ‖u‖² (the paper's proposition "Confinement by construction").

    - `bound`: on ‖N‖ over all histories for a damped drift, on ‖N + K Π_R(u)‖ for a confined one.
    - `pull`: smallest rate κ of the restoring force.
    - `alpha`, `beta0`: bound² / (2 κ) and κ / 2.
    - `absorbing_radius`: bound / κ. Without noise ‖u‖ falls wherever it is larger, so every
        trajectory ends up in that ball.
    """

    bound: Float[Array, ""]
    pull: Float[Array, ""]
    alpha: Float[Array, ""]
    beta0: Float[Array, ""]
    absorbing_radius: Float[Array, ""]

    def second_moment(self, sigma: Checked[Float[Array, "dim noise"]]) -> Float[Array, ""]:
        """Return a bound on E‖X − center‖² in the stationary state with diffusion Σ: (2α + tr
        ΣΣᵀ)/(2β₀), from Itô's formula for ‖u‖².
        """
        check_real_array(sigma, "sigma", "a matrix [dim noise]", finite=True)
        if jnp.ndim(sigma) != 2:
            raise ValueError(f"sigma must be a matrix [dim noise]; got shape {jnp.shape(sigma)}.")
        return (2 * self.alpha + jnp.sum(jnp.asarray(sigma) ** 2)) / (2 * self.beta0)


class RestoredDDE(AbstractWrappedModel):
    """A learned drift plus a linear restoring force −K(u − Π_R(u)) on the present state.

    Made by [`confine`][ndde_jax.confine] and [`damp`][ndde_jax.models.damp]; goes wherever a
    [`NeuralDDE`][ndde_jax.models.NeuralDDE] goes. With `radius` zero the force acts everywhere.
    """

    model: NeuralDDE
    center: Float[Array, "dim"]
    radius: Float[Array, "dim"]
    rate: Float[Array, "dim"]

    def __call__(self, history: Checked[Float[ArrayLike, "lag dim"]]) -> Float[Array, "dim"]:
        """Return the physical drift for one physical history, whose first row is the present
        state.
        """
        history = jnp.asarray(history)
        return self.model(history) + self.restoring(history)

    def restoring(self, history: Float[ArrayLike, "lag dim"]) -> Float[Array, "dim"]:
        """Return the restoring force alone; inside the box it is an exact zero."""
        return _restoring(jnp.asarray(history), self.center, self.radius, self.rate)

    def certificate(self) -> Certificate:
        """The dissipativity that the restoring force guarantees."""
        return _certificate(drift_bound(self.model), self.radius, self.rate)


def drift_bound(model: Checked[NeuralDDE]) -> Float[Array, "dim"]:
    """Return a bound on |N_j| over all histories, physical units: of a network from the weights of
    its output layer, of a polynomial from its terms at the corners of its box.
    """
    check_model(model)
    if isinstance(model, RestoredDDE):
        raise ValueError("model must be a NeuralDDE, whose drift is bounded; got a RestoredDDE.")
    given = (*model.drift.output_range(), model.scaling)
    xp = namespace_of(given)
    middle, spread, own = jax.tree.map(xp.asarray, given)
    middle = own.rate_center + own.rate_scale * middle
    return to_jax(xp.abs(middle) + own.rate_scale * spread)


# One program each where they are called by themselves; parts of the program around them otherwise.
@partial(jax.jit, inline=True)
def _restoring(history, center, radius, rate):
    u = history[0] - center
    return -rate * (u - jnp.clip(u, -radius, radius))


@partial(jax.jit, inline=True)
def _certificate(free, radius, rate):
    bound = jnp.linalg.norm(free) + root(jnp.sum((rate * radius) ** 2))
    pull = jnp.min(rate)
    return Certificate(bound, pull, bound**2 / (2 * pull), pull / 2, bound / pull)


@on_host_or_traced
def _box(xp, history, valid, own: Scaling, center):
    """Return the centre, by default the middle of the range of states, and `SPARE` times the
    largest distance of a state from it.
    """
    states, there = history * own.scale[None, None] + own.center[None, None], valid[:, None, None]
    low = xp.min(xp.where(there, states, xp.inf), axis=(0, 1))
    high = xp.max(xp.where(there, states, -xp.inf), axis=(0, 1))
    center = (low + high) / 2 if center is None else center
    reach = xp.maximum(high - center, center - low)
    # What moves at the very end alone is in one place in all states.
    return center, SPARE * xp.where(reach > 0, reach, own.scale)


def confine(
    model: Checked[NeuralDDE], *, radius=None, rate=None, center=None, windows: Checked[Any] = None
) -> RestoredDDE:
    """Confine a learned drift to a box after training: N(z) − K(u − Π_R(u)), u = x − center.

    Inside the box nothing changes; outside, each coordinate is pulled back at its own rate.

    **Arguments:**

    - `model`: with lag 0 among its lags, since the force acts on the present state.
    - `center`: of the box, `[dim]` or a number; by default, with `windows`, the middle of the range
        of their states, so that of counts or discharge the box ends not far below zero, otherwise
        the mean of the training data.
    - `radius`: half-width of the box, `[dim]` or a number; by default, with `windows`, whatever
        reaches twice as far as any of their states, otherwise 5 standard deviations. What lies a
        little beyond a record is part of the attractor, and a force there would bend it.
    - `rate`: K, per unit of time, `[dim]` or a number; by default twice the bound on |N_j| over the
        half-width, so that half a half-width outside the box the force outweighs anything the
        network can do, and that of the fastest variable where N_j is zero; with `windows` at most
        1 / dt, since what is steeper overshoots within a step, and the certificate is wider
        then. An explicit solver needs rate · dt below 2.
    - `windows`: [`Windows`][ndde_jax.Windows], the data that the default box covers, usually those
        of the training.

    **Returns:** [`RestoredDDE`][ndde_jax.models.RestoredDDE]; its `certificate()` bounds the region
    it stays in.

    **Raises:** `ValueError` if lag 0 is missing, for wrong shapes, for values that are not finite,
    and unless radius and rate are positive.

    Paper: "Post-training exterior confinement".

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    t = np.arange(500) * 0.1
    windows = ndde.lagged_windows(np.stack([np.sin(t), np.cos(t)], 1), dt=0.1, scheme="central4")
    model = ndde.fitting.fit_graph(windows, "full", key=jax.random.key(0))
    confined = ndde.confine(model, windows=windows)
    print(confined.certificate().absorbing_radius)
    ```
    """
    _check_present(model)
    if windows is not None:
        check_windows(windows, "confine", "take one with unstack_windows")
    scaling = model.scaling
    if radius is None and windows is not None:
        if windows.dim != model.dim:
            raise ValueError(
                f"windows must hold the {model.dim} variables of the model; got {windows.dim}."
            )
        # By their own scaling, which is not the model's where the model saw other data.
        center = None if center is None else _vector(center, model, "center")
        center, radius = _box(windows.history, windows.valid, windows.scaling, center)
    center = _vector(scaling.center if center is None else center, model, "center")
    radius = 5 * scaling.scale if radius is None else radius
    radius = _vector(radius, model, "radius", positive=True)
    if rate is None:
        rate = _default_rate(drift_bound(model), radius, None if windows is None else windows.dt)
    rate = _vector(rate, model, "rate", positive=True)
    return RestoredDDE(model, center, radius, rate)


@on_host_or_traced
def _default_rate(xp, bound, radius, dt):
    rate = 2 * bound / radius
    # Where a drift is zero, as of what is set from outside and ends where it began, any force
    # outweighs it.
    most = xp.max(rate, initial=0.0)
    rate = xp.where(rate > 0, rate, xp.where(most > 0, most, 1.0))
    return rate if dt is None else xp.minimum(rate, 1 / dt)


def damp(model: Checked[NeuralDDE], *, rate, center=None) -> RestoredDDE:
    """Damp a learned drift everywhere: N(z) − K(x − center).

    This changes the drift, unlike [`confine`][ndde_jax.confine]; it is for residuals of a damped
    baseline. Arguments, returns and errors as there; `rate` has no default.

    Paper: "Dissipative architecture with bounded neural residual".
    """
    _check_present(model)
    center = _vector(model.scaling.center if center is None else center, model, "center")
    rate = _vector(rate, model, "rate", positive=True)
    return RestoredDDE(model, center, jnp.zeros_like(center), rate)


def _check_present(model: Any) -> None:
    check_model(model)
    if isinstance(model, RestoredDDE):
        raise ValueError("model must be a NeuralDDE; got a RestoredDDE, which is confined already.")
    if model.lags[0] != 0:
        raise ValueError(
            f"the restoring force acts on the present state, but the lags of model are {model.lags}"
            "; fit with lag 0 among the candidate lags."
        )


def _vector(value, model: NeuralDDE, name: str, *, positive: bool = False) -> Float[Array, "dim"]:
    """Return a number, or one for each variable, in the precision of a model."""
    dim = model.dim
    check_real_array(value, name, f"one or {dim} of them")
    value = value if isinstance(value, jax.Array) else np.asarray(value)
    array = to_jax(value, model.scaling.center.dtype)
    if array.shape not in ((), (dim,)):
        raise ValueError(f"{name} must be a number or have shape ({dim},); got {array.shape}.")
    # In NumPy, because inside jit the result of any operation of JAX is traced.
    if not is_traced(value):
        known = np.asarray(value, float)
        if not np.all(np.isfinite(known)):
            raise ValueError(f"{name} must be finite; got {known}.")
        if positive and not np.all(known > 0):
            raise ValueError(f"{name} must be positive; got {known}.")
    return jnp.broadcast_to(array, (dim,)) if array.shape == () else array
