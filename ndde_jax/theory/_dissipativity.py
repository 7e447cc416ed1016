"""Delay-adapted dissipativity and the bounds on moments that follow from it.

The constants are proved where possible and estimated otherwise. They determine Halanay's rate and
the one-point and segment bounds.
"""

import functools
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float

from .._checks import (
    argument_error,
    check_choice,
    check_concrete,
    check_non_negative,
    check_positive,
    check_real_array,
    check_whole,
    check_windows,
    is_traced,
)
from .._types import Checked, RealScalarLike, as_number, divisor, floating_type, to_jax
from ..models._confine import RestoredDDE
from ..models._model import AbstractDelayModel
from ..systems._system import System

# A number; a number or a batch of numbers.
Number: TypeAlias = Checked[RealScalarLike]
Batch: TypeAlias = Checked[Float[ArrayLike, "*batch"]]


def check_drift(drift: Any, name: str = "drift") -> None:
    """Raise an error unless the drift is a learned model, a `System`, or a function of time, state,
    lagged states and `args`.
    """
    if isinstance(drift, type) or not (isinstance(drift, System) or callable(drift)):
        raise argument_error(
            name, "a function drift(t, x, lagged, args), a System or a model", drift
        )


def delays_of(drift: Any, delays: Any = None) -> np.ndarray:
    """Return τ_a in units of time: the delays of the drift, or the given ones."""
    is_model = isinstance(drift, AbstractDelayModel)
    if is_model and drift.lags[0] != 0:
        raise ValueError(f"drift must have lag 0, the present state; its lags are {drift.lags}.")
    if is_model or isinstance(drift, System):
        if delays is not None:
            raise ValueError("delays must be omitted: the drift has its own.")
        return np.asarray(drift.delays, float)[1:] if is_model else np.asarray(drift.lags, float)
    check_real_array(() if delays is None else delays, "delays", "times", finite=True)
    delays = np.atleast_1d(np.asarray(() if delays is None else delays, float))
    if delays.ndim != 1 or (delays <= 0).any() or (np.diff(delays) <= 0).any():
        raise ValueError(f"delays must be positive and ascending; got {delays}.")
    return delays


def read_histories(
    histories: Any, dim: int | None, n_delays: int
) -> Float[Array, "sample lag dim"]:
    """Return histories in physical units, the present first, from an array or from windows."""
    if type(histories).__name__ == "Windows":
        check_windows(histories, "dissipativity", "take one with unstack_windows")
        scaling = histories.scaling
        values = np.asarray(histories.history)[np.asarray(histories.valid)]
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


# Factors by which an estimate moves histories away from the centre: the assumption is about
# behaviour far out.
REACH = (1.5, 2.0, 3.0)
# Largest number of histories in an estimate; the drift is evaluated at ten variants of each.
MOST_HISTORIES = 500
KINDS = ("certified", "estimated", "assumed")


def _vector(name: str, **bound: int):
    def convert(value: Any) -> Array | None:
        if value is None:
            return None
        check_real_array(value, name, "one for each delay", finite=True, **bound)
        return jnp.atleast_1d(jnp.asarray(value, float))

    return convert


_rates = functools.partial(_vector, least=0)


class Dissipativity(eqx.Module):
    """The constants of the paper's assumption "Delay-adapted dissipativity".

    With u_a = x_a − c, where x_0 is the present state and x_a the state a delay τ_a ago,

        ⟨u_0, G⟩ ≤ α − β_0 ‖u_0‖² + Σ β_a ‖u_a‖²   where ‖u_0‖ ≥ R,
        ⟨u_0, G⟩ ≤ C_R + Σ ε_a ‖u_a‖²              where ‖u_0‖ ≤ R,

    and B = Σ (β_a + ε_a) < β_0. All constants are in physical units.

    **Arguments:**

    - `center`: c, `[dim]`.
    - `beta0`, `alpha`: β_0, the rate of the present state, and α.
    - `delays`, `beta`: τ_a and β_a, `[delay]`; none by default.
    - `radius`, `inside`, `epsilon`: R, C_R and ε_a. The default 0 means that the first line holds
        everywhere. This loses no generality: any constants yield such global ones, `level` and
        `feedback` (the paper's lemma "Global dissipativity estimate").
    - `kind`: `"certified"` (proved for every history), `"estimated"` (from histories, without
        saying anything about others) or `"assumed"` (the default, for constants a user supplies).
    - `evidence`: the evidence in words.

    **Raises:** `ValueError` for negative or infinite numbers or inconsistent shapes.

    ```python
    from ndde_jax import theory

    known = theory.Dissipativity(center=[0.0], beta0=2.0, alpha=0.5, delays=[1.0], beta=[0.5])
    print(known.margin)  # 1.5
    print(bool(known.holds))
    ```
    """

    center: Float[Array, "dim"] = eqx.field(converter=_vector("center"))
    beta0: Float[Array, ""] = eqx.field(converter=as_number("beta0"))
    alpha: Float[Array, ""] = eqx.field(converter=as_number("alpha", least=0))
    delays: Float[Array, "delay"] = eqx.field(converter=_rates("delays"), default=())
    beta: Float[Array, "delay"] = eqx.field(converter=_rates("beta"), default=())
    radius: Float[Array, ""] = eqx.field(converter=as_number("radius", least=0), default=0.0)
    inside: Float[Array, ""] = eqx.field(converter=as_number("inside", least=0), default=0.0)
    epsilon: Float[Array, "delay"] | None = eqx.field(converter=_rates("epsilon"), default=None)
    kind: Checked[str] = eqx.field(static=True, default="assumed")
    evidence: Checked[str] = eqx.field(static=True, default="")

    def __check_init__(self):
        check_choice(self.kind, "kind", KINDS)
        for name in ("beta", "epsilon"):
            value = getattr(self, name)
            if value is not None and value.shape != self.delays.shape:
                raise ValueError(
                    f"{name} must have one rate for each of the {self.delays.shape[0]} delays; got "
                    f"{value.shape[0]}."
                )

    @property
    def feedback(self) -> Float[Array, "delay"]:
        """The weights b_a = β_a + ε_a of the past."""
        return self.beta if self.epsilon is None else self.beta + self.epsilon

    @property
    def margin(self) -> Float[Array, ""]:
        """The margin β_0 − B by which the present outweighs the past."""
        return self.beta0 - jnp.sum(self.feedback)

    @property
    def holds(self) -> Bool[Array, ""]:
        """Whether B < β_0, the condition of the paper's theorems on ergodicity."""
        return self.margin > 0

    @property
    def level(self) -> Float[Array, ""]:
        """The level A = max(α, C_R + β_0 R²): ⟨u_0, G⟩ ≤ A − β_0 ‖u_0‖² + Σ b_a ‖u_a‖²
        everywhere.
        """
        return jnp.maximum(self.alpha, self.inside + self.beta0 * self.radius**2)

    @property
    def growth(self) -> Float[Array, ""]:
        """The β of the implied radial Khasminskii condition, ⟨u_0, G⟩ ≤ β (1 + ‖z − c‖²): the
        largest of A and b_a.
        """
        return jnp.max(jnp.concatenate([self.level[None], self.feedback]))

    def excess(
        self, drift: Any, histories: Checked[Float[ArrayLike, "sample lag dim"]]
    ) -> Float[Array, "sample"]:
        """Return ⟨u_0, G⟩ minus its global bound at every history; positive where the constants
        fail.
        """
        check_drift(drift)
        histories = read_histories(histories, self.center.shape[0], self.delays.shape[0])
        pull, squares = _radial(drift, histories, self.center.astype(histories.dtype))
        past = squares[:, 1:] @ self.feedback.astype(squares.dtype)
        return pull - (self.level - self.beta0 * squares[:, 0] + past)


def dissipativity(
    drift: Any,
    histories: Any = None,
    *,
    center: Any = None,
    delays: Any = None,
    sigma_trace: Any = None,
) -> Dissipativity:
    """Return constants of delay-adapted dissipativity for a true or a learned drift.

    **Certified** for a drift made by [`confine`][ndde_jax.confine] or
    [`damp`][ndde_jax.models.damp]: apart from the restoring force, the weights bound the drift, so
    the constants hold for every history, with β_a = 0 (the paper's proposition "Confinement by
    construction").

    **Estimated** for all other drifts, which requires `histories`: a bounded drift, such as a
    network, cannot be dissipative in this sense, and any other function is known only by its
    values. Among the constants that no value contradicts, a linear program selects those with the
    smallest bound on the stationary second moment. The drift is evaluated at the histories, and
    with the present, the past or both moved away from the centre by factors up to 3. `kind` and
    `evidence` say which of the two cases applies, and how many values from the second half of the
    histories violate the constants of the first.

    **Arguments:**

    - `drift`: a learned model, a [`System`][ndde_jax.systems.System] or a function
        `drift(t, x, lagged, args)` in JAX; evaluated at time 0.
    - `histories`: `[sample lag dim]` in physical units, the present first, or
        [`Windows`][ndde_jax.Windows]; at most 500, evenly spread, are used. If they are given, a
        confined or damped drift is estimated like any other.
    - `center`: c, `[dim]`; by default the mean of the present states. Omit it for a certified
        drift, which has its own.
    - `delays`: τ_a, `[delay]`, if the drift does not define them.
    - `sigma_trace`: tr ΣΣᵀ, which enters the minimised moment; by default the mean of |⟨u_0, G⟩|,
        which noise of that strength would balance.

    **Returns:** [`Dissipativity`][ndde_jax.theory.Dissipativity]; check `holds`.

    **Raises:** `ValueError` if histories are missing or have the wrong shape, or inside `jit`.

    ```python
    import numpy as np
    from ndde_jax import theory

    def drift(t, x, lagged, args):
        return -2 * x + 0.5 * lagged[0]

    histories = np.random.default_rng(0).normal(size=(300, 2, 1))
    found = theory.dissipativity(drift, histories, center=[0.0], delays=[1.0])
    print(found.kind, bool(found.holds))
    print(found.margin)  # 1.5
    ```
    """
    check_drift(drift)
    if isinstance(drift, RestoredDDE) and histories is None:
        return _certified(drift, center)
    if histories is None:
        raise ValueError(
            "histories are missing. The constants of this drift can only be estimated, from "
            "histories [sample lag dim] in physical units. Only drifts made by confine or damp "
            "need none."
        )
    check_concrete("dissipativity", (drift, histories, center, delays), "Call it outside.")
    delays = delays_of(drift, delays)
    histories = np.asarray(read_histories(histories, None, len(delays)), float)
    dim = histories.shape[2]
    center = histories[:, 0].mean(axis=0) if center is None else center
    check_real_array(center, "center", f"shape ({dim},)", finite=True)
    center = np.asarray(center, float)
    if center.shape != (dim,):
        raise ValueError(f"center must have shape ({dim},); got {center.shape}.")
    if sigma_trace is not None:
        check_non_negative(sigma_trace=sigma_trace)
    return _estimated(drift, histories, center, delays, sigma_trace)


def linear_dissipativity(
    present: Checked[Float[ArrayLike, "dim dim"]],
    delayed: Any = (),
    *,
    delays: Any = (),
    offset: Any = None,
) -> Dissipativity:
    """Return certified constants for a linear drift A_0 x(t) + Σ A_a x(t − τ_a) + offset, centred
    at zero.

    ⟨x, A_0 x⟩ is at most the largest eigenvalue of its symmetric part times ‖x‖², and
    ⟨x, A_a y⟩ ≤ ‖A_a‖ (‖x‖² + ‖y‖²) / 2. So β_0 − B = −λ_max − Σ ‖A_a‖: the condition holds iff
    the delayed feedbacks together are weaker than the damping, for any delays. An offset reduces
    this margin by a quarter.

    **Arguments:**

    - `present`: A_0, `[dim dim]`, one row per rate.
    - `delayed`: the matrices A_a, `[delay dim dim]`.
    - `delays`: τ_a, `[delay]`.
    - `offset`: `[dim]`, none by default.

    ```python
    from ndde_jax import theory

    known = theory.linear_dissipativity([[-2.0]], [[[0.5]]], delays=[1.0])
    print(known.margin)  # 1.5
    ```
    """
    check_real_array(present, "present", "a matrix [dim dim]", finite=True)
    present = jnp.asarray(present, float)
    if present.ndim != 2 or present.shape[0] != present.shape[1]:
        raise ValueError(f"present must be a matrix [dim dim]; got shape {present.shape}.")
    dim = present.shape[0]
    check_real_array(delayed, "delayed", "matrices [delay dim dim]", finite=True)
    delayed = jnp.asarray(delayed, float).reshape(-1 if np.size(delayed) else 0, dim, dim)
    delays = _rates("delays")(delays)
    if delays.shape[0] != delayed.shape[0]:
        raise ValueError(
            f"delayed must hold one matrix for each of the {delays.shape[0]} delays; got "
            f"{delayed.shape[0]}."
        )
    damping = -jnp.linalg.eigvalsh((present + present.T) / 2)[-1]
    norms = jnp.linalg.norm(delayed, ord=2, axis=(1, 2)) if len(delayed) else jnp.zeros(0)
    beta0, alpha = damping - jnp.sum(norms) / 2, jnp.zeros(())
    if offset is not None:
        check_real_array(offset, "offset", f"shape ({dim},)", finite=True)
        if np.shape(offset) != (dim,):
            raise ValueError(f"offset must have shape ({dim},); got {np.shape(offset)}.")
        # ⟨x, o⟩ ≤ e ‖x‖² + ‖o‖² / 4e, with e a quarter of the margin.
        share = jnp.maximum((beta0 - jnp.sum(norms) / 2) / 4, jnp.finfo(float).tiny)
        alpha = jnp.sum(jnp.asarray(offset, float) ** 2) / (4 * share)
        beta0 = beta0 - share
    return Dissipativity(
        center=jnp.zeros(dim), beta0=beta0, alpha=alpha, delays=delays, beta=norms / 2,
        kind="certified", evidence="from the eigenvalues and norms of the matrices",
    )  # fmt: skip


def _certified(drift: RestoredDDE, center: Any) -> Dissipativity:
    if center is not None:
        raise ValueError("center must be omitted: a restored drift has its own.")
    known = drift.certificate()
    delays = drift.delays[1:]
    return Dissipativity(
        center=drift.center, beta0=known.beta0, alpha=known.alpha, delays=delays,
        beta=jnp.zeros_like(delays), kind="certified",
        evidence="from the weights, for all histories: a linear restoring force and a bounded "
        "remainder",
    )  # fmt: skip


def _estimated(drift, histories, center, delays, sigma_trace) -> Dissipativity:
    spread = np.linspace(0, len(histories) - 1, min(len(histories), MOST_HISTORIES))
    histories = histories[spread.round().astype(int)]
    half = max(len(histories) // 2, 1)
    pull, squares, lost = _values(drift, histories, center)
    noise = float(np.mean(np.abs(pull)) if sigma_trace is None else sigma_trace)
    alpha, beta0, beta = _least(noise, *_values(drift, histories[:half], center)[:2])
    later, their, _ = _values(drift, histories[half:], center)
    bound = alpha - beta0 * their[:, 0] + their[:, 1:] @ beta
    # A solution of the linear program satisfies its constraints only to about 1e-9.
    broken = np.mean(later > bound + 1e-6 * (1 + np.abs(bound))) if len(later) else np.nan
    reach = float(np.sqrt(squares.sum(axis=1).max()))
    alpha, beta0, beta = _least(noise, pull, squares)
    return Dissipativity(
        center=center, beta0=beta0, alpha=max(alpha, 0.0), delays=delays, beta=beta,
        kind="estimated",
        evidence=f"from {len(pull)} histories within {reach:.3g} of the centre, none beyond; "
        f"{broken:.1%} of those in the second half violate the constants of the first"
        + (f"; {lost} more had no finite drift" if lost else ""),
    )  # fmt: skip


def _further(histories, center) -> np.ndarray:
    """Return the histories, and copies with present, past or both moved away from the centre."""
    moved = [histories]
    for factor in REACH:
        for present, past in ((factor, 1.0), (1.0, factor), (factor, factor)):
            scale = np.full((1, histories.shape[1], 1), past)
            scale[:, 0] = present
            moved.append(center + scale * (histories - center))
            if histories.shape[1] == 1:
                break
    return np.concatenate(moved)


def _values(drift, histories, center):
    """Return ⟨u_0, G⟩ and ‖u_a‖² at the histories and further out, where the drift is finite, and
    the number of places where it is not.
    """
    histories = to_jax(_further(histories, center), float)
    found = _radial(drift, histories, to_jax(center, float))
    pull, squares = (np.asarray(values, float) for values in found)
    finite = np.isfinite(pull)
    if not finite.any():
        raise ValueError("drift must be finite for at least one history; it is finite for none.")
    return pull[finite], squares[finite], int((~finite).sum())


def _radial(drift, histories, center):
    return _pull_and_squares(drift_on(drift, histories), histories, center)


@jax.jit
def _pull_and_squares(rate, histories, center):
    u = histories - center[None, None]
    return jnp.sum(u[:, 0] * rate.astype(u.dtype), axis=1), jnp.sum(u**2, axis=2)


def _least(noise: float, pull, squares) -> tuple[float, float, np.ndarray]:
    """Return the constants α, β_0, β_a that no value contradicts and that minimise the stationary
    bound (2α + tr Q) / 2(β_0 − B). With t = 1 / 2(β_0 − B) and the other unknowns multiplied by t,
    this is a linear program. β_0 is at most the strongest rate seen far out, which also keeps t
    positive.
    """
    from scipy.optimize import linprog

    present = squares[:, 0]
    outer = present >= np.quantile(present, 0.9)
    rate = -pull[outer] / np.maximum(present[outer], np.finfo(float).tiny)
    largest = float(rate.max())
    n_past = squares.shape[1] - 1
    if not largest > 0:  # no history far out is pulled inwards
        return float(np.maximum(pull, 0).max()), 0.0, np.zeros(n_past)
    size = float(np.abs(pull).max()) or 1.0
    # Unknowns y = α t, n_0 = β_0 t, n_a = β_a t, and t.
    cost = np.concatenate([[2.0], np.zeros(1 + n_past), [max(noise, 1e-9 * size)]])
    one = np.ones((len(pull), 1))
    rows = np.concatenate([-one, present[:, None], -squares[:, 1:], pull[:, None]], axis=1)
    believed = np.concatenate([[0.0, 1.0], np.zeros(n_past), [-largest]])[None]
    equal = np.concatenate([[0.0, 2.0], np.full(n_past, -2.0), [0.0]])[None]
    scale = np.abs(rows).max(axis=1, keepdims=True)
    found = linprog(
        cost, A_ub=np.concatenate([rows / divisor(scale), believed]),
        b_ub=np.zeros(len(rows) + 1), A_eq=equal, b_eq=[1.0], method="highs",
    )  # fmt: skip
    if not found.success or not found.x[-1] > 0:
        return float(np.maximum(pull, 0).max()), 0.0, np.zeros(n_past)
    values = found.x / found.x[-1]
    return float(values[0]), float(values[1]), values[2:-1]


def check_dissipative(known: Any) -> None:
    """Raise an error unless the constants satisfy B < β_0; traced numbers pass."""
    if not isinstance(known, Dissipativity):
        raise argument_error(
            "known", "a Dissipativity, such as theory.dissipativity returns", known
        )
    if not is_traced(known) and not bool(known.holds):
        raise ValueError(
            f"known must satisfy B < β_0; here B = {float(jnp.sum(known.feedback)):.4g} and β_0 = "
            f"{float(known.beta0):.4g}, so it bounds no moment and no bound follows from it."
        )


# Newton steps on a convex function, from the side where they cannot overshoot; a dozen suffice.
NEWTON = 40
# The constant of the Burkholder–Davis–Gundy inequality at exponent 1: Mao, *Stochastic Differential
# Equations and Applications* (2007), theorem 1.7.3.
BDG = 32**0.5


def halanay_rate(decay: Number, feedback: Any, delays: Any) -> Float[Array, ""]:
    """Return the rate γ at which m' ≤ −a m(t) + Σ k_a m(t − τ_a) decays: the root of γ + Σ k_a
    exp(γ τ_a) = a.

    The left-hand side increases from Σ k_a at γ = 0, so there is exactly one positive root, at most
    a, iff Σ k_a < a: Halanay's condition. With equality in the inequality and one delay, −γ is the
    rightmost root of the characteristic equation. Differentiable.

    **Arguments:**

    - `decay`: a.
    - `feedback`, `delays`: k_a ≥ 0 and τ_a, `[delay]`.

    **Raises:** `ValueError` if Σ k_a is not below a; under `jit` the result is NaN instead.

    Halanay, *Differential Equations: Stability, Oscillations, Time Lags* (1966); the paper's
    equation "gamma-root".

    ```python
    from ndde_jax import theory

    print(theory.halanay_rate(2.0, [1.0], [1.0]))  # 0.443
    ```
    """
    check_positive(decay=decay)
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
            f"{float(decay):.4g}: Halanay's condition fails, and solutions need not decay."
        )
    return _rightmost(jnp.asarray(decay, float), feedback, delays)


@jax.jit
def _rightmost(decay: Array, feedback: Array, delays: Array) -> Array:
    def gap(rate):
        return rate + jnp.sum(feedback * jnp.exp(rate * delays)) - decay

    def newton(gap, start):
        def step(_, rate):
            value, slope = jax.value_and_grad(gap)(rate)
            return rate - value / slope

        return jax.lax.fori_loop(0, NEWTON, step, start)

    # Where a single term reaches a, the sum does too: from there Newton descends to the root.
    active = (feedback > 0) & (delays > 0)
    ratio = jnp.where(active, decay / jnp.where(active, feedback, 1), 1)
    alone = jnp.log(ratio) / jnp.where(active, delays, 1)
    start = jnp.minimum(jnp.min(jnp.where(active, alone, jnp.inf), initial=jnp.inf), decay)
    found = jax.lax.custom_root(gap, start, newton, lambda slope, y: y / slope(jnp.ones_like(y)))
    return jnp.where(jnp.sum(feedback) < decay, found, jnp.nan)


class Moments(eqx.Module):
    """The bound E ‖X(t) − c‖^{2p} ≤ start · exp(−γ_p t) + K_p; start is E sup ‖history − c‖^{2p}.

    - `order`: p, static.
    - `rate`: γ_p, the Halanay rate of `decay` a_p and `feedback` 2 b_a.
    - `level`: K_p, the limit of the bound, which also bounds the moment of the invariant law.
    - `constant`: C_p, with K_p = C_p / (a_p − 2B).
    - `decay`, `feedback`, `delays`: a_p, 2 b_a and τ_a of the inequality.
    """

    rate: Float[Array, ""]
    level: Float[Array, ""]
    constant: Float[Array, ""]
    decay: Float[Array, ""]
    feedback: Float[Array, "delay"]
    delays: Float[Array, "delay"]
    order: int = eqx.field(static=True)

    def at(self, t: Number, start: Number) -> Float[Array, ""]:
        """Return the bound at time t, for a history of size `start`."""
        check_non_negative(t=t, start=start)
        return start * jnp.exp(-self.rate * t) + self.level  # type: ignore[return-value]


def moments(
    known: Checked[Dissipativity],
    sigma: Checked[Float[ArrayLike, "..."]],
    *,
    order: Checked[int] = 1,
    slack: Number | None = None,
) -> Moments:
    """Return bounds on the moments of X(t) that hold at all times (the paper's lemma "One-point
    moment bounds").

    **Arguments:**

    - `known`: constants for which `holds`.
    - `sigma`: Σ: a number, a diagonal `[dim]` or a matrix `[dim noise]`.
    - `order`: p; the moment is E ‖X − c‖^{2p}.
    - `slack`: η_p in (0, 2p(β_0 − B)), for p above 1. The default, (p − 1) / p of the upper end,
        minimises K_p: it is (k_p / 2p(β_0 − B))^p with k_p = 2pA + p tr Q + 2p(p − 1)‖Σ‖². A
        smaller slack gives a larger rate.

    **Raises:** `ValueError` if B ≥ β_0, the slack is outside its range or sigma has a wrong shape.

    For p = 1 and no delays the bound is sharp: it is the variance of an Ornstein–Uhlenbeck process.

    ```python
    from ndde_jax import theory

    known = theory.linear_dissipativity([[-2.0]], [[[0.5]]], delays=[1.0])
    print(theory.moments(known, 0.6).level)  # 0.12 = .36 / 2 (2 - .5)
    ```
    """
    check_dissipative(known)
    check_whole(order, "order")
    order = int(order)
    noise = _sigma(sigma, known.center.shape[0])
    largest = jnp.linalg.norm(noise, ord=2)
    size, margin = jnp.sum(noise**2), known.margin
    feedback = known.feedback
    raw = 2 * order * known.level + order * size + 2 * order * (order - 1) * largest**2
    if order == 1:
        if slack is not None:
            raise ValueError("slack must be omitted for order 1, which does not use it.")
        spare, constant = jnp.zeros(()), raw
    else:
        room = 2 * order * margin
        if slack is None:
            spare = (order - 1) / order * room
        else:
            check_positive(slack=slack)
            if not is_traced(slack, room) and not float(slack) < float(room):
                most = f"{float(room):.4g}, but is {float(slack):.4g}"
                raise ValueError(f"slack must lie below 2p(β_0 − B) = {most}. Take a smaller one.")
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
    - `unit`: bound on S_p, the mean of the largest ‖X − c‖^{2p} in the segments of one unit of time
        under that law, for [`truncation_radius`][ndde_jax.theory.truncation_radius].
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
    slack: Number | None = None,
    bdg: Number = BDG,
) -> SegmentMoments:
    """Return the bounds of [`moments`][ndde_jax.theory.moments], extended from one time to a whole
    segment, as long as the largest delay.

    Λ = 2 + 4Bτ + C_N τ with C_N = (2p ‖Σ‖ C)² and C the constant of the Burkholder–Davis–Gundy
    inequality. The prefactor is Λ exp(2γτ) + exp(γτ), the level Λ K_p + 2 C_p τ + C_N τ. Without
    delays a segment is a point. The bound is far above what is observed: C = 5.7 enters squared.

    **Arguments:** as for [`moments`][ndde_jax.theory.moments], and

    - `bdg`: C; by default √32, for which Mao (2007), theorem 1.7.3, proves the inequality.

    ```python
    from ndde_jax import theory

    known = theory.linear_dissipativity([[-2.0]], [[[0.5]]], delays=[1.0])
    print(theory.segment_moments(known, 0.6).level)  # 52.7
    ```
    """
    check_positive(bdg=bdg)
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


def _sigma(sigma: Any, dim: int) -> Float[Array, "dim noise"]:
    """Return Σ as a matrix, from a number, a diagonal or a matrix."""
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
