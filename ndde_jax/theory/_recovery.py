"""Signal strengths as the paper defines them, the window of penalties that they allow, and the
bound on the sampling error of risks.

[`identifiability_report`][ndde_jax.identifiability_report] estimates what can be estimated from
data. The bounds depend on constants that data cannot show. They are formulas to explore, not
guarantees.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, PRNGKeyArray

from .._axes import flat_inputs, from_flat_inputs
from .._checks import (
    check_concrete,
    check_non_negative,
    check_number,
    check_positive,
    check_real_array,
    check_whole,
    check_windows,
    is_traced,
)
from .._memory import drop_programs_if_many
from .._types import Checked, Graph, Scores, floating_type, namespace_of, to_jax
from ..assess._score import drift_of
from ..fit._refit import StrengthConfig, best_of_starts, checked_graph, checked_refit
from ..models._model import check_model_matches
from ..select._default import recover, refitting_strategy
from ..select._strategies import MOST_INPUTS, Exhaustive
from ..windows._windows import FlatData, Windows, is_regular
from ._dissipativity import Batch, Number


def penalty_window(
    smallest_strength: Batch, largest_degree: Any, duration: Number = 1.0
) -> Float[Array, "*batch"]:
    """Return the upper end of the penalties that recover the true graph: (T − τ_max) s²_min /
    d_max.

    For every λ between 0 and this value, the true graph is the only minimiser of the penalised
    population risk (the paper's theorem "Identifiability with the penalized objective").

    **Arguments:**

    - `smallest_strength`: s²_min, the smallest true signal strength, as a share of the variance of
        its target's rate, or in the units of the risk.
    - `largest_degree`: d_max, the largest number of inputs of a target.
    - `duration`: T − τ_max. The default 1 gives the window per unit of time. Compare this window
        with a price λ/F of [`L0NDDE`][ndde_jax.L0NDDE], whose risk is a mean.

    ```python
    import ndde_jax as ndde

    print(ndde.theory.penalty_window(0.12, 3))  # 0.04
    ```
    """
    check_real_array(smallest_strength, "smallest_strength", "one or a batch", least=0)
    check_real_array(largest_degree, "largest_degree", "counts of inputs", least=0)
    check_positive(duration=duration)
    dtype = floating_type(smallest_strength)
    xp = namespace_of((smallest_strength, largest_degree, duration))
    strength, degree = xp.asarray(smallest_strength, dtype), xp.asarray(largest_degree, dtype)
    return to_jax(xp.asarray(duration, dtype) * strength / xp.maximum(degree, 1))


def recovery_margin(
    coefficient: Batch, smallest_strength: Number, largest_degree: Any, duration: Number = 1.0
) -> Float[Array, "*batch"]:
    """Return the margin by which every wrong graph is worse: γ(λ) = min(λ, (T − τ_max) s²_min − λ
    d_max).

    It is positive exactly inside the window of [`penalty_window`][ndde_jax.theory.penalty_window].
    Its maximum, (T − τ_max) s²_min / (d_max + 1), is where the two terms are equal. The arguments
    are those of `penalty_window`, and λ in the same units.

    ```python
    import ndde_jax as ndde

    print(ndde.theory.recovery_margin(0.03, 0.12, 3))  # 0.03
    ```
    """
    check_real_array(coefficient, "coefficient", "one or a batch", least=0)
    check_real_array(smallest_strength, "smallest_strength", "one or a batch", least=0)
    check_real_array(largest_degree, "largest_degree", "counts of inputs", least=0)
    check_positive(duration=duration)
    given = (coefficient, smallest_strength, largest_degree, duration)
    xp, dtype = namespace_of(given), floating_type(coefficient)
    price, strength, degree, time = (xp.asarray(value, dtype) for value in given)
    return to_jax(xp.minimum(price, time * strength - price * degree))


def occupation_bound(
    duration: Number,
    *,
    prefactor: Number,
    rate: Number,
    start: Number = 0.0,
    largest_delay: Number = 0.0,
) -> Float[Array, ""]:
    """Return a bound on the total variation distance between the occupation measure up to T and
    the invariant law: C (1 + V) (e^{−γ τ} − e^{−γ T}) / (γ (T − τ)).

    **Arguments:**

    - `duration`: T.
    - `prefactor`, `rate`: C and γ of geometric ergodicity. They exist, but their values are
        unknown.
    - `start`: V, the mean squared distance of the initial history from the centre.
    - `largest_delay`: τ.

    The paper's remark "Stabilisation of the identifiability constants".

    ```python
    import ndde_jax as ndde

    print(ndde.theory.occupation_bound(100.0, prefactor=1.0, rate=0.5))  # 0.02
    ```
    """
    check_positive(duration=duration)
    check_non_negative(prefactor=prefactor, start=start, largest_delay=largest_delay)
    check_positive(rate=rate)
    if not is_traced(duration, largest_delay) and not duration > largest_delay:
        raise ValueError(f"duration must exceed largest_delay, {largest_delay}; got {duration}.")
    rate, duration = jnp.asarray(rate, float), jnp.asarray(duration, float)
    decay = jnp.exp(-rate * largest_delay) - jnp.exp(-rate * duration)
    return prefactor * (1 + start) * decay / (rate * (duration - largest_delay))  # type: ignore[return-value]


# 2^F networks per target: 256 for eight inputs, which takes about ten seconds.
MOST_SUBSETS = 8


class PaperStrengths(eqx.Module):
    """The strengths (s_ij^a)²: the excess risk of the best of *all* graphs without an edge over the
    best of all graphs, as a share of the variance of the target's rate.

    - `value`: `[source target lag]`; NaN where not measured: where `graph` has no edge, unless all
        subsets were tried.
    - `risk`: the risk of the best graph, `[target]`.
    - `graph`: the graph whose edges `smallest` and `window` refer to.
    - `exhaustive`: whether every subset of the inputs was tried, or only the largest one without
        the edge, which is the best in the limit of much data and flexible networks.
    """

    value: Scores
    risk: Float[Array, "target"]
    graph: Graph
    exhaustive: bool = eqx.field(static=True)

    @property
    def smallest(self) -> Float[Array, ""]:
        """The smallest strength s²_min over the edges of the graph; infinite without edges."""
        return jnp.min(jnp.where(self.graph, self.value, jnp.inf))

    @property
    def largest_degree(self) -> Array:
        """The largest number d_max of inputs of a target."""
        return jnp.max(jnp.sum(self.graph, axis=(0, 2)))

    def window(self, duration: Number = 1.0) -> Float[Array, ""]:
        """Return the upper end of the penalties for which the paper proves recovery, or 0 if there
        are none: see [`penalty_window`][ndde_jax.theory.penalty_window].
        """
        check_positive(duration=duration)
        smallest = jnp.where(jnp.any(self.graph), jnp.maximum(self.smallest, 0), 0)
        return penalty_window(smallest, self.largest_degree, duration)


def paper_strengths(
    windows: Checked[Windows],
    *,
    key: Checked[PRNGKeyArray],
    graph: Any = None,
    config: Checked[StrengthConfig | None] = None,
    most_subsets: Checked[int] = MOST_SUBSETS,
) -> PaperStrengths:
    """Measure (s_ij^a)² as the paper defines it: the distance of G_j from all functions of all
    other candidate inputs.

    [`signal_strengths`][ndde_jax.signal_strengths] omits an edge, and only the other edges of a
    selected graph can replace it. Here every other candidate can, so these strengths are no larger,
    up to errors of the fits. They are near zero where another variable or lag is equally
    informative. The window of penalties in the paper's theorem is computed from these strengths.

    **Arguments:**

    - `windows`: windows of one system.
    - `key`: the key for the fits.
    - `graph`: `[source target lag]`, the graph whose edges define the window. By default the best
        of all subsets by [`EBIC`][ndde_jax.select.EBIC] if all are tried, otherwise the result of
        [`recover`][ndde_jax.recover].
    - `config`: [`StrengthConfig`][ndde_jax.fitting.StrengthConfig].
    - `most_subsets`: the largest number of candidate inputs per target for which every subset is
        fitted, 8 by default and at most 12. With more inputs, the fits use all inputs, and for
        every edge all but that one.

    **Returns:** [`PaperStrengths`][ndde_jax.theory.PaperStrengths].

    **Raises:** as [`signal_strengths`][ndde_jax.signal_strengths], and inside `jit`.

    ```python
    import jax, numpy as np
    from ndde_jax import lagged_windows, theory

    rng = np.random.default_rng(0)
    x = np.zeros((400, 2))
    for k in range(399):
        drift = np.array([x[k, 1] - x[k, 0], -x[k, 1]])
        x[k + 1] = x[k] + 0.1 * drift + [0.1, 0.5] * rng.normal(size=2)
    windows = lagged_windows(x, dt=0.1)
    print(theory.paper_strengths(windows, key=jax.random.key(0)).window())
    ```
    """
    config, key = checked_refit("paper_strengths", windows, config, key)
    check_concrete("paper_strengths", (windows, graph, key))
    check_whole(most_subsets, "most_subsets", least=0, most=MOST_INPUTS)
    if graph is not None:
        graph, _ = checked_graph(windows, graph)
    n_inputs = windows.dim * windows.n_lags
    if n_inputs <= most_subsets:
        found = recover(windows, Exhaustive(config), key=key)
        chosen = found.graph if graph is None else graph
        subsets, risks = found.details
        value, risk = _of_all_subsets(subsets, risks, windows)
        return PaperStrengths(value, risk, chosen, True)
    if graph is None:
        select_key, key = jr.split(key)
        graph = recover(windows, refitting_strategy(windows, config), key=select_key).graph
    value, risk = _complement_strengths(windows, graph, config, key)
    return PaperStrengths(value, risk, graph, False)


def _of_all_subsets(subsets, risk, windows: Windows) -> tuple[Scores, Float[Array, "target"]]:
    """Return for every input the least risk of the subsets without it, minus the least risk of all
    allowed subsets, and that risk.
    """
    flat = np.asarray(subsets)
    allowed = np.asarray(FlatData(windows).allowed)
    possible = ~(flat[None] & ~allowed[:, None]).any(axis=2)
    costs = np.where(possible, np.asarray(risk), np.inf)
    best = costs.min(axis=1)
    without = np.stack([costs[:, ~column].min(axis=1) for column in flat.T], axis=1)
    return jnp.asarray(from_flat_inputs(without - best[:, None])), jnp.asarray(best)


def _complement_strengths(
    windows: Windows, graph: Graph, config: StrengthConfig, key: PRNGKeyArray
) -> tuple[Scores, Float[Array, "target"]]:
    """Return the increase of the risk when one edge of a graph is omitted from all candidates, NaN
    elsewhere, and the risk with all candidates.
    """
    drop_programs_if_many(windows, config, key)
    value, risk = _rises_without(windows, flat_inputs(graph), config, key)
    return from_flat_inputs(value), risk


@eqx.filter_jit
def _rises_without(windows: Windows, mask, config: StrengthConfig, key):
    """Return the rise of the corrected risk of every target without each input of its `mask`,
    `[target input]`, NaN for other inputs; and the risk with all candidates.
    """
    data = FlatData(windows)

    def target(output, key, allowed, wanted):
        def risk(mask):
            _, fitted = best_of_starts(data, mask, output, config, len(mask), key=key)
            return fitted.corrected_risk(data.total)

        full = risk(allowed)

        def rise(args):
            one, input_ = args
            return jax.lax.cond(
                one & ~data.refused,
                lambda: risk(allowed & ~input_) - full,
                lambda: jnp.asarray(jnp.nan, full.dtype),
            )

        return jax.lax.map(rise, (wanted, jnp.eye(len(allowed), dtype=bool))), full

    value, risk = data.each_target(target, key, data.allowed, mask)
    return value, jnp.where(data.refused, jnp.nan, risk)


# ---- the sampling error of risks, term by term ----


class FiniteSampleBound(eqx.Module):
    """The terms of ε_n and the optimiser's gap ζ_n, all in units of the risk over T∘.

    - `discretisation`: the error due to the grid, Step 2 of the proof.
    - `brownian`, `brownian_net`: the fluctuations of the noise, and the error of the net that
        approximates the class.
    - `average`, `average_net`, `tail`: the fluctuations of the time average, the error of its net,
        and the contribution from beyond the radius ρ.
    - `gap`: ζ_n.
    - `duration`: T∘.
    """

    discretisation: Float[Array, ""]
    brownian: Float[Array, ""]
    brownian_net: Float[Array, ""]
    average: Float[Array, ""]
    average_net: Float[Array, ""]
    tail: Float[Array, ""]
    gap: Float[Array, ""]
    duration: Float[Array, ""]

    @property
    def error(self) -> Float[Array, ""]:
        """The sampling error ε_n."""
        return (
            self.discretisation + self.brownian + self.brownian_net
            + self.average + self.average_net + self.tail
        )  # fmt: skip

    @property
    def total(self) -> Float[Array, ""]:
        """The sum ε_n + ζ_n, which must stay below the margin γ(λ) for the graph to be
        recovered.
        """
        return self.error + self.gap

    @property
    def drift_error(self) -> Float[Array, ""]:
        """The bound (ε_n + ζ_n) / T∘ on ‖Ĝ − G‖² under the stationary law, once the graph is
        right.
        """
        return self.total / self.duration

    def recovers(self, margin: Number) -> Bool[Array, ""]:
        """Return whether the graph is recovered with the requested confidence at this margin
        γ(λ).
        """
        check_number(margin, "margin")
        return self.total < margin


def finite_sample_terms(
    steps: Checked[Float[ArrayLike, "step"]],
    *,
    confidence: Number,
    spread: Number,
    envelope: Number,
    tail: Number,
    covering: Number,
    resolution: Number,
    noise_norm: Number,
    noise_trace: Number,
    mixing_prefactor: Number,
    mixing_rate: Number,
    modulus: Number | None = None,
    holder: Number | None = None,
    gap: Number = 0.0,
) -> FiniteSampleBound:
    """Return the paper's ε_n on any grid, term by term, with the gap of an inexact optimiser.

    A graph is recovered if `total` is below γ(λ),
    [`recovery_margin`][ndde_jax.theory.recovery_margin]. Use it to see which term dominates:
    because of the factors 6/δ and uniform covering numbers the sum is far above anything observed.

    **Arguments:** as in the paper's section "Finite-sample identifiability".

    - `steps`: Δ_k, `[step]`, the steps of the windows used, each at most 1; their sum is T∘. On an
        uneven grid Σ√Δ_k is used as it is, because the largest step does not bound it.
    - `confidence`: 1 − δ.
    - `spread`: m_E, the root mean square diameter of the model class.
    - `envelope`: E_ρ ≥ 1, the largest diameter of the class within radius ρ.
    - `tail`: v_ρ, the mean square diameter of the class outside radius ρ.
    - `covering`: ln N_n(ρ, ε), a logarithm because the covering number is astronomical.
    - `resolution`: ε, the mesh of that covering.
    - `noise_norm`, `noise_trace`: the largest singular value of Σ, and √tr ΣΣᵀ.
    - `mixing_prefactor`, `mixing_rate`: C and γ in β(u) ≤ C e^{−γu}.
    - `modulus` or `holder`, exactly one: ω_G(Δ_max), the root mean square change of the true drift
        within a step, or the constant C_G of ω_G(h) ≤ C_G √h. With C_G the discretisation term is
        4 m_E C_G Σ Δ_k^{3/2} / 3η, instead of using the largest step throughout.
    - `gap`: ζ_n ≥ 0, a certified bound on how far the objective at the returned solution exceeds
        the minimum. [`Exhaustive`][ndde_jax.select.Exhaustive] has no gap over graphs, up to its
        fits.

    **Returns:** [`FiniteSampleBound`][ndde_jax.theory.FiniteSampleBound].

    **Raises:** `ValueError` for steps that are not positive or exceed 1, and unless exactly one of
    `modulus` and `holder` is given.

    ```python
    import numpy as np
    from ndde_jax import theory

    constants = dict(spread=1.0, envelope=2.0, tail=0.0, covering=100.0, resolution=1e-4)
    noise = dict(noise_norm=0.1, noise_trace=0.2, mixing_prefactor=1.0, mixing_rate=1.0)
    bound = theory.finite_sample_terms(
        np.full(1_000_000, 0.01), confidence=0.9, holder=0.1, **constants, **noise
    )
    print(bound.drift_error)  # 3.0
    print(bool(bound.recovers(0.05 * 1e4)))
    ```
    """
    check_real_array(steps, "steps", "lengths [step]", finite=True, above=0)
    if np.ndim(steps) != 1 or not np.shape(steps)[0]:
        raise ValueError(f"steps must be lengths [step]; got shape {np.shape(steps)}.")
    if not is_traced(steps) and float(np.max(np.asarray(steps))) > 1:
        raise ValueError("steps must be at most 1; choose a longer unit of time.")
    if (modulus is None) == (holder is None):
        raise ValueError(
            "give either modulus or holder, which state how much the drift varies, not both."
        )
    for name, value in (("modulus", modulus), ("holder", holder)):
        if value is not None:
            check_number(value, name, least=0)
    check_number(confidence, "confidence", above=0, below=1)
    check_number(envelope, "envelope", least=1)
    check_positive(mixing_prefactor=mixing_prefactor, mixing_rate=mixing_rate)
    check_non_negative(spread=spread, tail=tail, covering=covering, resolution=resolution)
    check_non_negative(noise_norm=noise_norm, noise_trace=noise_trace, gap=gap)
    steps = jnp.asarray(steps, float)
    duration, roots = jnp.sum(steps), jnp.sum(jnp.sqrt(steps))
    change: Any = modulus
    moved = duration * change if holder is None else 2 / 3 * holder * jnp.sum(steps**1.5)
    eta = (1 - jnp.asarray(confidence, float)) / 6
    block = jnp.maximum(1.0, jnp.log(mixing_prefactor * _pieces(duration) / eta) / mixing_rate)
    complexity = jnp.log(4 / eta) + covering
    averaged = duration * (block + jnp.max(steps))
    return FiniteSampleBound(
        discretisation=2 * spread / eta * moved,
        brownian=2 * noise_norm * envelope * jnp.sqrt(2 * duration * complexity),
        brownian_net=2 * resolution * noise_trace / eta * roots,
        average=envelope**2 * jnp.sqrt(2 * averaged * complexity),
        average_net=4 * envelope * resolution * duration,
        tail=tail * duration,
        gap=jnp.asarray(gap, float),
        duration=duration,
    )


def _pieces(duration):
    """Return the number of units of time in a duration, rounded up; an excess due to rounding
    errors is ignored.
    """
    duration = jnp.asarray(duration, float)
    return jnp.maximum(1.0, jnp.ceil(duration * (1 - 8 * jnp.finfo(duration.dtype).eps)))


def truncation_radius(
    duration: Number,
    moment: Number,
    *,
    confidence: Number,
    n_delays: Checked[int] = 0,
    order: Checked[int] = 1,
) -> Float[Array, ""]:
    """Return ρ of the finite-sample bound, the radius that the lagged states leave within T∘ with
    probability at most δ/6: max(1, (J (q+1)^p S_p / (δ/6))^{1/2p}), J = ⌈T∘⌉.

    **Arguments:**

    - `duration`: T∘.
    - `moment`: S_p, the mean of the 2p-th power of the largest distance from the centre within the
        segments of one unit of time: either measured or the `unit` of
        [`segment_moments`][ndde_jax.theory.segment_moments].
    - `confidence`: 1 − δ.
    - `n_delays`: q.
    - `order`: p. With a high moment the radius grows slowly with the duration, as T^{1/2p}.

    ```python
    from ndde_jax import theory

    print(theory.truncation_radius(100.0, 15.0, confidence=0.9, order=2))  # 17.3
    ```
    """
    check_positive(duration=duration)
    check_non_negative(moment=moment)
    check_number(confidence, "confidence", above=0, below=1)
    check_whole(n_delays, "n_delays", least=0)
    check_whole(order, "order")
    eta = (1 - jnp.asarray(confidence, float)) / 6
    ratio = _pieces(duration) * float(n_delays + 1) ** order * moment / eta
    return jnp.maximum(1.0, ratio ** (1 / (2 * order)))


def mixing_bound(
    gap: Batch, *, prefactor: Number, rate: Number, second_moment: Number = 0.0
) -> Float[Array, "*batch"]:
    """Return a bound on the β-mixing coefficient of lagged states a time t apart: C (1 + V)
    exp(−γt), at most 1.

    **Arguments:**

    - `gap`: t, one or a batch. For samples on a grid, even or uneven, the time between them.
    - `prefactor`, `rate`: C and γ of geometric ergodicity. They exist, but their values are
        unknown.
    - `second_moment`: V, the mean of sup ‖segment − c‖² under the invariant law.

    The paper's theorem "Exponential β-mixing of the lagged state".

    ```python
    from ndde_jax import theory

    print(theory.mixing_bound(3.0, prefactor=1.0, rate=1.0, second_moment=0.5))  # 0.075
    ```
    """
    check_real_array(gap, "gap", "one or a batch", least=0)
    check_positive(prefactor=prefactor, rate=rate)
    check_non_negative(second_moment=second_moment)
    gap = jnp.asarray(gap, float)
    return jnp.minimum(prefactor * (1 + second_moment) * jnp.exp(-rate * gap), 1.0)


def drift_modulus(model: Any, windows: Checked[Windows]) -> Float[Array, ""]:
    """Return the root mean square change of a drift between neighbouring samples of the data,
    ‖G(Z_{k+1}) − G(Z_k)‖: an estimate of ω_G(Δ) from the learned drift instead of the true one.

    **Arguments:**

    - `model`: a learned model, or a function of a history with `lags`, in physical units.
    - `windows`: windows of one system, equally spaced.

    **Raises:** `ValueError` for uneven windows, or if no two of them are neighbours.

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    t = np.arange(400) * 0.1
    windows = ndde.lagged_windows(np.stack([np.sin(t), np.cos(t)], 1), dt=0.1, scheme="central4")
    model = ndde.fitting.fit_graph(windows, "full", key=jax.random.key(0))
    print(ndde.theory.drift_modulus(model, windows))  # 0.1
    ```
    """
    check_windows(windows, "drift_modulus", "take one with unstack_windows")
    check_model_matches(windows, model)
    check_concrete("drift_modulus", (model, windows))
    if not is_regular(windows):
        raise ValueError("drift_modulus needs windows of equally spaced samples.")
    apart = np.diff(np.asarray(windows.position)[np.asarray(windows.valid)]) == windows.step
    if not apart.any():
        raise ValueError("windows must hold neighbouring samples; these hold none.")
    change = np.sum(np.diff(drift_of(windows, model), axis=0)[apart] ** 2, axis=1)
    return to_jax(np.sqrt(change.mean()), float)
