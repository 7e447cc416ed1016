"""Lyapunov spectra of systems with and without delays, and the Kaplan–Yorke dimension."""

import math
from collections.abc import Callable
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import jax.scipy.linalg as jsl
from jaxtyping import Array, Float

from .._checks import check_real_array, check_whole
from .._memory import drop_programs_if_many
from .._types import Checked, floating_type, to_jax
from ..models._model import AbstractDelayModel
from . import _blocks
from ._problem import Problem
from ._read import check_counts, read_bounds, read_problem, read_system
from ._tableau import Tableau, read_solver

# Steps between two orthogonalisations without delays, where no block sets their number.
FREE_STEPS = 10
# Longest stretch between two orthogonalisations with delays.
LONGEST_BLOCK = 256
# A direction shorter than this many units of rounding is indistinguishable from rounding.
DIGITS = 1000
# Batches of consecutive blocks whose means give the standard error.
BATCHES = 20


class LyapunovSpectrum(eqx.Module):
    """The leading Lyapunov exponents.

    - `exponents`: descending, per unit of time, `[k]`; NaN if the path diverged or a delay lies
        outside its bounds; −∞ if a direction shrinks between two orthogonalisations by more than
        the precision can resolve (`e⁻⁹` in single precision, `e⁻²⁹` in double).
    - `standard_error`: from the means of 20 consecutive batches, `[k]`; NaN where the exponent is
        −∞.
    - `time`: the time over which growth was measured.
    """

    exponents: Float[Array, "k"]
    standard_error: Float[Array, "k"]
    time: Float[Array, ""]


def lyapunov_spectrum(
    drift: Checked[Callable | AbstractDelayModel],
    *,
    n_steps: Checked[int],
    history: Any = None,
    delays: Any = None,
    dt: Any = None,
    k: Checked[int | None] = None,
    transient_steps: Checked[int | None] = None,
    args: Any = None,
    solver: Checked[diffrax.AbstractSolver | None] = None,
    t0: Any = 0.0,
    delay_bounds: Checked[tuple[float, float] | None] = None,
    lag_bounds: Checked[tuple[float, float] | None] = None,
    lags: Any = None,
) -> LyapunovSpectrum:
    """Return leading Lyapunov exponents of dX/dt = G(t, X(t), X(t−τ₁), …), true or learned.

    Benettin's method. Without delays, tangents are propagated by `jax.jacfwd` of the flow map and
    orthogonalised every 10 steps (every step for Euler's method, which may represent a map). With
    delays, the state is the segment of the longest delay. The map over one block of the shortest
    delay is linearised once and applied to k tangent segments, which are orthogonalised as
    functions, in the L² norm on the grid. Works under `jit` and `vmap`.

    **Arguments:**

    - `drift`, `history`, `delays`, `dt`, `args`, `t0`, `delay_bounds`, `lags`, `lag_bounds`: as for
        [`solve_sdde`][ndde_jax.solve_sdde], without noise.
    - `n_steps`: steps over which growth is measured, rounded down to whole blocks. Standard errors
        fall with its square root; some hundred Lyapunov times give two digits.
    - `k`: number of exponents; by default all without delays, at most 4 with delays.
    - `transient_steps`: preceding steps, in which the path approaches its attractor and the
        tangents their directions; a tenth of `n_steps` by default, at least the longest delay.
    - `solver`: explicit Runge–Kutta method of Diffrax. `Bosh3` by default: its error falls with
        dt³, at a third of the cost of `Tsit5`. The standard errors do not include this error:
        halve the step to estimate it. Strong contraction needs the shortest steps.
        Use `Euler` for the exponents of the one-step map that a model was trained as.

    **Returns:** a [`LyapunovSpectrum`][ndde_jax.simulate.LyapunovSpectrum].

    **Raises:** `ValueError` as in `solve_sdde`, and for a `k` that exceeds the dimension of the
    (discretised) state or too few steps for 20 batches.

    Benettin et al., *Meccanica* 15 (1980); for delays Farmer, *Physica D* 4 (1982).

    ```python
    import jax.numpy as jnp
    import ndde_jax as ndde

    system = ndde.systems.get("mackey_glass")
    spectrum = ndde.lyapunov_spectrum(
        system.drift, lags=system.lags, dt=0.5, n_steps=20_000, history=system.history, k=3
    )
    print(spectrum.exponents, ndde.kaplan_yorke_dimension(spectrum))
    ```
    """
    check_counts(n_steps, 1)
    tableau = read_solver(diffrax.Bosh3() if solver is None else solver, noisy=False)
    given = read_system(drift, delays, lags, dt, history, None, noisy=False)
    problem = read_problem(given, args, t0, read_bounds(delay_bounds, lag_bounds), tableau)
    shape = problem.history.shape
    if len(shape) != 1:
        raise ValueError(f"history must be of one system, states [dim]; got states {shape}.")
    delayed = problem.delays.number > 0
    size = shape[0] * (problem.delays.longest + 1 if delayed else 1)
    k = (min(4, size) if delayed else size) if k is None else k
    check_whole(k, "k", least=-size)
    if not 1 <= k <= size:
        raise ValueError(f"k must be between 1 and {size}, the size of the state; got {k}.")
    # A map may shrink a direction in a few steps by more than the precision can resolve.
    free = 1 if tableau.order == 1 else FREE_STEPS
    block = _blocks.block_length(problem, LONGEST_BLOCK) if delayed else free
    n_blocks = n_steps // block
    if n_blocks < BATCHES:
        raise ValueError(
            f"n_steps must cover at least {BATCHES} blocks of {block} steps; got {n_steps}."
        )
    transient_steps = n_steps // 10 if transient_steps is None else transient_steps
    check_whole(transient_steps, "transient_steps", least=0)
    # The tangents become segments only after the longest delay.
    settle = -(-problem.delays.longest // block) + 1
    n_transient = max(-(-transient_steps // block), settle)
    drop_programs_if_many(problem)
    return _spectrum(problem, tableau, int(k), block, n_transient, n_blocks)


@eqx.filter_jit
def _spectrum(problem: Problem, tableau: Tableau, k, block, n_transient, n_blocks):
    problem.check()
    grow = _segment_growth if problem.delays.number else _flow_growth
    start, advance = grow(problem, tableau, k, block)

    def body(state, index):
        return advance(state, index * block)

    state, _ = jax.lax.scan(body, start, jnp.arange(n_transient))
    (path, _), growth = jax.lax.scan(body, state, n_transient + jnp.arange(n_blocks))
    # Tangents of a linear drift stay finite when the path diverges, as with steps too long.
    growth = jnp.where(jnp.all(jnp.isfinite(jax.tree.leaves(path)[0])), growth, jnp.nan)
    time = n_blocks * block * problem.dt
    exponents = jnp.sum(growth, axis=0) / time
    batch = n_blocks // BATCHES
    means = growth[: batch * BATCHES].reshape(BATCHES, batch, k).mean(axis=1)
    error = jnp.std(means / (block * problem.dt), axis=0, ddof=1) / jnp.sqrt(1.0 * BATCHES)
    order = jnp.argsort(-exponents)
    exponents, error = exponents[order], error[order].astype(exponents.dtype)
    if problem.delays.out_of_bounds is not None:
        exponents = exponents + problem.delays.out_of_bounds
    # A direction that shrinks this much between two orthogonalisations is rounding.
    digits = math.log(DIGITS * float(jnp.finfo(exponents.dtype).eps))
    lost = exponents < exponents[0] + digits / (block * problem.dt)
    exponents, error = jnp.where(lost, -jnp.inf, exponents), jnp.where(lost, jnp.nan, error)
    return LyapunovSpectrum(exponents, error, time)


def _flow_growth(problem, tableau, k, block):
    """Return the growth without delays: a full Jacobian of the flow map."""
    y, records = _blocks.start(problem, tableau)

    def flow(y, first):
        (y, _), _ = _blocks.block(problem, tableau, (y, records), first, None, block, None)
        return y

    def advance(state, first):
        y, frame = state
        frame, triangle = jnp.linalg.qr(jax.jacfwd(flow)(y, first) @ frame)
        return (flow(y, first), frame), _log_diagonal(triangle)

    frame = jnp.linalg.qr(jr.normal(jr.key(0), (y.shape[0], k), y.dtype))[0]
    return (y, frame), advance


def _segment_growth(problem, tableau, k, block):
    """Return the growth with delays: k tangents of the segment map.

    The state between blocks is the present point and the records of past steps. Records determine
    the segment redundantly; only the values at the ends of steps enter the norm.
    """
    carry = _blocks.start(problem, tableau)

    def segment(carry, first):
        return _blocks.block(problem, tableau, carry, first, None, block, None)[0]

    def advance(state, first):
        carry, tangents = state
        carry, linear = jax.linearize(lambda carry: segment(carry, first), carry)
        tangents = jax.vmap(linear)(tangents)
        triangle = jnp.linalg.qr(tangents[1][:, :, 1].reshape(k, -1).T, mode="r")
        # A direction that vanishes, as in a map that forgets the past, stays zero.
        gone = jnp.diag((jnp.diagonal(triangle) == 0).astype(triangle.dtype))

        def unmix(leaf):
            flat = leaf.reshape(k, -1)
            return jsl.solve_triangular(triangle + gone, flat, trans="T").reshape(leaf.shape)

        return (carry, jax.tree.map(unmix, tangents)), _log_diagonal(triangle)

    keys = jr.split(jr.key(0))
    tangents = tuple(
        jr.normal(key, (k, *leaf.shape), leaf.dtype) for key, leaf in zip(keys, carry, strict=True)
    )
    return (carry, tangents), advance


def _log_diagonal(triangle):
    return jnp.log(jnp.abs(jnp.diagonal(triangle)))


def kaplan_yorke_dimension(
    spectrum: LyapunovSpectrum | Float[Array, "*batch k"] | Any,
) -> Float[Array, "*batch"]:
    """Return the Kaplan–Yorke (Lyapunov) dimension j + (λ₁ + … + λ_j) / |λ_{j+1}|.

    j is the largest number of leading exponents whose sum is not negative.

    **Arguments:**

    - `spectrum`: a [`LyapunovSpectrum`][ndde_jax.simulate.LyapunovSpectrum], or exponents in any
        order.

    **Returns:** the dimension: 0 if all exponents are negative (a fixed point); k, a lower bound,
    if the sum of all k is not negative (compute more of them); NaN if any exponent is NaN.

    Kaplan and Yorke, *Lecture Notes in Mathematics* 730 (1979).

    ```python
    import ndde_jax as ndde

    print(ndde.kaplan_yorke_dimension([0.906, 0.0, -14.57]))  # 2.062
    ```
    """
    if isinstance(spectrum, LyapunovSpectrum):
        spectrum = spectrum.exponents
    check_real_array(spectrum, "spectrum", "exponents [k]")
    exponents = to_jax(spectrum, floating_type(spectrum))
    if exponents.ndim == 0 or exponents.shape[-1] == 0:
        raise ValueError("spectrum must hold at least one exponent, an array [k].")
    return _dimension(exponents)


@jax.jit
def _dimension(exponents: Float[Array, "*batch k"]) -> Float[Array, "*batch"]:
    ordered = -jnp.sort(-exponents, axis=-1)
    sums = jnp.cumsum(ordered, axis=-1)
    k = exponents.shape[-1]
    j = jnp.sum(jnp.cumprod((sums >= 0).astype(jnp.int32), axis=-1), axis=-1)
    last = jnp.take_along_axis(sums, jnp.clip(j - 1, 0, k - 1)[..., None], axis=-1)[..., 0]
    after = jnp.take_along_axis(ordered, jnp.clip(j, 0, k - 1)[..., None], axis=-1)[..., 0]
    inside = (j > 0) & (j < k)
    part = jnp.where(inside, last / jnp.where(inside, jnp.abs(after), 1), 0)
    dimension = j.astype(exponents.dtype) + part
    return jnp.where(jnp.any(jnp.isnan(exponents), axis=-1), jnp.nan, dimension)
