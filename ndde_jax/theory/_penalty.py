"""Signal strengths as the paper defines them, and the window of penalties that they leave.

What can be estimated from data is estimated by
[`identifiability_report`][ndde_jax.identifiability_report]. The bound at the end rests on
constants that no data show, as those of `_finite_sample.py` do; they are formulas to explore, and
no guarantee is printed with them.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from .._axes import flat_inputs, from_flat_inputs
from .._checks import (
    check_concrete,
    check_non_negative,
    check_positive,
    check_real_array,
    check_whole,
    is_traced,
)
from .._memory import make_room
from .._types import Checked, Graph, Scores, floating_type, namespace_of, to_jax
from ..fit._refit import StrengthConfig, checked_graph, checked_refit
from ..measure._strength import rises_without
from ..select._default import recover, refitting_strategy
from ..select._strategies import MOST_INPUTS, exact_graph
from ..windows._windows import FlatData, Windows
from ._dissipativity import Batch, Number


def penalty_window(
    smallest_strength: Batch, largest_degree: Any, duration: Number = 1.0
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
    check_positive(duration=duration)
    check_non_negative(prefactor=prefactor, start=start, largest_delay=largest_delay)
    check_positive(rate=rate)
    if not is_traced(duration, largest_delay) and not duration > largest_delay:
        raise ValueError(f"duration must exceed largest_delay, {largest_delay}; got {duration}.")
    rate, duration = jnp.asarray(rate, float), jnp.asarray(duration, float)
    decay = jnp.exp(-rate * largest_delay) - jnp.exp(-rate * duration)
    return prefactor * (1 + start) * decay / (rate * (duration - largest_delay))  # type: ignore[return-value]


# 2^F networks per target: at eight inputs 256, some ten seconds.
MOST_SUBSETS = 8


class PaperStrengths(eqx.Module):
    """The strengths (s_ij^a)²: the excess risk of the best of *all* graphs without an edge over the
    best with it, as a share of the variance of the target's rate.

    - `value`: `[source target lag]`; NaN where not measured, which is where `graph` has no edge
        unless all subsets were tried.
    - `risk`: of the best graph of all, `[target]`.
    - `graph`: whose edges `smallest` and `window` are about.
    - `exhaustive`: whether every subset of the inputs was tried, or only the largest one without
        the edge, which in the limit of much data and flexible networks is the best.
    """

    value: Scores
    risk: Float[Array, "target"]
    graph: Graph
    exhaustive: bool = eqx.field(static=True)

    @property
    def smallest(self) -> Float[Array, ""]:
        """The smallest strength s²_min, over the edges of the graph; infinite without any."""
        return jnp.min(jnp.where(self.graph, self.value, jnp.inf))

    @property
    def largest_degree(self) -> Array:
        """The degree d_max, the largest number of inputs of a target."""
        return jnp.max(jnp.sum(self.graph, axis=(0, 2)))

    def window(self, duration: Number = 1.0) -> Float[Array, ""]:
        """Return the upper end of the penalties for which the paper proves recovery, 0 where there
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

    [`signal_strengths`][ndde_jax.signal_strengths] leaves an edge out and lets only the other edges
    of a selected graph make up for it. Here every other candidate may, so these strengths are at
    most those, up to errors of the fits, and near zero where another variable or lag says the same.
    The window of penalties of the paper's theorem is made from these.

    **Arguments:**

    - `windows`: of one system.
    - `key`: for the fits.
    - `graph`: `[source target lag]`, whose edges the window is about; by default the best of all
        subsets by [`EBIC`][ndde_jax.select.EBIC] where all are tried, otherwise what
        [`recover`][ndde_jax.recover] finds.
    - `config`: [`StrengthConfig`][ndde_jax.fitting.StrengthConfig].
    - `most_subsets`: up to so many candidate inputs per target, 8 by default and 12 at most, every
        subset is fitted; with more, all inputs, and for every edge all but that one.

    **Returns:** [`PaperStrengths`][ndde_jax.theory.PaperStrengths].

    **Raises:** as [`signal_strengths`][ndde_jax.signal_strengths]; inside `jit`.

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
        found = exact_graph(windows, key=key, config=config)
        chosen = found.graph if graph is None else graph
        value, risk = _of_all_subsets(found.subsets, found.risk, windows)
        return PaperStrengths(value, risk, chosen, True)
    if graph is None:
        select_key, key = jr.split(key)
        graph = recover(windows, refitting_strategy(windows, config), key=select_key).graph
    value, risk = complement_strengths(windows, graph, config, key)
    return PaperStrengths(value, risk, graph, False)


def _of_all_subsets(subsets, risk, windows: Windows) -> tuple[Scores, Float[Array, "target"]]:
    """Return the least risk of the subsets without an input, less the least of all that are
    allowed.
    """
    flat = np.asarray(subsets).reshape(len(subsets), -1)
    allowed = np.asarray(FlatData(windows).allowed)
    possible = ~(flat[None] & ~allowed[:, None]).any(axis=2)
    costs = np.where(possible, np.asarray(risk), np.inf)
    best = costs.min(axis=1)
    without = np.stack([costs[:, ~column].min(axis=1) for column in flat.T], axis=1)
    return jnp.asarray(from_flat_inputs(without - best[:, None])), jnp.asarray(best)


def complement_strengths(
    windows: Windows, graph: Graph, config: StrengthConfig, key: PRNGKeyArray
) -> tuple[Scores, Float[Array, "target"]]:
    """Return for every edge of a graph the rise of the risk from all candidates to all but that
    one, NaN elsewhere; and the risk of all.
    """
    make_room(windows, config, key)
    mask = flat_inputs(graph)
    unit = jnp.eye(mask.shape[1], dtype=bool)
    value, risk = rises_without(windows, unit, mask, config, key)
    return from_flat_inputs(value), risk
