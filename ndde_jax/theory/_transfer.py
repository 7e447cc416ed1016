"""The error of the invariant law that follows from the error of a drift, bounded and measured."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from .._checks import (
    argument_error,
    check_concrete,
    check_key,
    check_non_negative,
    check_positive,
    check_real_array,
    check_whole,
    is_traced,
)
from .._types import Checked
from ..models._model import AbstractDelayModel
from ..simulate._solve import solve_sdde
from ..systems._system import System
from ._dissipativity import (
    Batch,
    Dissipativity,
    Number,
    _sigma,
    check_dissipative,
    check_drift,
    delays_of,
    drift_on,
)

# Largest number of states of the true system at which drifts are compared.
MOST_STATES = 5000
NEWTON = 30


def transferred(
    known: Checked[Dissipativity], drift_error: Number, *, slack: Number | None = None
) -> Dissipativity:
    """Return constants of a learned drift that is nowhere further than δ_0 from a drift with known
    constants.

    They are β_0 − η/2, α + δ_0²/2η and C_R + δ_0²/2η + ηR²/2; the others are unchanged. So the
    learned system also has an invariant law, for any finite δ_0 (the paper's theorem "Conditional
    ergodicity transfer").

    **Arguments:**

    - `known`: constants of the true drift, for which `holds`.
    - `drift_error`: δ_0, the supremum of ‖G̃ − G‖ over *all* histories. It is infinite between an
        unconfined network, which is bounded, and a dissipative drift, which is not.
    - `slack`: η in (0, 2(β_0 − B)); the midpoint by default.

    **Returns:** [`Dissipativity`][ndde_jax.theory.Dissipativity], of the same kind as `known`.

    **Raises:** `ValueError` if B ≥ β_0, or for a slack outside its range.

    ```python
    from ndde_jax import theory

    known = theory.linear_dissipativity([[-2.0]], [[[0.5]]], delays=[1.0])
    print(theory.transferred(known, 0.3).margin)  # 0.75
    ```
    """
    check_dissipative(known)
    check_non_negative(drift_error=drift_error)
    if slack is None:
        slack = known.margin
    else:
        check_positive(slack=slack)
        if not is_traced(slack, known) and not float(slack) < 2 * float(known.margin):
            raise ValueError(
                f"slack must lie below 2(β_0 − B) = {2 * float(known.margin):.4g}; got {slack}."
            )
    more = jnp.asarray(drift_error, float) ** 2 / (2 * slack)
    return dataclasses.replace(
        known,
        beta0=known.beta0 - slack / 2,
        alpha=known.alpha + more,
        inside=known.inside + more + slack * known.radius**2 / 2,
        evidence=f"{known.evidence or known.kind}; transferred by the error of the drift",
    )


def invariant_law_bound(
    drift_error: Batch,
    *,
    prefactor: Number,
    rate: Number,
    second_moment: Number,
    time: Number | None = None,
) -> Float[Array, "*batch"]:
    """Return a bound on the total variation distance between the learned and the true invariant
    law: e √t / 2 + C exp(−γt)(1 + V) at the best t, and at most 1.

    **Arguments:**

    - `drift_error`: e, the root mean square of ‖Σ⁻¹(G̃ − G)‖ under the *true* invariant law; one or
        a batch.
    - `prefactor`, `rate`: C and γ of the *learned* system's geometric ergodicity. They exist, but
        their values are unknown.
    - `second_moment`: V, the mean of sup ‖segment − c‖² under the true invariant law.
    - `time`: t; by default the value that minimises the bound.

    The paper's proposition "Stationary error bound on invariant distributions".

    ```python
    from ndde_jax import theory

    print(theory.invariant_law_bound(0.05, prefactor=1.0, rate=1.0, second_moment=0.5))  # 0.065
    ```
    """
    check_real_array(drift_error, "drift_error", "one or a batch", least=0)
    check_positive(prefactor=prefactor, rate=rate)
    check_non_negative(second_moment=second_moment)
    error = jnp.asarray(drift_error, float)
    start = jnp.asarray(prefactor, float) * (1 + jnp.asarray(second_moment, float))
    rate = jnp.asarray(rate, float)
    if time is None:
        time = jax.lax.stop_gradient(_best_time(error, start, rate))
    else:
        check_positive(time=time)
    return jnp.minimum(error * jnp.sqrt(time) / 2 + start * jnp.exp(-rate * time), 1.0)


def _best_time(error, start, rate):
    """Return the later of the two times at which e / 4√t = Cγ exp(−γt), or 0 where the bound is
    smaller there. With y = 2γt the former is y − ln y = L.
    """
    share = error / (4 * start * rate)
    level = -jnp.log(jnp.maximum(2 * rate * share**2, jnp.finfo(float).tiny))
    # Below 1 the bound has no minimum at a positive t: it increases from its value at 0.
    level = jnp.maximum(level, 1.0)

    def step(_, y):
        return jnp.maximum(y - (y - jnp.log(y) - level) / jnp.maximum(1 - 1 / y, 1e-6), 1.0)

    late = jax.lax.fori_loop(0, NEWTON, step, 2 * level) / (2 * rate)
    least = error * jnp.sqrt(late) / 2 + start * jnp.exp(-rate * late)
    return jnp.where(least < start, late, 0.0)


class TransferCurve(eqx.Module):
    """The distance between invariant laws against the error of the drift, for a family of drifts.

    - `error`: e, the root mean square of ‖Σ⁻¹(G̃ − G)‖ along a path of the true system, `[drift]`.
    - `largest`: the largest ‖G̃ − G‖ along that path, a lower bound on δ_0, `[drift]`.
    - `distance`: the total variation distance between histograms of the two stationary laws, the
        largest over the variables, `[drift]`; NaN where the learned path diverged. A lower bound on
        the distance between the laws of segments, up to chance.
    - `chance`: the same distance between two independent paths of the true system.
    - `second_moment`: the mean of sup ‖segment − mean‖² along the true path, the V of the bound.
    """

    error: Float[Array, "drift"]
    largest: Float[Array, "drift"]
    distance: Float[Array, "drift"]
    chance: Float[Array, ""]
    second_moment: Float[Array, ""]

    def bound(self, *, prefactor: Number, rate: Number) -> Float[Array, "drift"]:
        """Return [`invariant_law_bound`][ndde_jax.theory.invariant_law_bound] at these errors."""
        return invariant_law_bound(
            self.error, prefactor=prefactor, rate=rate, second_moment=self.second_moment
        )


def transfer_curve(
    drift: Any,
    learned: Checked[Sequence],
    *,
    sigma: Checked[Float[ArrayLike, "..."]],
    history: Any,
    n_steps: Checked[int],
    key: Checked[PRNGKeyArray],
    dt: Checked[float | None] = None,
    delays: Any = None,
    skip: Checked[int | None] = None,
    bins: Checked[int] = 30,
) -> TransferCurve:
    """Simulate a true and several learned systems, and measure the distance between their
    stationary laws and the error of their drifts: the measured counterpart of
    [`invariant_law_bound`][ndde_jax.theory.invariant_law_bound].

    **Arguments:**

    - `drift`: the true drift: a [`System`][ndde_jax.systems.System], a model, or a function
        `drift(t, x, lagged, args)`.
    - `learned`: drifts of the same variables. Models have their own delays, possibly more than the
        true drift; functions use `delays`. `eqx.Module`s of one class are compiled once.
    - `sigma`: Σ of all systems, invertible: a number, a diagonal `[dim]` or a matrix `[dim dim]`.
    - `history`: the initial history of all paths, as for [`solve_sdde`][ndde_jax.solve_sdde].
    - `n_steps`, `dt`: the number and length of the steps of every path; dt can be omitted if the
        true drift defines it. Delays are rounded to whole steps for the comparison.
    - `delays`: τ_a, for drifts that do not define them.
    - `skip`: the number of initial steps to discard; a tenth by default.
    - `bins`: the number of histogram bins, equally likely under the pooled law; 30 by default.
        Chance is about √(bins / (π n)) with n independent states, and is measured as well.

    **Raises:** `ValueError` for singular noise or invalid drifts, or inside `jit`.

    ```python
    import jax, numpy as np
    from ndde_jax import theory

    def pull(rate):
        return lambda t, x, lagged, args: -rate * x

    curve = theory.transfer_curve(
        pull(1.0), [pull(1.1), pull(1.5)], sigma=1.0, history=np.zeros(1), dt=0.05,
        n_steps=20_000, key=jax.random.key(0),
    )
    print(curve.error)  # about .07 and .35
    ```
    """
    check_drift(drift)
    if isinstance(learned, str | bytes) or not isinstance(learned, Sequence) or not len(learned):
        raise argument_error("learned", "a sequence of drifts", learned)
    for other in learned:
        check_drift(other, "learned")
    check_whole(n_steps, "n_steps", least=10)
    check_whole(bins, "bins", least=2)
    key = check_key(key)
    check_concrete("transfer_curve", (drift, list(learned), history, sigma))
    skip = n_steps // 10 if skip is None else skip
    check_whole(skip, "skip", least=0)
    if skip >= n_steps:
        raise ValueError(f"skip must be less than n_steps = {n_steps}; got {skip}.")
    given = delays_of(drift, delays)
    dt = getattr(drift, "dt", None) if dt is None else dt
    if dt is None:
        raise ValueError("dt is missing; give the length of a step, in units of time.")
    check_positive(dt=dt)
    true_key, again, *keys = jr.split(key, 2 + len(learned))

    def told(which):
        """Return the delays to pass for a drift, None if it has its own or none are given."""
        brings = isinstance(which, AbstractDelayModel | System)
        return None if brings or not len(given) else given

    def path(which, key):
        steps = dict(n_steps=n_steps, dt=float(dt), sigma=sigma, key=key, history=history)
        return np.asarray(solve_sdde(which, delays=told(which), **steps).ys, float)

    truth = path(drift, true_key)
    if truth.ndim != 2:
        raise ValueError(f"history must be of one system, [dim]; got states {truth.shape[1:]}.")
    if not np.isfinite(truth).all():
        raise ValueError("drift diverged; use a smaller dt.")
    noise = np.asarray(_sigma(sigma, truth.shape[1]))
    if noise.shape[0] != noise.shape[1] or np.linalg.cond(noise) > 1e12:
        raise ValueError("sigma must be invertible: with singular noise the laws need not overlap.")
    back = [
        np.concatenate([[0], np.round(delays_of(which, told(which)) / float(dt)).astype(int)])
        for which in (drift, *learned)
    ]
    longest = max(int(steps.max()) for steps in back)
    if longest >= n_steps // 2:
        raise ValueError(
            f"n_steps must be more than twice the longest delay, {longest} steps; got {n_steps}."
        )
    rows = np.arange(max(skip, longest), len(truth))
    some = rows[np.linspace(0, len(rows) - 1, min(MOST_STATES, len(rows))).astype(int)]

    def along(which, steps):
        return np.asarray(drift_on(which, jnp.asarray(truth[some[:, None] - steps])), float)

    own = along(drift, back[0])
    errors, largest, distances = [], [], []
    for other, steps, other_key in zip(learned, back[1:], keys, strict=True):
        difference = along(other, steps) - own
        scaled = np.linalg.solve(noise, difference.T)
        errors.append(np.sqrt(np.sum(scaled**2, axis=0).mean()))
        largest.append(np.sqrt(np.sum(difference**2, axis=1).max()))
        distances.append(_apart(truth[rows], path(other, other_key)[rows], bins))
    around = np.sum((truth[rows] - truth[rows].mean(axis=0)) ** 2, axis=1)
    window = np.lib.stride_tricks.sliding_window_view(around, int(back[0].max()) + 1)
    chance = _apart(truth[rows], path(drift, again)[rows], bins)
    found = errors, largest, distances, chance, window.max(axis=1).mean()
    return TransferCurve(*(jnp.asarray(values, float) for values in found))


def _apart(one: np.ndarray, other: np.ndarray, bins: int) -> float:
    """Return the largest total variation distance between marginals over the variables, from
    histograms whose bins are equally likely in the pooled sample.
    """
    if not np.isfinite(other).all():
        return float("nan")
    found = 0.0
    for x, y in zip(one.T, other.T, strict=True):
        edges = np.quantile(np.concatenate([x, y]), np.linspace(0, 1, bins + 1)[1:-1])
        counts = [np.bincount(np.searchsorted(edges, v), minlength=bins) / len(v) for v in (x, y)]
        found = max(found, 0.5 * float(np.abs(counts[0] - counts[1]).sum()))
    return found
