"""Stepwise search for the inputs of a rate: add, drop and exchange while the criterion falls.

A regression on features depends on a record only through inner products (sufficient statistics), so
no move costs a pass over the windows. The active set is small. In forward selection, the gain from
a candidate is a Schur complement given the active set. In backward elimination, the loss without a
member follows from its block of the inverse, which also gives the gain from every candidate in its
place: an exchange.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Bool, Float, Int

from .._types import namespace_of
from ._summed import Sums

# Levels of a group of features: unused, its first feature alone (linear), or all of them (curved).
OUT, LINE, CURVE = 0, 1, 2
# Most groups of a target, and the room for groups at first if there are more than `MANY` candidates
# with several features: the time of a move grows with all three, but each room is another program.
MOST, FIRST_ROOM, MANY = 12, 6, 64
# How often a group, or its nonlinear part, is dropped because its contribution is negligible. It
# may return with others that then become negligible, in an endless cycle.
RETURNS = 2
# A move must lower the criterion by this much.
PROGRESS = 1e-3
# Share of a variance below which further explanation is negligible, because difference quotients
# have errors.
FLOOR = 1e-4
# Relative size of a feature orthogonal to those before it, below which it is rounding error.
REDUNDANT = 1e-8
# Width up to which elimination is unrolled.
WRITTEN_OUT = 8
# Numbers of groups whose pairs are all tried at the start, with all their columns or as linear
# features; among more groups, those that explain most individually.
PAIRED, PAIRED_LINES = 128, 1024
# Least number of windows per column.
WINDOWS_PER_COLUMN = 4


def ridge_of(dtype: Any) -> float:
    """Return the ridge that keeps a Cholesky factorisation of redundant unit features stable."""
    return 1e-7 if np.dtype(dtype) == np.float64 else 1e-5


# With these options the programs compile in a fraction of the time and run as fast to within a
# twentieth: XLA's older emitters, less optimisation, and two parallel modules instead of 32.
LEVEL = "xla_backend_optimization_level"
MODULES = "xla_cpu_parallel_codegen_split_count"
COMPILER_OPTIONS: dict[str, bool | int] = {
    "xla_cpu_use_fusion_emitters": False,
    LEVEL: 1,
    MODULES: 2,
}
# Without any optimisation, the work is too little for parallel modules.
QUICK_OPTIONS = {**COMPILER_OPTIONS, LEVEL: 0, MODULES: 1}


def known_options(options: Mapping[str, bool | int]) -> dict[str, bool | int]:
    """Return the compiler options that this release supports. The older emitters are gone since
    jaxlib 0.11.1, and an unknown option makes compilation fail.
    """

    def known(name: str) -> bool:
        try:
            jax.jit(lambda: 0, compiler_options={name: options[name]})()
        except jax.errors.JaxRuntimeError:
            return False
        return True

    return {name: value for name, value in options.items() if known(name)}


class Problem(NamedTuple):
    """The inner products of centred features and targets, with the prices of a model on them.

    Features come in groups of equal width, the first feature of a group being the linear one.
    `present` says which features exist; these are orthonormal within their group.

    - `gram`, `cross`, `power`: XᵀX `[group width group width]`, Xᵀy `[target group width]` and yᵀy
        `[target]`.
    - `n`: number of independent windows.
    - `choices`: number of inputs among which k are chosen, which costs
        2 log (choices choose k) (Chen and Chen, 2008). A choice of m products of two of these costs
        2 log (k (k − 1) / 2 choose m).
    - `price`: further cost of a group, in units of twice the log likelihood.
    - `charge`: number of columns charged for an input, however it is used, `[group]`; a product
        then costs one more. If 0, the columns in use are charged: a linear term is nested in its
        spline at the cost of one.
    - `reads`: the inputs that each group reads, `[group 2]`, by the number of the input's own
        group: twice its own number, or the two inputs of a product.
    - `allowed`: groups that a target may have, `[target group]`.
    - `required`: inputs that some group of a target must read, `[target group]`, by the number of
        their own group.
    """

    gram: Any
    cross: Any
    power: Any
    present: Any
    n: Any
    choices: Any
    price: Any
    charge: Any
    reads: Any
    allowed: Any
    required: Any

    @classmethod
    def of(cls, sums: Sums, width: int, *, n: Any) -> "Problem":
        """Return the problem of one block of sums over features in groups of equal width, at the
        default prices and with every group allowed.

        A feature that the earlier ones of its group explain up to rounding becomes zero.

        - `n`: number of independent windows.
        """
        xp = namespace_of(sums)
        total = xp.maximum(sums.weight[0], 1e-300)
        mean, center = sums.x[0] / total, sums.y[0] / total
        gram = sums.xx[0] - total * mean[:, None] * mean[None]
        cross = (sums.xy[0] - total * mean[:, None] * center[None]).T
        n_groups, n_targets = len(mean) // width, len(center)
        shape, each = (n_groups, width, n_groups, width), np.arange(n_groups)
        gram = gram.reshape(shape)
        # The uncentred size is the scale of rounding errors of the centred products.
        size = xp.diagonal(sums.xx[0]).reshape(n_groups, width)
        matrix, present = _orthonormal(gram[each, :, each, :], size)
        gram = xp.einsum("gai,gahb->gihb", matrix, gram, optimize=True)
        return cls(
            gram=xp.einsum("gihb,hbj->gihj", gram, matrix, optimize=True),
            cross=xp.einsum("tga,gai->tgi", cross.reshape(-1, n_groups, width), matrix),
            power=sums.yy[0] - total * center**2,
            present=present,
            n=np.asarray(n, float),
            choices=np.asarray(n_groups, float),
            price=np.zeros(n_groups),
            charge=np.zeros(n_groups, np.int32),
            reads=each_alone(n_groups),
            allowed=np.ones((n_targets, n_groups), bool),
            required=np.zeros((n_targets, n_groups), bool),
        )

    def of_targets(self, rows: Any) -> "Problem":
        """Return the problem of some targets."""
        names = ("cross", "power", "allowed", "required")
        return self._replace(**{name: getattr(self, name)[rows] for name in names})


def _orthonormal(own: Any, size: Any) -> tuple[Any, Any]:
    """Return the matrices that orthonormalise the features of each group, `[group width width]`,
    and which features are `present`, from inner products within groups and the features' `size`.

    Unrolled Gram–Schmidt: the rows of the inverse of the Cholesky factor.
    """
    xp, (n_groups, width) = namespace_of((own, size)), size.shape
    rows: list[Any] = []
    present: list[Any] = []
    for k in range(width):
        row = xp.zeros((n_groups, width)) + np.eye(width)[k]
        for other in rows:
            along = xp.einsum("gi,gij,gj->g", other, own, row)
            row = row - along[:, None] * other
        left = xp.einsum("gi,gij,gj->g", row, own, row)
        here = left > REDUNDANT * xp.maximum(size[:, k], 1e-300)
        here = here & (own[:, k, k] > REDUNDANT * size[:, k])
        row = xp.where(here[:, None], row / xp.sqrt(xp.where(here, left, 1))[:, None], 0)
        rows.append(row)
        present.append(here)
    return xp.stack(rows, axis=-1), xp.stack(present, axis=-1)


def each_alone(n_groups: int) -> Int[np.ndarray, "group 2"]:
    """Return the inputs that groups read, `[group 2]`, if each group has its own input."""
    return np.repeat(np.arange(n_groups, dtype=np.int32)[:, None], 2, axis=1)


class Selection(NamedTuple):
    """The groups that a search selected for every target, with its risk and criterion.

    - `level`: OUT, LINE or CURVE.
    - `risk`: unexplained share of the variance.
    - `cost`: the criterion, n log(risk + 10⁻⁴) plus all prices; comparable between searches of the
        same rates.
    - `change`: rise of log(risk + 10⁻⁴) without a chosen group, or its fall with another group.
    - `ended`: whether no move was left, as opposed to reaching the limit of steps.
    """

    level: Any
    risk: Any
    cost: Any
    change: Any
    ended: Any

    def of_targets(self, rows: Any) -> "Selection":
        """Return the selection of some targets, or of one."""
        return Selection(*(part[rows] for part in self))


def best_of(found: Sequence[Selection]) -> Selection:
    """Return the cheapest of several selections for every target."""
    best = np.stack([one.cost for one in found]).argmin(axis=0)
    rows = np.arange(len(best))
    return Selection(*(np.stack(parts)[best, rows] for parts in zip(*found, strict=True)))


def columns_price(n: Any, columns: Any) -> Any:
    """Return the price of a number of columns for n windows, in units of twice the log likelihood.

    Each column costs log n in long records, and n / (n − columns − 2) times as much in short ones
    (Hurvich and Tsai, 1989, have this factor for Akaike's criterion; McQuarrie, 1999, for
    Schwarz'). A model has at most one column per four windows, so that none wins by interpolation.
    """
    xp = namespace_of((n, columns))
    may = (columns * WINDOWS_PER_COLUMN <= n) & (columns + 2 < n)
    return xp.where(may, columns * xp.log(n) * n / xp.where(may, n - columns - 2, 1), xp.inf)


def log_choices(n: Any, k: Any) -> Any:
    """Return log (n choose k), constant for k above n/2, so that it never falls with k."""
    if namespace_of((n, k)) is np:
        k = min(int(k), int(n) // 2)
        return math.lgamma(n + 1.0) - math.lgamma(k + 1.0) - math.lgamma(n - k + 1.0)
    n, k = jnp.asarray(n), jnp.minimum(k, n // 2)
    whole, some, rest = (jax.lax.lgamma(jnp.asarray(a + 1, float)) for a in (n, k, n - k))
    return whole - some - rest


@functools.cache
def _choices_of_products(most: int) -> Float[np.ndarray, "number product"]:
    """Return the log number of ways to choose m products of two of k inputs."""
    pairs = [k * (k - 1) // 2 for k in range(2 * most + 1)]
    return np.array([[log_choices(p, min(m, p)) for m in range(most + 1)] for p in pairs])


def _price_of_choices(n: Float[Array, ""], most: int) -> Float[Array, "number product"]:
    """Return the price of choosing k = 0 … 2 most of n inputs and m = 0 … most products of two of
    these.
    """
    k = jnp.arange(2 * most, dtype=n.dtype)
    each = jnp.maximum(jnp.log(jnp.maximum(n - k, 1) / (k + 1)), 0)
    sums = np.tri(2 * most + 1, 2 * most, -1, bool)
    inputs = jnp.sum(jnp.where(sums, each[None], 0), axis=1)
    return 2 * (inputs[:, None] + _choices_of_products(most).astype(n.dtype))


def _at(values: Any, places: Any) -> Any:
    """Return rows of an array at valid places, without a bounds check, which takes longer to
    compile than all the rest.
    """
    return values.at[places].get(mode="promise_in_bounds", wrap_negative_indices=False)


def quadratic_forms(a: Any, b: Any) -> Any:
    """Return bᵀ a⁻¹ b for the leading parts of sizes 1 … width, `[*batch width]`.

    Unrolled elimination: for small matrices, LAPACK calls cost more than the arithmetic.
    """
    xp, width = namespace_of((a, b)), b.shape[-1]
    if width > WRITTEN_OUT:
        root = xp.linalg.cholesky(a)
        solve = np.linalg.solve if xp is np else functools.partial(solve_triangular, lower=True)
        return xp.cumsum(solve(root, b[..., None])[..., 0] ** 2, axis=-1)
    rows = [[a[..., i, j] for j in range(i + 1)] for i in range(width)]
    right, total, parts = [b[..., i] for i in range(width)], 0.0, []
    for k in range(width):
        pivot = rows[k][k]
        total = total + right[k] * right[k] / pivot
        parts.append(total)
        for i in range(k + 1, width):
            factor = rows[i][k] / pivot
            right[i] = right[i] - factor * right[k]
            for j in range(k + 1, i + 1):
                rows[i][j] = rows[i][j] - factor * rows[j][k]
    return xp.stack(parts, axis=-1)


def best_pairs(problem: Problem) -> Int[np.ndarray, "target group"]:
    """Return, for every target, the levels of the two groups that together explain most of it, on
    the host: a start for groups that explain little individually.
    """
    width = problem.present.shape[1]
    eye = ridge_of(problem.gram.dtype) * np.eye(2 * width)
    level = np.full(problem.allowed.shape, OUT, np.int32)
    for j, cross in enumerate(problem.cross):
        alone = np.where(problem.allowed[j], (cross**2).sum(axis=1), -1)
        among = np.sort(np.argsort(-alone, kind="stable")[:PAIRED])
        among = among[alone[among] >= 0]
        best = 0.0
        for place, first in enumerate(among[:-1]):
            second = among[place + 1 :]
            matrix = np.tile(eye, (len(second), 1, 1))
            across = problem.gram[first][:, second].transpose(1, 0, 2)
            matrix[:, :width, :width] += problem.gram[first, :, first]
            matrix[:, width:, width:] += problem.gram[second, :, second]
            matrix[:, :width, width:], matrix[:, width:, :width] = across, across.swapaxes(1, 2)
            ends = np.broadcast_to(cross[first], cross[second].shape)
            ends = np.concatenate([ends, cross[second]], axis=1)
            explained = (ends * np.linalg.solve(matrix, ends[..., None])[..., 0]).sum(axis=1)
            if explained.max() > best:
                best = explained.max()
                level[j] = OUT
                level[j, [first, second[explained.argmax()]]] = CURVE
    return level


def best_pair_of_lines(
    gram: Float[Any, "group group"], cross: Float[Any, " group"], allowed: Bool[Any, " group"]
) -> Int[Any, " group"]:
    """Return the levels of the two groups that together explain most as linear features, from the
    inner products of these: a start for groups that explain little individually, such as two levels
    of a slow variable of which only the difference matters.
    """
    xp = namespace_of((gram, cross))
    size = gram.diagonal()
    usable = allowed & (size > 0)
    alone = xp.where(usable, cross**2 / xp.where(usable, size, 1), -1)
    among = xp.argsort(-alone, stable=True)[:PAIRED_LINES]
    c, own, across = cross[among], size[among], gram[among][:, among]
    square = own[:, None] * own[None]
    left = square - across**2
    pairs = usable[among][:, None] & usable[among][None] & (left > REDUNDANT * square)
    pairs = pairs & ~np.eye(among.shape[0], dtype=bool)
    both = c[:, None] ** 2 * own[None] + c[None] ** 2 * own[:, None]
    both = both - 2 * c[:, None] * c[None] * across
    explained = xp.where(pairs, both / xp.where(pairs, left, 1), -1)
    first, second = xp.unravel_index(explained.argmax(), explained.shape)
    chosen = xp.arange(len(size))[:, None] == among[xp.stack([first, second])][None]
    return xp.where(pairs.any() & chosen.any(axis=1), LINE, OUT).astype(np.int32)


class _State(eqx.Module):
    """The active groups in slots, free ones having level OUT; how often each group, or its
    nonlinear part, was dropped as negligible; and whether the last of `steps` steps was a move.
    """

    slot: Int[Array, "slot"]
    level: Int[Array, "slot"]
    gone: Int[Array, "group"]
    moved: Bool[Array, ""]
    steps: Int[Array, ""]


class _Fit(eqx.Module):
    """The least squares fit of the columns in use.

    - `rss`: residual sum of squares.
    - `rise`: rise of `rss` without the nonlinear part of a member, and without the member.
    - `left`, `rest`: inner products of all columns with the target, and within their group, after
        projection on the orthogonal complement of the columns in use.
    - `root`, `back`: the Cholesky factor of each member's block of the inverse, and the inverse of
        the factor of all columns in use; `columns`, `target`: the columns of all groups, and the
        target, multiplied by the latter.
    """

    rss: Float[Array, ""]
    rise: Float[Array, "2 slot"]
    left: Float[Array, "group width"]
    rest: Float[Array, "group width width"]
    root: Float[Array, "slot width width"]
    back: Float[Array, "slot width column"]
    columns: Float[Array, "column value"]
    target: Float[Array, "column"]

    def without(self, slot: Int[Array, ""]) -> tuple[Any, Any, Any]:
        """Return the residual sum of squares, `left` and `rest` without the member in a slot: the
        contribution of its columns is added back.
        """
        own = jax.lax.linalg.triangular_solve(
            _at(self.root, slot), _at(self.back, slot), left_side=True, lower=True
        )
        columns, lost = own @ self.columns, own @ self.target
        columns = columns.reshape(-1, *self.left.shape)
        # Sums of products of a few columns take half as long as their matrix products.
        rest = self.rest + jnp.sum(columns[..., :, None] * columns[..., None, :], axis=0)
        left = self.left + jnp.sum(columns * lost[:, None, None], axis=0)
        return self.rss + jnp.sum(lost**2), left, rest


class _Move(eqx.Module):
    """The best move examined so far: first from the present model, then into the place of each
    member in turn.

    - `trial`: the slot that is emptied, or −1; `next`: the following one, −1 at first.
    - `best`, `cost`: the number of the move, and the cost of the model after it; `now`: before it.
    - `must`: members that have to stay.
    - `gain`: what the unused columns of a group explain in addition to the present model.
    """

    trial: Int[Array, ""]
    next: Int[Array, ""]
    best: Int[Array, ""]
    cost: Float[Array, ""]
    now: Float[Array, ""]
    must: Bool[Array, "slot"]
    gain: Float[Array, "group"]


def _columns_on(present, level):
    """Return which columns of groups at given levels are in use, `[... width]`."""
    first = jnp.broadcast_to(jnp.arange(present.shape[-1]) == 0, present.shape)
    return present & ((level == CURVE)[..., None] | ((level == LINE)[..., None] & first))


def _fit(problem: Problem, cross, power, slot, levels) -> _Fit:
    """Return the fit of the groups in slots at `levels`."""
    gram, (n_groups, width) = problem.gram, problem.present.shape
    ridge = ridge_of(cross.dtype)
    most, size = slot.shape[0], slot.shape[0] * width
    on = _columns_on(_at(problem.present, slot), levels).reshape(-1)
    outer = jnp.where(on[:, None], _at(gram, slot).reshape(size, -1), 0)
    inner = _at(outer.reshape(size, n_groups, width).swapaxes(0, 1), slot).swapaxes(0, 1)
    inner = jnp.where(on[None], inner.reshape(size, size), 0)
    inner = inner + jnp.diag(jnp.where(on, ridge, 1).astype(inner.dtype))
    c = jnp.where(on, _at(cross, slot).reshape(-1), 0)
    root = jnp.linalg.cholesky(inner, symmetrize_input=False)
    # One product with the inverse of a small factor; solving for every column takes three times as
    # long.
    eye = jnp.eye(size, dtype=c.dtype)
    back = jax.lax.linalg.triangular_solve(root, eye, left_side=True, lower=True)
    columns, target = back @ outer, back @ c

    # Outside the active set: the Schur complement of every column.
    each = np.arange(n_groups)
    own = gram[each, :, each, :] + ridge * np.eye(width, dtype=c.dtype)[None]
    each_group = columns.reshape(size, n_groups, width)
    rest = own - jnp.einsum("kfi,kfj->fij", each_group, each_group)
    left = cross - (target @ columns).reshape(n_groups, width)
    # Inside: a member's block of the inverse gives what its columns explain given the others; the
    # linear column comes last, so that the part before it is nonlinear.
    back = back.T.reshape(most, width, size)[:, ::-1]
    block = jnp.linalg.cholesky(jnp.einsum("aik,ajk->aij", back, back), symmetrize_input=False)
    lost = (back @ target)[..., None]
    lost = jax.lax.linalg.triangular_solve(block, lost, left_side=True, lower=True)[..., 0] ** 2
    rise = jnp.stack([jnp.sum(lost[:, :-1], axis=1), jnp.sum(lost, axis=1)])
    return _Fit(power - target @ target, rise, left, rest, block, back, columns, target)


def _gains(free, left, rest):
    """Return what the linear column and all unused columns of a group explain, `[2 group]`."""
    # Unit vectors in place of the columns in use.
    eye = jnp.eye(free.shape[-1], dtype=left.dtype)
    matrix = jnp.where(free[:, :, None] & free[:, None, :], rest, eye[None])
    explained = quadratic_forms(matrix, jnp.where(free, left, 0))
    return jnp.stack([explained[:, 0], explained[:, -1]])


def _search_target(problem: Problem, cross, power, allowed, required, start, most: int):
    n_groups, dtype = problem.present.shape[0], cross.dtype
    power = jnp.where(power > 0, power, 1)
    widths, reads = jnp.sum(problem.present, axis=1, dtype=jnp.int32), problem.reads
    curved, paired = widths > 1, reads[:, 0] != reads[:, 1]
    second = jnp.stack([jnp.ones_like(paired), paired], axis=1)  # not the first one again
    charge = jnp.where(second, _at(problem.charge, reads), 0)
    free_of_charge = charge[:, 0] == 0
    as_paired = paired.astype(jnp.int32)
    as_line = jnp.where(free_of_charge, jnp.minimum(widths, 1), as_paired)
    as_curve = jnp.where(free_of_charge, widths, as_paired)
    must_be_read = second & _at(required, reads)
    by_choice = _price_of_choices(problem.choices, most)
    slots, groups = np.arange(most, dtype=np.int32), np.arange(n_groups, dtype=np.int32)
    group_table = jnp.concatenate(
        [
            jnp.stack([as_paired, curved.astype(jnp.int32), as_line, as_curve], axis=1),
            reads,
            charge,
            must_be_read.astype(jnp.int32),
        ],
        axis=1,
    )

    def cost(rss, columns, number, products, paid):
        explained = problem.n * jnp.log(jnp.maximum(rss, 0) / power + FLOOR)
        chosen = _at(by_choice.ravel(), number * (most + 1) + products)
        return explained + columns_price(problem.n, columns.astype(dtype)) + chosen + paid

    def readers(reads, paired, held):
        """Return how many of the held groups read each input."""
        both = (reads[:, :1] == groups[None]).astype(jnp.int32)
        both = both + (paired[:, None] & (reads[:, 1:] == groups[None])).astype(jnp.int32)
        return jnp.sum(jnp.where(held[:, None], both, 0), axis=0, dtype=jnp.int32)

    def move(carry):
        state, _ = carry
        here = state.slot[:, None] == groups[None]
        level = jnp.max(jnp.where(here, state.level[:, None], OUT), axis=0)
        fit = _fit(problem, cross, power, state.slot, state.level)
        free = problem.present & ~_columns_on(problem.present, level)
        held, table = state.level > OUT, _at(group_table, state.slot)
        pair, bends, line, curve = (table[:, k] for k in range(4))
        pair, bends = pair > 0, bends > 0
        own_price = _at(problem.price, state.slot)
        own = jnp.where(held, jnp.where(state.level == LINE, line, curve), 0)

        # Negligible groups are dropped, whatever the criterion.
        nothing = (fit.rise < FLOOR * power) & (_at(state.gone, state.slot) < RETURNS)[None]
        new, straight = allowed & (level == OUT), level == LINE

        def look(seen):
            """Return the best move from the present model, or into the place of one member."""
            whole, members = seen.next < 0, held & (slots != seen.next)
            rss, left, rest = jax.lax.cond(
                whole, lambda: (fit.rss, fit.left, fit.rest), lambda: fit.without(seen.next)
            )
            gain = _gains(free, left, rest)
            uses = readers(table[:, 4:6], pair, members)
            charged = jnp.sum(jnp.where(uses > 0, problem.charge, 0), dtype=jnp.int32)
            columns = jnp.sum(jnp.where(members, own, 0), dtype=jnp.int32) + charged
            number = jnp.sum(uses > 0, dtype=jnp.int32)
            products = jnp.sum(members & pair, dtype=jnp.int32)
            paid = jnp.sum(jnp.where(members, own_price, 0))
            unread = (_at(uses, reads) == 0) & second
            # Add a group, linear or curved; or the nonlinear part of a linear group in use.
            joins = new & (jnp.sum(members) < most)
            # A product adds the linear terms of its inputs unless these are in use.
            lined = jnp.any(here & members[:, None], axis=0)
            bent = curved & ~(paired & jnp.all(_at(lined, reads), axis=1))
            may = jnp.stack([joins, bent & (joins | (straight & whole))])
            more = jnp.stack([as_line, as_curve])
            more = jnp.where(straight[None], (as_curve - as_line)[None], more)
            charged = jnp.sum(jnp.where(unread, charge, 0), axis=1, dtype=jnp.int32)
            add = cost(
                rss - gain,
                columns + more + jnp.where(new, charged, 0)[None],
                (number + jnp.where(new, jnp.sum(unread, axis=1, dtype=jnp.int32), 0))[None],
                (products + jnp.where(new, as_paired, 0))[None],
                (paid + jnp.where(new, problem.price, 0))[None],
            )
            add = jnp.where(may & (gain >= FLOOR * power), add, jnp.inf).ravel()
            # Drop a nonlinear part, or a group together with the inputs that no other group reads.
            last = _at(uses, table[:, 4:6]) == 1
            last = last & jnp.stack([jnp.ones_like(pair), pair], axis=1)
            must = jnp.where(whole, jnp.any(last & (table[:, 8:] > 0), axis=1), seen.must)
            none = jnp.zeros_like(own)
            freed = own + jnp.sum(jnp.where(last, table[:, 6:8], 0), axis=1, dtype=jnp.int32)
            drop = cost(
                rss + fit.rise,
                columns - jnp.stack([own - line, freed]),
                number - jnp.stack([none, jnp.sum(last, axis=1, dtype=jnp.int32)]),
                products - jnp.stack([none, pair.astype(jnp.int32)]),
                paid - jnp.stack([jnp.zeros_like(own_price), own_price]),
            )
            drop = jnp.where(nothing, jnp.minimum(drop, -1e30), drop)
            leaves = jnp.stack([(state.level == CURVE) & bends, held & ~must])
            drop = jnp.where(leaves & whole, drop, jnp.inf).ravel()
            every = jnp.concatenate([add, drop])
            best = jnp.argmin(every).astype(jnp.int32)
            later = held & ~must & (slots > seen.next)
            now = cost(rss, columns, number, products, paid)
            return _Move(
                trial=seen.next,
                next=jnp.where(jnp.any(later), jnp.argmax(later), most).astype(jnp.int32),
                best=best,
                cost=_at(every, best),
                now=jnp.where(whole, now, seen.now),
                must=must,
                gain=jnp.where(whole, gain[1], seen.gain),
            )

        # Exchanges are tried when no other move lowers the cost.
        first = jnp.full((), -1, jnp.int32)
        endless = jnp.full((), jnp.inf, dtype)
        seen = jax.lax.while_loop(
            lambda seen: (seen.next < most) & ~(seen.cost < seen.now - PROGRESS),
            look,
            _Move(first, first, first, endless, endless, held & False, jnp.zeros(n_groups, dtype)),
        )
        moved = seen.cost < seen.now - PROGRESS
        adds, at, group = seen.best < 2 * n_groups, seen.best - 2 * n_groups, seen.best % n_groups
        # The slot of a group, or the first free one.
        rank = jnp.where(held, jnp.where(state.slot == group, slots, 2 * most), most + slots)
        into = jnp.where(seen.trial < 0, jnp.min(rank) % most, seen.trial)
        place = jnp.where(adds, into, at % most).astype(jnp.int32)
        to = jnp.where(adds, seen.best // n_groups + LINE, LINE - at // most)
        changed = moved & (slots == place)
        leaving = moved & ~adds & _at(nothing.ravel(), at % (2 * most))
        new_state = _State(
            slot=jnp.where(changed & adds, group, state.slot).astype(jnp.int32),
            level=jnp.where(changed, to, state.level).astype(jnp.int32),
            gone=state.gone + (leaving & (groups == _at(state.slot, place))).astype(jnp.int32),
            moved=moved,
            steps=state.steps + 1,
        )
        rise = jnp.sum(jnp.where(here & held[:, None], fit.rise[1][:, None], 0), axis=0)
        change = jnp.where(level > OUT, rise, seen.gain) / power
        return new_state, Selection(level, fit.rss / power, seen.now, change, ~moved)

    start = jnp.where(allowed, start, OUT)
    unread = readers(reads, paired, start > OUT) == 0
    start = jnp.where(required & unread, LINE, start).astype(jnp.int32)
    # The first groups in use, assigned to slots.
    earlier = (groups[:, None] < groups[None]) & (start > OUT)[:, None]
    rank = jnp.sum(earlier, axis=0, dtype=jnp.int32)
    here = (start > OUT)[None] & (rank[None] == slots[:, None])
    slot = jnp.where(jnp.any(here, axis=1), jnp.argmax(here, axis=1), n_groups - 1)
    level = jnp.max(jnp.where(here, start[None], OUT), axis=1)
    state = _State(
        slot=slot.astype(jnp.int32),
        level=level,
        gone=jnp.zeros(n_groups, jnp.int32),
        moved=jnp.asarray(True),
        steps=jnp.zeros((), jnp.int32),
    )
    zero = jnp.zeros((), dtype)
    nothing = Selection(start, zero, zero, jnp.zeros(n_groups, dtype), jnp.asarray(False))
    # The last model examined is the result: no move from it is left.
    _, found = jax.lax.while_loop(
        lambda carry: carry[0].moved & (carry[0].steps < 16 * most), move, (state, nothing)
    )
    risk = jnp.maximum(found.risk, 0)
    # By chance a group explains risk · width / n.
    extra = jnp.clip(found.change - widths.astype(dtype) * risk / problem.n, 0, risk)
    change = jnp.where(
        found.level > OUT,
        jnp.log(1 + found.change / (risk + FLOOR)),
        jnp.log((risk + FLOOR) / (risk - extra + FLOOR)),
    )
    return found._replace(risk=risk, change=change)


def search(
    problem: Problem, start: Int[Array, "target group"] | None = None, most: int = MOST
) -> Selection:
    """Return the groups of each target that locally minimise the criterion, from a start or from
    the empty set.

    A group is added, linear or curved, dropped, made linear, or exchanged for another as long as
    the criterion falls: n log(risk + FLOOR), plus the price of the columns, plus 2 log
    (choices choose k) for k inputs (Chen and Chen, 2008).

    Pure: `jit` and `vmap` over problems agree with single calls. Targets are searched one after the
    other, so that each takes only as many steps as it needs.

    **Arguments:**

    - `problem`: a problem with JAX arrays as leaves.
    - `start`: levels to start from, `[target group]`; by default no group.
    - `most`: most groups of a target, static; by default 12, more than data have distinguished.

    ```python
    import jax, jax.numpy as jnp, numpy as np
    from ndde_jax import regression

    rng = np.random.default_rng(0)
    z = rng.normal(size=(500, 3))
    y = 0.5 * z[:, :1] + z[:, 1:2] ** 2 + rng.normal(size=(500, 1))
    terms = np.stack([z, z**2], axis=-1).reshape(500, -1)
    problem = regression.Problem.of(regression.sums_of(terms, y, np.ones(500)), 2, n=500)
    print(regression.search_known(problem).level)  # [[1 2 0]]
    ```
    """
    if start is None:
        start = jnp.zeros(problem.allowed.shape, jnp.int32)
    most = min(most, problem.present.shape[0])
    return _search_first(problem, start, len(problem.allowed), most)


def _search_first(problem: Problem, start: Any, count: Any, most: int) -> Selection:
    """Return the selections of the first `count` targets."""

    def with_one(j, found):
        parts = (problem.cross, problem.power, problem.allowed, problem.required, start)
        this = _search_target(problem, *(_at(part, j) for part in parts), most)
        return jax.tree.map(lambda every, one: every.at[j].set(one), found, this)

    change = jnp.zeros_like(problem.cross[:, :, 0])
    zero = change[:, 0]
    blank = Selection(jnp.zeros(change.shape, jnp.int32), zero, zero, change, zero > 0)
    return jax.lax.fori_loop(0, count, with_one, blank)


@functools.cache
def _program(quick: bool) -> Callable[..., Selection]:
    """Return the compiled search, set up on first use.

    - `quick`: compile without any optimisation, in a quarter of the time. The program is as fast
        for few columns and half as fast for many.
    """
    options = known_options(QUICK_OPTIONS if quick else COMPILER_OPTIONS)
    return jax.jit(_search_first, static_argnames="most", compiler_options=options)


# Candidates and targets are padded to a few sizes, to limit compilation: targets are searched a few
# at a time, and nonexistent groups fill the room up to the next size.
SMALLEST, TARGETS = 32, 8
# Number of columns up to which a search is so short that a fast compilation is better than a fast
# program. Only the size decides, so that results are the same to the last bit everywhere.
QUICK = 128
# Array size up to which copying at every call is faster than one transfer to the device.
COPIED = 200_000


def padded(spare: int, values: Any, *axes: int) -> np.ndarray:
    """Return values padded by `spare` zeros at the end of some axes."""
    values = np.asarray(values)
    if not spare:
        return values
    shape = [size + spare if axis in axes else size for axis, size in enumerate(values.shape)]
    out = np.zeros(shape, values.dtype)
    out[tuple(slice(size) for size in values.shape)] = values
    return out


# Alignment in bytes of arrays that XLA reads in place; others are copied, which takes as long as
# several moves.
ALIGNED = 64


def _in_place(spare: int, gram: Any) -> np.ndarray:
    """Return inner products with room for `spare` more groups, aligned to avoid copies by XLA."""
    n_groups, width = gram.shape[:2]
    shape = (n_groups + spare, width) * 2
    size = math.prod(shape) * np.dtype(float).itemsize
    raw = np.zeros(size + ALIGNED, np.uint8)
    first = -raw.ctypes.data % ALIGNED
    out = raw[first : first + size].view(float).reshape(shape)
    out[:n_groups, :, :n_groups] = gram
    return out


def search_known(
    problem: Problem,
    start: Int[np.ndarray, "target group"] | None = None,
    most: int = MOST,
    *,
    least: int = SMALLEST,
) -> Selection:
    """Return the result of [`search`][ndde_jax.regression.search] for a concrete problem, in double
    precision; all leaves of the problem and of the result are NumPy arrays.

    - `least`: least room for groups, so that problems of similar sizes share a program.
    """
    n_targets, n_groups = problem.allowed.shape
    room = SMALLEST
    while room < max(n_groups, least):
        room = room * 3 // 2 if room & (room - 1) == 0 else room * 4 // 3
    most = min(most, room)
    whole = functools.partial(padded, room - n_groups)
    level = np.zeros((n_targets, n_groups), np.int32) if start is None else start
    level = whole(level, 1).astype(np.int32)
    shared = Problem(
        gram=_in_place(room - n_groups, problem.gram),
        cross=whole(np.asarray(problem.cross, float), 1),
        power=np.asarray(problem.power, float),
        present=whole(problem.present, 0),
        n=np.float64(problem.n),
        choices=np.float64(problem.choices),
        price=whole(np.asarray(problem.price, float), 0),
        charge=whole(np.asarray(problem.charge, np.int32), 0),
        reads=np.concatenate([problem.reads, each_alone(room)[n_groups:]]).astype(np.int32),
        allowed=whole(problem.allowed, 1),
        required=whole(problem.required, 1),
    )
    risk, cost = np.zeros((2, n_targets))
    found = Selection(level, risk, cost, np.zeros(level.shape), np.zeros(n_targets, bool))
    left = np.arange(n_targets)
    with jax.enable_x64(True):
        if n_targets > 1 and shared.gram.size > COPIED:
            shared = shared._replace(gram=jax.device_put(shared.gram))
        # Room for a few groups, as long as that suffices.
        costly = room > MANY and shared.present.shape[1] > 1
        for own_most in sorted({most, min(most, FIRST_ROOM)} if costly else {most}):
            few = (found.level[left] > OUT).sum(1) < own_most
            some = left[few | (own_most == most)]
            for first in range(0, len(some), TARGETS):
                _search_rows(shared, found, some[first : first + TARGETS], own_most)
            left = left[(found.level[left] > OUT).sum(1) >= own_most]
    return found._replace(level=found.level[:, :n_groups], change=found.change[:, :n_groups])


def search_from(
    problem: Problem,
    starts: Sequence[Int[np.ndarray, "target group"] | None],
    most: int = MOST,
    *,
    least: int = SMALLEST,
) -> list[Selection]:
    """Return the results of [`search_known`][ndde_jax.regression.search_known] from several starts;
    None starts from the empty set.
    """
    n_targets = len(problem.allowed)
    nothing = np.zeros(problem.allowed.shape, np.int32)
    levels = [nothing if start is None else start for start in starts]
    every = problem.of_targets(np.tile(np.arange(n_targets), len(starts)))
    found = search_known(every, np.concatenate(levels), most, least=least)
    return [found.of_targets(np.arange(n_targets) + k * n_targets) for k in range(len(starts))]


def search_roomy(problem: Problem, start: Int[np.ndarray, " group"], most: int) -> Selection:
    """Return the result of [`search_known`][ndde_jax.regression.search_known] for one target,
    continued with twice the room for groups as long as all places are taken.
    """
    while True:
        found = search_known(problem, start[None], most).of_targets(0)
        if most >= len(start) or (found.level > OUT).sum() < most:
            return found
        start, most = found.level, 2 * most


def _search_rows(problem: Problem, found: Selection, rows: Int[np.ndarray, " row"], most: int):
    """Search some targets from the levels found so far, and update `found` in place."""
    program = _program(problem.present.size <= QUICK)
    parts = (problem.cross, problem.power, problem.allowed, problem.required, found.level)
    cross, power, allowed, required, start = (
        padded(TARGETS - len(rows), part[rows], 0) for part in parts
    )
    own = problem._replace(cross=cross, power=power, allowed=allowed, required=required)
    for every, new in zip(found, program(own, start, np.int32(len(rows)), most=most), strict=True):
        every[rows] = np.asarray(new)[: len(rows)]
