"""The constants of the paper's theorems, as functions of their arguments.

What can be estimated from data is estimated by
[`identifiability_report`][ndde_jax.identifiability_report]. The bound at the end rests on
constants that no data show, as those of `_finite_sample.py` do; they are formulas to explore, and
no guarantee is printed with them.
"""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from .._checks import check_number, check_positive, check_real_array, is_traced
from .._types import Checked, RealScalarLike, floating_type, namespace_of, to_jax


def penalty_window(
    smallest_strength: Checked[Float[ArrayLike, "*batch"]],
    largest_degree: Any,
    duration: Checked[RealScalarLike] = 1.0,
) -> Float[Array, "*batch"]:
    """Return the upper end of the penalties that recover the true graph: (T − τ_max) s²_min /
    d_max.

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

    print(ndde.theory.penalty_window(0.12, 3))  # 0.04
    ```
    """
    check_real_array(smallest_strength, "smallest_strength", "one or a batch", least=0)
    check_real_array(largest_degree, "largest_degree", "counts of inputs", least=0)
    check_positive(duration, "duration")
    dtype = floating_type(smallest_strength)
    xp = namespace_of((smallest_strength, largest_degree, duration))
    strength, degree = xp.asarray(smallest_strength, dtype), xp.asarray(largest_degree, dtype)
    return to_jax(xp.asarray(duration, dtype) * strength / xp.maximum(degree, 1))


def recovery_margin(
    coefficient: Checked[Float[ArrayLike, "*batch"]],
    smallest_strength: Checked[RealScalarLike],
    largest_degree: Any,
    duration: Checked[RealScalarLike] = 1.0,
) -> Float[Array, "*batch"]:
    """Return the margin by which every wrong graph is worse: γ(λ) = min(λ, (T − τ_max) s²_min − λ
    d_max).

    Positive exactly inside the window of [`penalty_window`][ndde_jax.theory.penalty_window], and
    largest, (T − τ_max) s²_min / (d_max + 1), where its two terms meet. Arguments as there, and λ
    in the same units.

    ```python
    import ndde_jax as ndde

    print(ndde.theory.recovery_margin(0.03, 0.12, 3))  # 0.03
    ```
    """
    check_real_array(coefficient, "coefficient", "one or a batch", least=0)
    check_real_array(smallest_strength, "smallest_strength", "one or a batch", least=0)
    check_real_array(largest_degree, "largest_degree", "counts of inputs", least=0)
    check_positive(duration, "duration")
    given = (coefficient, smallest_strength, largest_degree, duration)
    xp, dtype = namespace_of(given), floating_type(coefficient)
    price, strength, degree, time = (xp.asarray(value, dtype) for value in given)
    return to_jax(xp.minimum(price, time * strength - price * degree))


def occupation_bound(
    duration: Checked[RealScalarLike],
    *,
    prefactor: Checked[RealScalarLike],
    rate: Checked[RealScalarLike],
    start: Checked[RealScalarLike] = 0.0,
    largest_delay: Checked[RealScalarLike] = 0.0,
) -> Float[Array, ""]:
    """Return a bound on the distance in total variation between the occupation measure up to T and
    the invariant law: C (1 + V) (e^{−γ τ} − e^{−γ T}) / (γ (T − τ)).

    **Arguments:**

    - `duration`: T.
    - `prefactor`, `rate`: C and γ of geometric ergodicity. Known to exist, not what they are.
    - `start`: V, mean squared distance of the initial history from the centre.
    - `largest_delay`: τ.

    The paper's remark "Stabilisation of the identifiability constants".

    ```python
    import ndde_jax as ndde

    print(ndde.theory.occupation_bound(100.0, prefactor=1.0, rate=0.5))  # 0.02
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
