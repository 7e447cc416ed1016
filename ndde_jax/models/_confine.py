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

# Half-width of a box, in units of the largest distance of a state from its centre. A value of 1.1
# bent learned attractors that extend slightly beyond their data.
BOX_MARGIN = 2.0


class Certificate(eqx.Module):
    """The constants of a proof of dissipativity, with u = x − center, in physical units.

    For every history, ⟨u, G⟩ ≤ α − β₀ ‖u‖² (the paper's proposition "Confinement by construction").

    - `bound`: bound over all histories on ‖N‖ for a damped drift, on ‖N + K Π_R(u)‖ for a confined
        one.
    - `pull`: smallest rate κ of the restoring force.
    - `alpha`, `beta0`: bound² / (2 κ) and κ / 2.
    - `absorbing_radius`: bound / κ. Without noise, ‖u‖ decreases wherever it is larger, so every
        trajectory ends up in this ball.
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

    Created by [`confine`][ndde_jax.confine] and [`damp`][ndde_jax.models.damp]; can replace a
    [`NeuralDDE`][ndde_jax.models.NeuralDDE] anywhere. With `radius` zero the force acts everywhere.
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
        """Return the restoring force alone; it is exactly zero inside the box."""
        return _restoring(jnp.asarray(history), self.center, self.radius, self.rate)

    def certificate(self) -> Certificate:
        """Return the dissipativity that the restoring force guarantees."""
        return _certificate(drift_bound(self.model), self.radius, self.rate)


def drift_bound(model: Checked[NeuralDDE]) -> Float[Array, "dim"]:
    """Return a bound on |N_j| over all histories, in physical units: for networks from the weights
    of the output layer, for polynomials from their terms at the corners of the box.
    """
    check_model(model)
    if isinstance(model, RestoredDDE):
        raise ValueError("model must be a NeuralDDE, whose drift is bounded; got a RestoredDDE.")
    given = (*model.drift.output_range(), model.scaling)
    xp = namespace_of(given)
    middle, spread, own = jax.tree.map(xp.asarray, given)
    middle = own.rate_center + own.rate_scale * middle
    return to_jax(xp.abs(middle) + own.rate_scale * spread)


# Compiled as one program each when called alone, otherwise inlined into the caller's program.
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
    """Return the centre, by default the midrange of the states, and `BOX_MARGIN` times the largest
    distance of a state from it.
    """
    states, there = history * own.scale[None, None] + own.center[None, None], valid[:, None, None]
    low = xp.min(xp.where(there, states, xp.inf), axis=(0, 1))
    high = xp.max(xp.where(there, states, -xp.inf), axis=(0, 1))
    center = (low + high) / 2 if center is None else center
    reach = xp.maximum(high - center, center - low)
    # A variable that changes only at the very end is constant over all states.
    return center, BOX_MARGIN * xp.where(reach > 0, reach, own.scale)


def confine(
    model: Checked[NeuralDDE], *, radius=None, rate=None, center=None, windows: Checked[Any] = None
) -> RestoredDDE:
    """Confine a learned drift to a box after training: N(z) − K(u − Π_R(u)), u = x − center.

    Inside the box nothing changes; outside, each coordinate is pulled back at its own rate.

    **Arguments:**

    - `model`: must have lag 0, since the force acts on the present state.
    - `center`: centre of the box, `[dim]` or a number. The default with `windows` is the midrange
        of their states, so that a box for counts or discharge ends not far below zero; otherwise
        the mean of the training data.
    - `radius`: half-width of the box, `[dim]` or a number. The default with `windows` is twice the
        largest distance of their states from the centre; otherwise 5 standard deviations. States
        slightly beyond a record belong to the attractor, and a force there would bend it.
    - `rate`: K, per unit of time, `[dim]` or a number. The default is twice the bound on |N_j|
        divided by the half-width, so that half a half-width outside the box the force exceeds
        anything the network can do. Where N_j is zero, it is the rate of the fastest variable. With
        `windows` it is at most 1 / dt, because a steeper force overshoots within a step; the
        certificate is wider then. An explicit solver needs rate · dt below 2.
    - `windows`: [`Windows`][ndde_jax.Windows], the data that the default box covers, usually the
        training data.

    **Returns:** [`RestoredDDE`][ndde_jax.models.RestoredDDE], whose `certificate()` bounds the
    region it stays in.

    **Raises:** `ValueError` if lag 0 is missing, for wrong shapes, for non-finite values, and
    unless radius and rate are positive.

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
        # The windows' own scaling differs from the model's if the model was fitted to other data.
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
    # Any force exceeds a drift of zero, for example that of a variable that is set from outside and
    # ends where it began.
    most = xp.max(rate, initial=0.0)
    rate = xp.where(rate > 0, rate, xp.where(most > 0, most, 1.0))
    return rate if dt is None else xp.minimum(rate, 1 / dt)


def damp(model: Checked[NeuralDDE], *, rate, center=None) -> RestoredDDE:
    """Damp a learned drift everywhere: N(z) − K(x − center).

    Unlike [`confine`][ndde_jax.confine], this changes the drift; it is meant for residuals of a
    damped baseline. Arguments, return value and errors are the same, but `rate` has no default.

    Paper: "Dissipative architecture with bounded neural residual".
    """
    _check_present(model)
    center = _vector(model.scaling.center if center is None else center, model, "center")
    rate = _vector(rate, model, "rate", positive=True)
    return RestoredDDE(model, center, jnp.zeros_like(center), rate)


def _check_present(model: Any) -> None:
    check_model(model)
    if isinstance(model, RestoredDDE):
        raise ValueError("model must be a NeuralDDE; got a RestoredDDE, which is already confined.")
    if model.lags[0] != 0:
        raise ValueError(
            f"model must have lag 0, on which the restoring force acts; its lags are {model.lags}. "
            "Fit it with lag 0 among the candidate lags."
        )


def _vector(value, model: NeuralDDE, name: str, *, positive: bool = False) -> Float[Array, "dim"]:
    """Return one number per variable, in the precision of the model."""
    dim = model.dim
    check_real_array(value, name, f"one or {dim} of them")
    value = value if isinstance(value, jax.Array) else np.asarray(value)
    array = to_jax(value, model.scaling.center.dtype)
    if array.shape not in ((), (dim,)):
        raise ValueError(f"{name} must be a number or have shape ({dim},); got {array.shape}.")
    # In NumPy, because inside jit the result of any JAX operation is traced.
    if not is_traced(value):
        known = np.asarray(value, float)
        if not np.all(np.isfinite(known)):
            raise ValueError(f"{name} must be finite; got {known}.")
        if positive and not np.all(known > 0):
            raise ValueError(f"{name} must be positive; got {known}.")
    return jnp.broadcast_to(array, (dim,)) if array.shape == () else array
