"""Bounds on moments that follow from dissipativity: Halanay's rate, one-point and segment
bounds.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from .._checks import (
    check_number,
    check_positive,
    check_real_array,
    check_whole,
    is_traced,
    refusal,
)
from .._types import Checked, RealScalarLike
from ._dissipativity import Dissipativity

# Newton steps on a convex function from the side where they cannot overshoot; a dozen are enough.
NEWTON = 40
# Of the Burkholder–Davis–Gundy inequality at exponent 1: Mao, *Stochastic Differential Equations
# and Applications* (2007), theorem 1.7.3.
BDG = 32**0.5


def halanay_rate(decay: Checked[RealScalarLike], feedback: Any, delays: Any) -> Float[Array, ""]:
    """Return the rate γ at which m' ≤ −a m(t) + Σ k_a m(t − τ_a) decays: the root of γ + Σ k_a
    exp(γ τ_a) = a.

    Its left-hand side rises from Σ k_a at 0, so there is one positive root, below a, iff Σ k_a < a:
    Halanay's condition. With equality in the inequality and one delay, −γ is the rightmost root of
    the characteristic equation. Differentiable.

    **Arguments:**

    - `decay`: a.
    - `feedback`, `delays`: k_a ≥ 0 and τ_a, `[delay]`.

    **Raises:** `ValueError` if Σ k_a is not below a; NaN where that is not known, under `jit`.

    Halanay, *Differential Equations: Stability, Oscillations, Time Lags* (1966); the paper's
    equation "gamma-root".

    ```python
    from ndde_jax import theory

    print(theory.halanay_rate(2.0, [1.0], [1.0]))  # 0.443
    ```
    """
    check_positive(decay, "decay")
    check_real_array(feedback, "feedback", "one for each delay", finite=True, least=0)
    check_real_array(delays, "delays", "one time for each feedback", finite=True, least=0)
    feedback = jnp.atleast_1d(jnp.asarray(feedback, float))
    delays = jnp.atleast_1d(jnp.asarray(delays, float))
    if feedback.shape != delays.shape or feedback.ndim != 1:
        raise ValueError(
            f"feedback must have one entry for each of the delays, {delays.shape}; got "
            f"{feedback.shape}."
        )
    if not is_traced(decay, feedback) and not float(jnp.sum(feedback)) < float(decay):
        raise ValueError(
            f"decay must exceed the sum of feedback, {float(jnp.sum(feedback)):.4g}; got "
            f"{float(decay):.4g}: Halanay's condition fails, and nothing need decay."
        )
    return _rightmost(jnp.asarray(decay, float), feedback, delays)


@jax.jit
def _rightmost(decay: Array, feedback: Array, delays: Array) -> Array:
    def gap(rate, decay, feedback, delays):
        return rate + jnp.sum(feedback * jnp.exp(rate * delays)) - decay

    def slope(rate, feedback, delays):
        return 1 + jnp.sum(feedback * delays * jnp.exp(rate * delays))

    def root(decay, feedback, delays):
        # Where one term alone would reach a the sum has: from there Newton descends to the root.
        active = (feedback > 0) & (delays > 0)
        ratio = jnp.where(active, decay / jnp.where(active, feedback, 1), 1)
        alone = jnp.log(ratio) / jnp.where(active, delays, 1)
        start = jnp.min(jnp.where(active, alone, jnp.inf), initial=jnp.inf)
        start = jnp.minimum(start, decay)
        return jax.lax.fori_loop(
            0,
            NEWTON,
            lambda _, x: x - gap(x, decay, feedback, delays) / slope(x, feedback, delays),
            start,
        )

    fixed = jax.tree.map(jax.lax.stop_gradient, (decay, feedback, delays))
    found = jax.lax.stop_gradient(root(*fixed))
    # One more step, whose derivative is that of the implicit function.
    found = found - gap(found, decay, feedback, delays) / jax.lax.stop_gradient(
        slope(found, feedback, delays)
    )
    return jnp.where(jnp.sum(feedback) < decay, found, jnp.nan)


class Moments(eqx.Module):
    """The bound E ‖X(t) − c‖^{2p} ≤ start · exp(−γ_p t) + K_p, start = E sup ‖history − c‖^{2p}.

    - `order`: p, static.
    - `rate`: γ_p, the Halanay rate of `decay` a_p and `feedback` 2 b_a.
    - `level`: K_p, to which the bound falls and which bounds the moment of the invariant law.
    - `constant`: C_p, so that K_p = C_p / (a_p − 2B).
    - `decay`, `feedback`, `delays`: of the inequality.
    """

    rate: Float[Array, ""]
    level: Float[Array, ""]
    constant: Float[Array, ""]
    decay: Float[Array, ""]
    feedback: Float[Array, "delay"]
    delays: Float[Array, "delay"]
    order: int = eqx.field(static=True)

    def at(self, t: Checked[RealScalarLike], start: Checked[RealScalarLike]) -> Float[Array, ""]:
        """Return the bound at time t, from a history of that size."""
        check_number(t, "t", least=0)
        check_number(start, "start", least=0)
        return start * jnp.exp(-self.rate * t) + self.level  # type: ignore[return-value]


def moments(
    known: Checked[Dissipativity],
    sigma: Checked[Float[ArrayLike, "..."]],
    *,
    order: Checked[int] = 1,
    slack: Checked[RealScalarLike | None] = None,
) -> Moments:
    """Return bounds on the moments of X(t) that hold at all times (the paper's lemma "One-point
    moment bounds").

    **Arguments:**

    - `known`: constants for which `holds`.
    - `sigma`: Σ: a number, a diagonal `[dim]` or a matrix `[dim noise]`.
    - `order`: p; the moment is that of ‖X − c‖^{2p}.
    - `slack`: η_p in (0, 2p(β_0 − B)), for p above 1; by default (p − 1) / p of that, which makes
        K_p = (k_p / 2p(β_0 − B))^p with k_p = 2pA + p tr Q + 2p(p − 1)‖Σ‖² as small as it gets. A
        smaller one makes the rate larger.

    **Raises:** `ValueError` if B ≥ β_0, for a slack outside its range, or another shape of sigma.

    For p = 1 and no delays it is sharp: of an Ornstein–Uhlenbeck process it gives the variance.

    ```python
    from ndde_jax import theory

    known = theory.linear_dissipativity([[-2.0]], [[[0.5]]], delays=[1.0])
    print(theory.moments(known, 0.6).level)  # 0.12 = .36 / 2 (2 - .5)
    ```
    """
    order = _check(known, order)
    noise = _sigma(sigma, known.center.shape[0])
    largest = jnp.linalg.norm(noise, ord=2)
    size, margin = jnp.sum(noise**2), known.margin
    feedback = known.feedback
    raw = 2 * order * known.level + order * size + 2 * order * (order - 1) * largest**2
    if order == 1:
        if slack is not None:
            raise ValueError("slack must be left out for order 1, where there is nothing to trade.")
        spare, constant = jnp.zeros(()), raw
    else:
        room = 2 * order * margin
        if slack is None:
            spare = (order - 1) / order * room
        else:
            check_positive(slack, "slack")
            if not is_traced(slack, room) and not float(slack) < float(room):
                raise ValueError(f"slack must lie below 2p(β_0 − B) = {float(room):.4g}.")
            spare = jnp.asarray(slack, float)
        # The largest value of k y^{p−1} − η y^p, at y = k (p − 1) / (p η).
        top = raw * (order - 1) / (order * spare)
        constant = raw * top ** (order - 1) - spare * top**order
    decay = 2 * order * known.beta0 - 2 * (order - 1) * jnp.sum(feedback) - spare
    doubled = 2 * feedback
    rate = halanay_rate(decay, doubled, known.delays)
    level = constant / (decay - jnp.sum(doubled))
    return Moments(rate, level, constant, decay, doubled, known.delays, order)


class SegmentMoments(eqx.Module):
    """The bound E sup over a segment ‖X − c‖^{2p} ≤ prefactor · start · exp(−γ t) + level.

    - `prefactor`, `rate`, `level`: A, γ_p and B of the paper's lemma "Segment moment bounds". The
        level also bounds the moment of the segment under the invariant law, M_{2p}.
    - `unit`: bound on S_p, the supremum over the segments of one unit of time under that law, which
        [`truncation_radius`][ndde_jax.theory.truncation_radius] asks for.
    """

    prefactor: Float[Array, ""]
    rate: Float[Array, ""]
    level: Float[Array, ""]
    unit: Float[Array, ""]
    order: int = eqx.field(static=True)


def segment_moments(
    known: Checked[Dissipativity],
    sigma: Checked[Float[ArrayLike, "..."]],
    *,
    order: Checked[int] = 1,
    slack: Checked[RealScalarLike | None] = None,
    bdg: Checked[RealScalarLike] = BDG,
) -> SegmentMoments:
    """Return the bounds of [`moments`][ndde_jax.theory.moments], lifted from a time to a whole
    segment of the length of the largest delay.

    Λ = 2 + 4Bτ + C_N τ with C_N = (2p ‖Σ‖ C)², C the constant of the Burkholder–Davis–Gundy
    inequality; the prefactor is Λ exp(2γτ) + exp(γτ), the level Λ K_p + 2 C_p τ + C_N τ. Without
    delays a segment is a point. Some ten times what is seen: C alone is squared and is 5.7.

    **Arguments:** as of [`moments`][ndde_jax.theory.moments], and

    - `bdg`: C; √32 by default, with which the inequality is proved in Mao (2007), theorem 1.7.3.

    ```python
    from ndde_jax import theory

    known = theory.linear_dissipativity([[-2.0]], [[[0.5]]], delays=[1.0])
    print(theory.segment_moments(known, 0.6).level)  # 52.7
    ```
    """
    check_positive(bdg, "bdg")
    one = moments(known, sigma, order=order, slack=slack)
    largest = jnp.linalg.norm(_sigma(sigma, known.center.shape[0]), ord=2)
    martingale = (2 * order * largest * bdg) ** 2
    feedback = jnp.sum(known.feedback)

    def window(length):
        factor = 2 + (4 * feedback + martingale) * length
        return factor, factor * one.level + (2 * one.constant + martingale) * length

    if not len(known.delays):
        _, unit = window(1.0)
        return SegmentMoments(jnp.ones(()), one.rate, one.level, unit, one.order)
    delay = jnp.max(known.delays)
    factor, level = window(delay)
    prefactor = factor * jnp.exp(2 * one.rate * delay) + jnp.exp(one.rate * delay)
    # [−τ, 1] in windows of length τ; the stationary process has no beginning.
    unit = jnp.ceil((1 + delay) / delay) * level
    return SegmentMoments(prefactor, one.rate, level, unit, one.order)


def _check(known: Any, order: Any) -> int:
    if not isinstance(known, Dissipativity):
        raise refusal("known", "a Dissipativity, such as theory.dissipativity returns", known)
    check_whole(order, "order")
    if not is_traced(known) and not bool(known.holds):
        raise ValueError(
            f"known must satisfy B < β_0; here B = {float(jnp.sum(known.feedback)):.4g} and β_0 = "
            f"{float(known.beta0):.4g}, so no moment is bounded by it."
        )
    return int(order)


def _sigma(sigma: Any, dim: int) -> Float[Array, "dim noise"]:
    """Return Σ as a matrix: of a number, a diagonal or a matrix."""
    check_real_array(sigma, "sigma", f"a number, ({dim},) or ({dim}, noise)", finite=True)
    shape = np.shape(sigma)
    value = jnp.asarray(sigma, float)
    if shape in ((), (dim,)):
        return jnp.diag(jnp.broadcast_to(value, (dim,)))
    if len(shape) != 2 or shape[0] != dim:
        raise ValueError(
            f"sigma must be a number, a diagonal ({dim},) or a matrix ({dim}, noise); got {shape}."
        )
    return value
