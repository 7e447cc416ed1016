"""Coefficients that are whole numbers, or equal in size, as far as data can tell.

The law says x' = 10 (y − x), not x' = 10.1 y − 9.96 x. A number that need not be estimated brings
no error into a forecast, and of x and y that are nearly alike the sum of their coefficients is what
data determine worst.
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from .._order import after

# Keeps collinear terms from breaking a factorisation in single precision.
RIDGE = 1e-5
# Added to a risk, a share of variance: what corrected differences err anyway.
FLOOR = 1e-7


def simplify(
    design: Float[Array, "row term"],
    target: Float[Array, "row"],
    kept: Bool[Array, "term"],
    unit: Float[Array, "term"],
    degree: Int[Array, "term"],
    n: Float[Array, ""],
) -> tuple[Float[Array, "term"], Float[Array, ""], Float[Array, ""]]:
    """Fit least squares on the kept terms, with some coefficients whole and some equal in size.

    A coefficient c is a real number, of any size with the same density, or a whole number m with
    odds 1/|m|. Two of terms of the same degree (which have one unit if their variables have) differ
    in size by anything up to their own, or not at all, with odds 1/(number of such pairs). With
    standard errors s of c, and of the difference d of the sizes, that makes odds of

        exp(−(c − m)²/2s²) / (√(2π) s |m|)    and    exp(−d²/2s²) / (√(2π) s) · size / pairs .

    While any are above one, the largest decide, and everything else is fitted anew.

    **Arguments:**

    - `design`, `target`: rows whose mean squared error is the risk times `n`; the triangular factor
        of all data will do.
    - `unit`: coefficients times this are those of the law, 0 for those without such a unit, which
        stay as they are.
    - `n`: number of data, of which the total variance is 1.

    **Returns:** coefficients, sum of squared errors, and how many numbers were estimated.
    """
    n_terms, dtype = len(kept), design.dtype
    scale = jnp.where(unit != 0, unit, 1)
    columns = design / scale[None]  # of coefficients in the units of the law
    usable = unit != 0
    alike = (degree[:, None] == degree[None]) & (degree > 0)[:, None]
    alike = alike & usable[:, None] & usable[None]
    upper = jnp.triu(jnp.ones((n_terms, n_terms), bool), 1)
    density = math.sqrt(2 * math.pi)

    def fit(columns, target, groups, held):
        """Return the values of all groups of terms, their covariance, and the squared error."""
        grouped = columns @ groups
        square = jnp.sum(grouped**2, axis=0)
        free = square > 0
        norm = jnp.sqrt(jnp.where(free, square, 1))  # the root of 0 has no derivative
        pivots = jnp.where(free, RIDGE, 1.0).astype(dtype)
        q, r = jnp.linalg.qr(jnp.concatenate([grouped / norm[None], jnp.diag(pivots)]))
        inverse = jax.scipy.linalg.solve_triangular(r, after(jnp.eye(n_terms, dtype=dtype), q))
        rest = target - columns @ held
        values = jnp.where(free, inverse @ (q[: len(design)].T @ rest), 0) / norm
        error = jnp.sum((rest - grouped @ values) ** 2)
        covariance = (inverse @ inverse.T) / (norm[:, None] * norm[None]) * (error + FLOOR) / n
        return values, covariance, error, free

    # Decisions have no derivative, and a loop of unknown length none in reverse.
    decided_on = jax.lax.stop_gradient((columns, target))

    def moves(state):
        """Return the odds of holding each group at a whole number, and of joining each pair."""
        values, covariance, _, free = fit(*decided_on, *state)
        variance = jnp.diag(covariance)
        whole = jnp.round(values)
        possible = free & usable & (whole != 0)
        spread = jnp.where(possible, variance, 1)
        odds = -((values - whole) ** 2) / (2 * spread)
        odds -= jnp.log(density * jnp.sqrt(spread) * jnp.maximum(jnp.abs(whole), 1))
        hold = jnp.where(possible, odds, -jnp.inf)

        size, sign = jnp.abs(values), jnp.sign(values)
        pairs = upper & alike & free[:, None] & free[None]
        same = sign[:, None] * sign[None]
        spread = variance[:, None] + variance[None] - 2 * same * covariance
        spread = jnp.where(pairs & (spread > 0), spread, 1)
        odds = -((size[:, None] - size[None]) ** 2) / (2 * spread)
        odds += jnp.log(jnp.minimum(size[:, None], size[None]) + jnp.finfo(dtype).tiny)
        odds -= jnp.log(density * jnp.sqrt(spread) * jnp.maximum(jnp.sum(pairs), 1).astype(dtype))
        join = jnp.where(pairs, odds, -jnp.inf)
        return hold, join, whole, same

    def step(state):
        groups, held, hold, join, whole, same = state
        best = jnp.argmax(hold)
        first, second = jnp.unravel_index(jnp.argmax(join), join.shape)
        members = groups[:, second]
        joined = groups.at[:, first].add(same[first, second] * members).at[:, second].set(0)
        fixed = held + whole[best] * groups[:, best]
        holds = hold[best] >= join[first, second]
        groups = jnp.where(holds, groups.at[:, best].set(0), joined)
        held = jnp.where(holds, fixed, held)
        return groups, held, *moves((groups, held))

    def worthwhile(state):
        return jnp.maximum(jnp.max(state[2]), jnp.max(state[3])) > 0

    start = (jnp.diag(kept.astype(dtype)), jnp.zeros(n_terms, dtype))
    groups, held, *_ = jax.lax.while_loop(worthwhile, step, (*start, *moves(start)))
    values, _, error, free = fit(columns, target, groups, held)
    return (groups @ values + held) / scale, error, jnp.sum(free).astype(dtype)
