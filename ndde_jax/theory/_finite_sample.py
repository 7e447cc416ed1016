"""The paper's bound on the sampling error of risks, term by term, and its ingredients."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float

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
from .._types import Checked, to_jax
from ..assess._score import drift_of
from ..models._model import check_model_matches
from ..windows._windows import Windows, is_regular
from ._dissipativity import Batch, Number


class FiniteSampleBound(eqx.Module):
    """The terms of ε_n, and the optimiser's gap ζ_n; all in units of the risk over T∘.

    - `discretisation`: of the grid, Step 2 of the proof.
    - `brownian`, `brownian_net`: fluctuations of the noise, and of the net that stands in for the
        class.
    - `average`, `average_net`, `tail`: fluctuations of the time average, of its net, and what lies
        beyond the radius ρ.
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
        """Return whether the graph is recovered with the confidence asked for, at this margin
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
    """Return the paper's ε_n on any grid, term by term, with the gap of an optimiser that is not
    exact.

    **Arguments:** as of [`finite_sample_bound`][ndde_jax.theory.finite_sample_bound], and

    - `steps`: Δ_k, `[step]`, each at most 1, those of the windows used; their sum is T∘. On an
        uneven grid Σ√Δ_k is kept as it is: no largest step bounds it.
    - `modulus` or `holder`, one of the two: ω_G(Δ_max), or the constant C_G of ω_G(h) ≤ C_G √h,
        with which the discretisation is charged 4 m_E C_G Σ Δ_k^{3/2} / 3η and not at the largest
        step throughout.
    - `gap`: ζ_n ≥ 0, by how much the objective of what the optimiser returned may exceed the least.
        Certified, not hoped for: [`exact_graph`][ndde_jax.select.exact_graph] has none over graphs,
        up to its fits.

    **Returns:** [`FiniteSampleBound`][ndde_jax.theory.FiniteSampleBound].

    **Raises:** `ValueError` for steps that are not positive or exceed 1, or unless exactly one of
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
        raise ValueError("give modulus, or holder, and not both: one says how the drift moves.")
    check_non_negative(gap=gap)
    for name, value in (("modulus", modulus), ("holder", holder)):
        if value is not None:
            check_number(value, name, least=0)
    steps = jnp.asarray(steps, float)
    change: Any = modulus
    return bound_terms(
        duration=jnp.sum(steps),
        largest=jnp.max(steps),
        roots=jnp.sum(jnp.sqrt(steps)),
        moved=jnp.sum(steps) * change if holder is None else 2 / 3 * holder * jnp.sum(steps**1.5),
        gap=gap, confidence=confidence, spread=spread, envelope=envelope, tail=tail,
        covering=covering, resolution=resolution, noise_norm=noise_norm, noise_trace=noise_trace,
        mixing_prefactor=mixing_prefactor, mixing_rate=mixing_rate,
    )  # fmt: skip


def _pieces(duration):
    """Return the number of units of time in a duration; an excess by rounding does not count as
    one.
    """
    duration = jnp.asarray(duration, float)
    return jnp.maximum(1.0, jnp.ceil(duration * (1 - 8 * jnp.finfo(duration.dtype).eps)))


def bound_terms(
    *, duration, largest, roots, moved, gap, confidence, spread, envelope, tail, covering,
    resolution, noise_norm, noise_trace, mixing_prefactor, mixing_rate,
) -> FiniteSampleBound:  # fmt: skip
    """Return the terms, from T∘, Δ_max, Σ√Δ_k and Σ ∫ ω_G over every step."""
    check_number(confidence, "confidence", above=0, below=1)
    check_number(envelope, "envelope", least=1)
    check_positive(mixing_prefactor=mixing_prefactor, mixing_rate=mixing_rate)
    check_non_negative(spread=spread, tail=tail, covering=covering, resolution=resolution)
    check_non_negative(noise_norm=noise_norm, noise_trace=noise_trace)
    eta = (1 - jnp.asarray(confidence, float)) / 6
    block = jnp.maximum(1.0, jnp.log(mixing_prefactor * _pieces(duration) / eta) / mixing_rate)
    complexity = jnp.log(4 / eta) + covering
    return FiniteSampleBound(
        discretisation=2 * spread / eta * moved,
        brownian=2 * noise_norm * envelope * jnp.sqrt(2 * duration * complexity),
        brownian_net=2 * resolution * noise_trace / eta * roots,
        average=envelope**2 * jnp.sqrt(2 * duration * (block + largest) * complexity),
        average_net=4 * envelope * resolution * duration,
        tail=tail * duration,
        gap=jnp.asarray(gap, float),
        duration=jnp.asarray(duration, float),
    )


def finite_sample_bound(
    duration: Number,
    step: Number,
    *,
    confidence: Number,
    modulus: Number,
    spread: Number,
    envelope: Number,
    tail: Number,
    covering: Number,
    resolution: Number,
    noise_norm: Number,
    noise_trace: Number,
    mixing_prefactor: Number,
    mixing_rate: Number,
) -> Float[Array, ""]:
    """Return the paper's ε_n on an equally spaced grid; a graph is recovered if it is below γ(λ).
    On any grid, term by term and with the optimiser's gap:
    [`finite_sample_terms`][ndde_jax.theory.finite_sample_terms].

    **Arguments:** all as in the paper's section "Finite-sample identifiability".

    - `duration`: T∘ = T − τ_max, in units of time.
    - `step`: Δ, at most 1.
    - `confidence`: 1 − δ.
    - `modulus`: ω_G(Δ), root mean square change of the true drift within a step.
    - `spread`: m_E, root mean square diameter of the model class.
    - `envelope`: E_ρ ≥ 1, its largest diameter within radius ρ.
    - `tail`: v_ρ, its mean square diameter outside.
    - `covering`: ln N_n(ρ, ε), the logarithm because the number is astronomic.
    - `resolution`: ε, the mesh of that covering.
    - `noise_norm`, `noise_trace`: largest singular value of Σ, and √tr ΣΣᵀ.
    - `mixing_prefactor`, `mixing_rate`: of β(u) ≤ C e^{−γu}.

    Its use is to see which term dominates: with factors 6/δ and uniform covering numbers it is far
    above anything observed.

    ```python
    import ndde_jax as ndde

    constants = dict(modulus=0.01, spread=1.0, envelope=2.0, tail=0.0, covering=100.0)
    noise = dict(noise_norm=0.1, noise_trace=0.2, mixing_prefactor=1.0, mixing_rate=1.0)
    bound = ndde.theory.finite_sample_bound(
        1e4, 0.01, confidence=0.9, resolution=1e-4, **constants, **noise
    )
    print(bound / 1e4)  # about 3.4 per unit of time, against margins below 0.1
    ```
    """
    check_positive(duration=duration)
    check_number(step, "step", above=0, most=1)
    check_non_negative(modulus=modulus)
    total, step = jnp.asarray(duration, float), jnp.asarray(step, float)
    return bound_terms(
        duration=total, largest=step, roots=total / jnp.sqrt(step), moved=total * modulus, gap=0.0,
        confidence=confidence, spread=spread, envelope=envelope, tail=tail, covering=covering,
        resolution=resolution, noise_norm=noise_norm, noise_trace=noise_trace,
        mixing_prefactor=mixing_prefactor, mixing_rate=mixing_rate,
    ).error  # fmt: skip


def truncation_radius(
    duration: Number,
    moment: Number,
    *,
    confidence: Number,
    n_delays: Checked[int] = 0,
    order: Checked[int] = 1,
) -> Float[Array, ""]:
    """Return ρ of the finite-sample bound: the radius that the lagged states leave, within T∘, with
    a probability of at most δ/6: max(1, (J (q+1)^p S_p / (δ/6))^{1/2p}), J = ⌈T∘⌉.

    **Arguments:**

    - `duration`: T∘.
    - `moment`: S_p, mean of the 2p-th power of the largest distance from the centre within the
        segments of one unit of time; of [`segment_moments`][ndde_jax.theory.segment_moments] the
        `unit`, or measured.
    - `confidence`: 1 − δ.
    - `n_delays`: q.
    - `order`: p. A high moment makes the radius grow slowly with the duration, as T^{1/2p}.

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
    """Return a bound on the β-mixing coefficient of lagged states a time apart: C (1 + V) exp(−γt),
    at most 1.

    **Arguments:**

    - `gap`: t, one or a batch. Of samples on a grid the time between them, however uneven it is.
    - `prefactor`, `rate`: C and γ of geometric ergodicity. Known to exist, not what they are.
    - `second_moment`: V, mean of sup ‖segment − c‖² under the invariant law.

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
    """Return the root mean square change of a drift from one sample to the next along data,
    ‖G(Z_{k+1}) − G(Z_k)‖: an estimate of ω_G(Δ), from the learned drift in place of the true one.

    **Arguments:**

    - `model`: a learned model, or a function of a history with `lags`, in physical units.
    - `windows`: of one system, equally spaced.

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
