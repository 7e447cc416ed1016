"""Constants of the paper's theorems, as functions of what they depend on.

What can be estimated from data is estimated by
[`identifiability_report`][ndde_jax.identifiability_report]. The two bounds at the end rest on
constants that no data show (mixing rates, covering numbers, envelopes); they are formulas to
explore, and no guarantee is printed with them.
"""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from .._checks import check_number, check_positive, check_real_array, is_traced
from .._types import Checked, RealScalarLike, floating_type


def penalty_window(
    smallest_strength: Checked[Float[ArrayLike, "*batch"]],
    largest_degree: Any,
    duration: Checked[RealScalarLike] = 1.0,
) -> Float[Array, "*batch"]:
    """Upper end of the penalties that recover the true graph: (T − τ_max) s²_min / d_max.

    The penalised population risk has the true graph as its only minimiser for every λ between 0 and
    this (the paper's theorem "Identifiability with the penalized objective").

    **Arguments:**

    - `smallest_strength`: s²_min, the smallest true signal strength, as a share of the variance of
        its target's rate, or in whatever units the risk has.
    - `largest_degree`: d_max, the largest number of inputs of a target.
    - `duration`: T − τ_max. The default 1 gives the window per unit of time, which is the one to
        compare with a price λ/F of [`L0NDDE`][ndde_jax.L0NDDE], whose risk is a mean.

    ```python
    import ndde_jax as ndde

    print(ndde.penalty_window(0.12, 3))  # 0.04
    ```
    """
    check_real_array(smallest_strength, "smallest_strength", "one or a batch", least=0)
    check_real_array(largest_degree, "largest_degree", "counts of inputs", least=0)
    check_positive(duration, "duration")
    strength = jnp.asarray(smallest_strength, floating_type(smallest_strength))
    return duration * strength / jnp.maximum(jnp.asarray(largest_degree), 1)  # type: ignore[return-value]


def recovery_margin(
    coefficient: Checked[Float[ArrayLike, "*batch"]],
    smallest_strength: Checked[RealScalarLike],
    largest_degree: Any,
    duration: Checked[RealScalarLike] = 1.0,
) -> Float[Array, "*batch"]:
    """By how much every wrong graph is worse: γ(λ) = min(λ, (T − τ_max) s²_min − λ d_max).

    Positive exactly inside the window of [`penalty_window`][ndde_jax.penalty_window], and largest,
    (T − τ_max) s²_min / (d_max + 1), where its two terms meet. Arguments as there, and λ in the
    same units.

    ```python
    import ndde_jax as ndde

    print(ndde.recovery_margin(0.03, 0.12, 3))  # 0.03
    ```
    """
    check_real_array(coefficient, "coefficient", "one or a batch", least=0)
    check_real_array(smallest_strength, "smallest_strength", "one or a batch", least=0)
    check_real_array(largest_degree, "largest_degree", "counts of inputs", least=0)
    check_positive(duration, "duration")
    price = jnp.asarray(coefficient, floating_type(coefficient))
    return jnp.minimum(price, duration * smallest_strength - price * largest_degree)


def occupation_bound(
    duration: Checked[RealScalarLike],
    *,
    prefactor: Checked[RealScalarLike],
    rate: Checked[RealScalarLike],
    start: Checked[RealScalarLike] = 0.0,
    largest_delay: Checked[RealScalarLike] = 0.0,
) -> Float[Array, ""]:
    """Bound on the distance in total variation between what is visited up to T and the invariant
    law: C (1 + V) (e^{−γ τ} − e^{−γ T}) / (γ (T − τ)).

    **Arguments:**

    - `duration`: T.
    - `prefactor`, `rate`: C and γ of geometric ergodicity. Known to exist, not what they are.
    - `start`: V, mean squared distance of the initial history from the centre.
    - `largest_delay`: τ.

    The paper's remark "Stabilisation of the identifiability constants".

    ```python
    import ndde_jax as ndde

    print(ndde.occupation_bound(100.0, prefactor=1.0, rate=0.5))  # 0.02
    ```
    """
    check_positive(duration, "duration")
    for name, value in (
        ("prefactor", prefactor),
        ("start", start),
        ("largest_delay", largest_delay),
    ):
        check_number(value, name, least=0)
    check_positive(rate, "rate")
    if not is_traced(duration, largest_delay) and not duration > largest_delay:
        raise ValueError(f"duration must exceed largest_delay, {largest_delay}; got {duration}.")
    rate, duration = jnp.asarray(rate, float), jnp.asarray(duration, float)
    decay = jnp.exp(-rate * largest_delay) - jnp.exp(-rate * duration)
    return prefactor * (1 + start) * decay / (rate * (duration - largest_delay))  # type: ignore[return-value]


def finite_sample_bound(
    duration: Checked[RealScalarLike],
    step: Checked[RealScalarLike],
    *,
    confidence: Checked[RealScalarLike],
    modulus: Checked[RealScalarLike],
    spread: Checked[RealScalarLike],
    envelope: Checked[RealScalarLike],
    tail: Checked[RealScalarLike],
    covering: Checked[RealScalarLike],
    resolution: Checked[RealScalarLike],
    noise_norm: Checked[RealScalarLike],
    noise_trace: Checked[RealScalarLike],
    mixing_prefactor: Checked[RealScalarLike],
    mixing_rate: Checked[RealScalarLike],
) -> Float[Array, ""]:
    """The paper's ε_n on an equally spaced grid; a graph is recovered if it is below γ(λ).

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
    bound = ndde.finite_sample_bound(
        1e4, 0.01, confidence=0.9, resolution=1e-4, **constants, **noise
    )
    print(bound / 1e4)  # about 3.4 per unit of time, against margins below 0.1
    ```
    """
    check_positive(duration, "duration")
    check_number(step, "step", above=0, most=1)
    check_number(confidence, "confidence", above=0, below=1)
    check_number(envelope, "envelope", least=1)
    check_positive(mixing_prefactor, "mixing_prefactor")
    check_positive(mixing_rate, "mixing_rate")
    rest = dict(modulus=modulus, spread=spread, tail=tail, covering=covering)
    rest |= dict(resolution=resolution, noise_norm=noise_norm, noise_trace=noise_trace)
    for name, value in rest.items():
        check_number(value, name, least=0)
    total, step = jnp.asarray(duration, float), jnp.asarray(step, float)
    eta = (1 - jnp.asarray(confidence, float)) / 6
    pieces = jnp.maximum(1.0, jnp.ceil(total))
    block = jnp.maximum(1.0, jnp.log(mixing_prefactor * pieces / eta) / mixing_rate)
    complexity = jnp.log(4 / eta) + covering
    discretisation = 2 * spread * total / eta * modulus
    brownian = 2 * noise_norm * envelope * jnp.sqrt(2 * total * complexity)
    brownian_net = 2 * resolution * noise_trace / eta * total / jnp.sqrt(step)
    average = envelope**2 * jnp.sqrt(2 * total * (block + step) * complexity)
    rest = 4 * envelope * resolution * total + tail * total
    return discretisation + brownian + brownian_net + average + rest  # type: ignore[return-value]
