"""The learned drift and its uncertainty: variants on halves of the data, noise, measurement error.

The criterion of a model depends only on sums over windows, and the sums of a half are those of its
blocks. So one pass over the data serves all halves, and a model is a small system of equations.
Estimates from half of the blocks, drawn without replacement, vary about as much as estimates from
other records would. No window counts twice, which keeps a criterion valid. Halves come in disjoint
pairs (Shah and Samworth, 2013).

Columns are splines and products of a few inputs. Unlike the columns of a search, which exist on the
data only, they belong to a simulator and can be evaluated anywhere. Noise is estimated from the
residuals of one-step forecasts: some of it drives the system, some is measurement error.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int, PRNGKeyArray

from .._blas import one_blas_thread
from .._types import divisor, to_jax
from .._wording import amount
from ..models._confine import RestoredDDE
from ..models._model import AbstractDelayModel, AbstractWrappedModel, model_rates
from ..regression import Sums, sums_of
from ..regression._design import WIDTH, knots_of, spline_terms
from ..select._splines import FLOOR
from ._arguments import neighbours
from ._one_step import Rows, quadrature, step_rows

RIDGE = 1e-8
# Relative size below which a difference of eigenvalues, or of eigenvectors, is rounding.
ROUNDING = 1e-8
# Most and fewest contiguous blocks. Blocks are at least as long as two windows reach, if possible.
MOST_BLOCKS, FEWEST_BLOCKS = 40, 6
# Largest number of moves of a search.
MOVES = 12
# Inputs are clipped at this share of the range of the data beyond it, so that no path runs away
# along the linear extrapolation of a spline.
SPARE = 0.25
# Families of columns. A column is used by its own family and all later ones.
LINEAR, CURVED, MULTIPLIED = 0, 1, 2


class Basis(eqx.Module):
    """A basis: a constant, the spline terms of every input (linear term first), then products.

    - `inputs`: inputs in use, flat (lag, source).
    - `pairs`: pairs whose products are columns, as positions in `inputs`.
    - `center`, `scale`, `knots`, `low`, `high`: values per input; the last three standardised.
    """

    inputs: Int[Array | np.ndarray, "input"]
    pairs: Int[Array | np.ndarray, "pair 2"]
    center: Float[Array | np.ndarray, "input"]
    scale: Float[Array | np.ndarray, "input"]
    knots: Float[Array | np.ndarray, "input knot"]
    low: Float[Array | np.ndarray, "input"]
    high: Float[Array | np.ndarray, "input"]

    def __call__(
        self, history: Float[ArrayLike, "*batch lag dim"]
    ) -> Float[Array | np.ndarray, "*batch feature"]:
        """Return all columns for physical histories; in NumPy if both are NumPy."""
        known = all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves((self, history)))
        return _columns(self, history, np) if known else _jitted(self, jnp.asarray(history))

    @property
    def needs(self) -> Int[np.ndarray, "feature 2"]:
        """The one or two inputs of each column, as positions in `inputs`; −1 for none."""
        splines = np.repeat(np.arange(len(self.inputs)), WIDTH)
        singles = np.stack([np.append(-1, splines), np.full(1 + len(splines), -1)], axis=1)
        return np.concatenate([singles, np.asarray(self.pairs)])

    @property
    def kind(self) -> Int[np.ndarray, "feature"]:
        """The first family that uses each column."""
        of_input = [LINEAR] + [CURVED] * (WIDTH - 1)
        splines, products = of_input * len(self.inputs), [MULTIPLIED] * len(self.pairs)
        return np.array([LINEAR, *splines, *products])

    def part(
        self, columns: Int[np.ndarray, "used"]
    ) -> tuple["Basis", Int[np.ndarray, "own_feature"]]:
        """Return the basis reduced to the inputs and products that some columns need, and the
        positions of its columns in this one.
        """
        used = np.isin(np.arange(len(self.kind)), columns)
        paired, chosen = used[self.kind == MULTIPLIED], np.zeros(len(self.inputs), bool)
        chosen[np.setdiff1d(self.needs[used], -1)] = True
        chosen[0] |= not chosen.any()
        pairs = (np.cumsum(chosen) - 1)[self.pairs[paired]]
        each = (self.center, self.scale, self.knots, self.low, self.high)
        basis = Basis(self.inputs[chosen], pairs, *(a[chosen] for a in each))
        return basis, np.flatnonzero(np.concatenate([[True], np.repeat(chosen, WIDTH), paired]))


def make_basis(histories: np.ndarray, inputs: Any, pairs: Any) -> Basis:
    """Return a basis for physical histories `[row lag dim]`, in NumPy."""
    inputs, pairs = np.asarray(inputs, int), np.asarray(pairs, int).reshape(-1, 2)
    z = histories.reshape(len(histories), -1)[:, inputs]
    center, scale = z.mean(axis=0), divisor(z.std(axis=0))
    z = (z - center) / scale
    knots = knots_of(z)
    # Coinciding knots, of a variable with few values, would divide by zero.
    knots = knots + 1e-6 * np.arange(knots.shape[1])
    low, high = z.min(axis=0), z.max(axis=0)
    spare = SPARE * (high - low)
    return Basis(inputs, pairs, center, scale, knots, low - spare, high + spare)


def _columns(basis: Basis, history: Any, xp: Any = jnp) -> Any:
    flat = history.reshape(*history.shape[:-2], -1)[..., basis.inputs]
    ahead = (None,) * (flat.ndim - 1)
    z = (flat - basis.center[ahead]) / basis.scale[ahead]
    z = xp.clip(z, basis.low[ahead], basis.high[ahead])
    terms = spline_terms(z, basis.knots[ahead]).reshape(*z.shape[:-1], -1)
    products = z[..., basis.pairs[:, 0]] * z[..., basis.pairs[:, 1]]
    return xp.concatenate([xp.ones_like(z[..., :1]), terms, products], axis=-1)


# A program of its own if called outside a program, and part of the enclosing one otherwise.
_jitted = partial(jax.jit, inline=True)(_columns)


# ---- sums ----


def count_blocks(n: int, reach: int) -> int:
    """Return an even number of blocks for this many rows."""
    return 2 * (int(np.clip(n // (2 * reach + 2), FEWEST_BLOCKS, MOST_BLOCKS)) // 2)


def draw_halves(
    n_blocks: int, n_halves: int, rng: np.random.Generator
) -> Bool[np.ndarray, "half block"]:
    """Return the blocks of each half, in complementary pairs."""
    halves = np.zeros((n_halves, n_blocks), bool)
    for k in range(0, n_halves, 2):
        halves[k, rng.permutation(n_blocks)[: n_blocks // 2]] = True
        halves[k + 1 : k + 2] = ~halves[k]
    return halves


class Equations:
    """The least-squares equations of one output on some columns, for many halves at once."""

    def __init__(self, sums: Sums):
        """- `sums`: sums of each half, as if it were a block."""
        norm = np.sqrt(np.maximum(np.diagonal(sums.xx, axis1=-2, axis2=-1), 0))
        self.unit = np.where(norm > 0, 1 / divisor(norm), 0)
        self.gram = sums.xx * self.unit[..., :, None] * self.unit[..., None, :]
        self.inner = sums.xy[..., 0] * self.unit
        self.square, self.n = sums.yy[..., 0], sums.weight
        self.spread = self.square - sums.y[..., 0] ** 2 / np.maximum(self.n, 1e-300)

    @classmethod
    def of(cls, design: np.ndarray, output: np.ndarray, weight: Any = None, halves: Any = None):
        """Return the equations of rows, for each half `[half block]`, or for all rows."""
        weight = np.ones(len(design)) if weight is None else weight
        halves = np.ones((1, 1), bool) if halves is None else halves
        blocks = sums_of(design, output[:, None], weight, halves.shape[1])
        return cls(jax.tree.map(partial(np.tensordot, halves.astype(float), axes=1), blocks))

    def solve(
        self, used: Int[np.ndarray, "column"], halves: Int[np.ndarray, "half"] | None = None
    ) -> tuple[Float[np.ndarray, "half column"], Float[np.ndarray, "half"]]:
        """Return coefficients and residual sums of squares on some halves; by default on all."""
        half = (np.arange(len(self.n)) if halves is None else halves)[:, None]
        # Rows and columns are indexed together, since whole matrices would be copied first.
        small = self.gram[half[..., None], used[:, None], used] + RIDGE * np.eye(len(used))
        inner = self.inner[half, used]
        scaled = np.linalg.solve(small, inner[..., None])[..., 0]
        left = np.maximum(self.square[half[:, 0]] - np.sum(scaled * inner, axis=-1), 0.0)
        return scaled * self.unit[half, used], left

    def criterion(
        self, used: Int[np.ndarray, "column"], halves: Int[np.ndarray, "half"]
    ) -> Float[Array | np.ndarray, "half"]:
        """Return n log(risk + 10⁻⁴) + columns log n, the criterion of the spline search."""
        left, spread, n = self.solve(used, halves)[1], self.spread[halves], self.n[halves]
        risk = np.where(spread > 0, left / divisor(spread), 0)
        return n * np.log(risk + FLOOR) + len(used) * np.log(np.maximum(n, 2.0))


# ---- the choice of inputs ----


def used_columns(basis: Basis, chosen: np.ndarray, family: int) -> np.ndarray:
    """Return the columns of a family whose inputs are all chosen."""
    ready = np.append(chosen, True)  # −1 needs nothing
    return np.flatnonzero(ready[basis.needs].all(axis=1) & (basis.kind <= family))


def best_family(equations: Equations, basis: Basis, chosen: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the criterion and the columns of the best family on some inputs, on all data."""
    costs, columns = _families(equations, basis, chosen, np.zeros(1, int))
    best = int(np.argmin(costs[:, 0]))
    return float(costs[best, 0]), columns[best]


def _families(equations: Equations, basis: Basis, chosen: np.ndarray, halves: Any):
    """Return criteria `[family half]` on some inputs, infinite for halves with too few windows, and
    the columns of each family. The last family is the constant alone, for halves with too few
    windows for any other.
    """
    families = (used_columns(basis, chosen, family) for family in (LINEAR, CURVED, MULTIPLIED))
    columns = list({len(used): used for used in families}.values())  # without duplicates
    n = equations.n[halves]
    costs = [
        np.where(len(used) < 0.5 * n, equations.criterion(used, halves), np.inf) for used in columns
    ]
    constant = np.array([0])
    poor = np.isinf(costs[0])
    last = equations.criterion(constant, halves) if np.any(poor) else np.inf
    costs.append(np.where(poor, last, np.inf))
    return np.stack(costs), [*columns, constant]


# Not `regression.search`, which solves one problem at a time: here all halves evaluate the same
# columns. For 3 targets with 9 candidates and 40 halves this takes 0.07 s of CPU; 120 searches,
# without products, take 4.6 s, after 1.9 s of compilation.
def choose(
    equations: Equations,
    basis: Basis,
    start: np.ndarray,
    *,
    fixed: np.ndarray,
    swaps: list[tuple[int, int]],
    n_candidates: int,
) -> Bool[np.ndarray, "half input"]:
    """Return inputs by the extended Bayesian information criterion, on every half: from `start`, by
    the best addition, removal or exchange as long as one lowers it. `fixed` inputs stay.

    Halves with the same current choice are processed together.
    """
    costs: dict[bytes, np.ndarray] = {}

    def cost(move: np.ndarray, halves: np.ndarray) -> np.ndarray:
        known = costs.setdefault(move.tobytes(), np.full(len(equations.n), np.nan))
        new = halves[np.isnan(known[halves])]
        if len(new):
            price = 2 * math.log(math.comb(n_candidates, int(move.sum())))
            known[new] = _families(equations, basis, move, new)[0].min(axis=0) + price
        return known[halves]

    active = np.arange(len(equations.n))
    chosen = np.tile(start, (len(active), 1))
    for _ in range(MOVES):
        improved = [active[:0]]
        for now in np.unique(chosen[active], axis=0):
            halves = active[(chosen[active] == now).all(axis=1)]
            choices = np.stack([now, *_moves(now, fixed, swaps)])
            each = np.stack([cost(choice, halves) for choice in choices])
            better = each.min(axis=0) <= each[0] - 1e-3
            improved.append(halves[better])
            chosen[halves[better]] = choices[each.argmin(axis=0)[better]]
        active = np.sort(np.concatenate(improved))
    return chosen


def _moves(chosen: np.ndarray, fixed: np.ndarray, swaps: list) -> list[np.ndarray]:
    """Return all sets one addition, removal or exchange away from the chosen inputs."""
    one = np.eye(len(chosen), dtype=bool)
    pairs = [(i, j) for i, j in swaps if chosen[i] != chosen[j] and not (fixed[i] or fixed[j])]
    single = [chosen ^ one[i] for i in np.flatnonzero(~fixed)]
    return single + [chosen ^ one[i] ^ one[j] for i, j in pairs]


# Standard errors above which an effect counts as clear.
CLEAR = 5.0
# Least share of the variance of squared residuals that the state must explain to count.
STATE_SHARE = 0.02
# Bounds of squared relative amplitudes, which keep the quadratic plausible.
LOW, HIGH = 0.05, 20.0


@dataclasses.dataclass(frozen=True, eq=False)
class Noise:
    """The noise of one step of the simulator, in physical units.

    - `draws`: whitened residuals of unit covariance, `[row dim]`, from which noise is drawn, with
        the tails of the data.
    - `factor`: a root of the covariance of one step, `[dim dim]`.
    - `error`: standard deviation of the measurement error of each variable, `[dim]`; 0 if the
        residuals show none.
    - `amplitude`: coefficients a, b, c of each variable's squared relative amplitude a + bz + cz²,
        `[dim 3]`, with its standardised present state z; 1, 0, 0 if the data show no dependence.
    - `memory`: largest correlation of residuals with those one to three steps later, `[dim]`; 0 if
        it may be chance. Noise that drives a system is new at every step, so memory points to an
        unmeasured driver.
    """

    draws: np.ndarray
    factor: np.ndarray
    error: np.ndarray
    amplitude: np.ndarray
    memory: np.ndarray

    @property
    def covariance(self) -> np.ndarray:
        """The covariance of one step, `[dim dim]`."""
        return self.factor @ self.factor.T


def estimate_noise(
    residual: np.ndarray, state: np.ndarray, position: np.ndarray, freedom: np.ndarray
) -> Noise:
    """Return the noise, estimated from the one-step residuals of the centre of an ensemble.

    - `residual`: residuals in physical units, `[row dim]`.
    - `state`: standardised present states, `[row dim]`.
    - `position`: sample numbers, to find neighbours.
    - `freedom`: fitted parameters per variable, `[dim]`, which make residuals too small.
    """
    n = len(residual)
    residual = residual * np.sqrt(n / np.maximum(n - freedom, n / 2))[None]
    amplitude = np.stack([_amplitude(r, z) for r, z in zip(residual.T, state.T, strict=True)])
    even = residual / relative_amplitude(amplitude, state)
    error = _measurement_error(residual, position)
    covariance = even.T @ even / n
    size = divisor(np.sqrt(np.maximum(np.diag(covariance), 0)))
    tiny = 1e-10 * np.eye(len(size))
    correlation = covariance / size[:, None] / size[None]
    white = np.linalg.solve(np.linalg.cholesky(correlation + tiny), (even / size[None]).T).T
    white = white - white.mean(axis=0)
    white = white / np.maximum(white.std(axis=0), 1e-12)
    driving = _positive(correlation - 2 * np.diag((error / size) ** 2))
    factor = size[:, None] * np.linalg.cholesky(driving + tiny)
    return Noise(white, factor, error, amplitude, _memory(residual, position))


def relative_amplitude(amplitude: Any, z: Any, xp: Any = np) -> Any:
    """Return the relative size of the noise at standardised states, `[*batch dim]`."""
    ahead = (None,) * (z.ndim - 1)
    a, b, c = (amplitude[:, i][ahead] for i in range(3))
    return xp.sqrt(xp.clip(a + b * z + c * z**2, LOW, HIGH))


def _amplitude(residual: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Return the coefficients of the squared amplitude, if the state clearly explains it."""
    none = np.array([1.0, 0.0, 0.0])
    square = residual**2
    # Rare extremes would dominate.
    square = np.minimum(square, 12 * square.mean())
    if not square.mean() > 0:
        return none
    square = square / square.mean()
    design = np.stack([np.ones_like(z), z, z**2], axis=1)
    found = np.linalg.lstsq(design, square, rcond=None)[0]
    explained = np.var(design @ found) / np.var(square)
    # By chance two coefficients explain a chi-squared with two degrees of freedom, doubled for
    # dependence.
    return found if len(z) * explained > CLEAR**2 + 2 and explained > STATE_SHARE else none


def _measurement_error(residual: np.ndarray, position: np.ndarray) -> np.ndarray:
    """Return the measurement error, which enters neighbouring steps with opposite signs."""
    shared = np.maximum(-_shared(residual, position, 1), 0.0)
    return np.sqrt(np.minimum(shared, 0.49 * np.mean(residual**2, axis=0)))


def _memory(residual: np.ndarray, position: np.ndarray) -> np.ndarray:
    """Return the largest clear correlation with later residuals."""
    shared = np.max([_shared(residual, position, steps) for steps in (1, 2, 3)], axis=0)
    return np.maximum(shared, 0.0) / np.maximum(np.mean(residual**2, axis=0), 1e-300)


def _shared(residual: np.ndarray, position: np.ndarray, steps: int) -> np.ndarray:
    """Return the mean product of residuals with those some steps later; 0 unless it is clear."""
    pairs = position[steps:] - position[:-steps] == steps
    products = (residual[:-steps] * residual[steps:])[pairs]
    if len(products) < 20:
        return np.zeros(residual.shape[1])
    mean, variance = products.mean(axis=0), np.mean(residual**2, axis=0)
    return np.where(np.abs(mean) > CLEAR * variance / np.sqrt(len(products)), mean, 0.0)


def diffusion_of(
    covariance: Float[np.ndarray, "dim dim"], slopes: Float[np.ndarray, "target source"], dt: float
) -> Float[np.ndarray, "dim dim"]:
    """Return ΣΣᵀ of the equation dX = G dt + Σ dW from the covariance of the noise of a step, in
    which the drift already forgets the early noise: the covariance is the integral of
    exp(As) ΣΣᵀ exp(Aᵀs) over the step (Van Loan, 1978), with the slopes A of the drift.
    """
    # In terms of eigenvectors, since the Lyapunov equation of a step, which SciPy solves, has no
    # solution for slopes of zero or of an undamped oscillation.
    values, vectors = np.linalg.eig(slopes)
    if not np.linalg.cond(vectors) < 1 / ROUNDING:
        return covariance / dt
    sums, inverse = values[:, None] + values[None], np.linalg.inv(vectors)
    small = np.abs(sums * dt) < ROUNDING
    lasting = np.where(small, dt, np.expm1(sums * dt) / np.where(small, 1, sums))
    found = (vectors @ (inverse @ covariance @ inverse.T / lasting) @ vectors.T).real
    known = np.diag(found) > 0
    size = divisor(np.sqrt(np.where(known, np.diag(found), np.diag(covariance) / dt)))
    return size[:, None] * _positive(found / size[:, None] / size) * size


def present_slopes(
    model: AbstractDelayModel, histories: Float[np.ndarray, "row lag dim"]
) -> Float[np.ndarray, "target source"]:
    """Return the mean slopes of the rates along the present states; 0 if lag 0 is no candidate."""
    if model.lags[0] != 0:
        return np.zeros((model.dim, model.dim))
    slopes = jax.vmap(jax.jacfwd(model))(in_precision(model, histories))
    return np.asarray(slopes, np.float64)[:, :, 0].mean(axis=0)


def _positive(matrix: np.ndarray) -> np.ndarray:
    """Return the nearest covariance matrix."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return (vectors * np.maximum(values, 1e-6)) @ vectors.T


# Number of halves: the least that distinguishes shares of .9 and .75 by two standard errors.
RESAMPLES = 40
# Candidates per target that a half may choose from.
SLOTS = 12
# Fall of the log residual variance required to prefer another kind of step.
MIN_LOG_IMPROVEMENT = 0.03
# Histories for averages, spread evenly over the record; their error is far below that of the
# ensemble.
MOST_HISTORIES = 1000
# Share of a rate's variance by which the learned model may fall short of the regression.
SHORTFALL = 0.05


class Member(AbstractWrappedModel):
    """A learned drift and its correction: `trust` times the model plus `theta` times the columns of
    a basis, confined like the model.

    With a leading axis of `theta` it is a stack of drifts, one per path.
    """

    model: AbstractDelayModel
    basis: Basis
    trust: Float[Array, "target"]
    theta: Float[Array, "*path target feature"]

    def __call__(self, history: Float[ArrayLike, "lag dim"]) -> Float[Array, "dim"]:
        """Return the physical drift for one physical history."""
        history = jnp.asarray(history)
        drift = self.trust * self.model(history) + self.theta @ self.basis(history)
        if isinstance(self.model, RestoredDDE):
            # A damped drift, of radius zero, has its force inside the data, as the regression does.
            outside = jnp.where(self.model.radius > 0, self.model.restoring(history), 0)
            drift = drift + (1 - self.trust) * outside
        return drift

    def each(self, histories: Float[Array, "path lag dim"]) -> Float[Array, "path dim"]:
        """Return the drift of each member of a stack for its own history."""
        one = lambda theta, z: eqx.tree_at(lambda m: m.theta, self, theta)(z)  # noqa: E731
        return jax.vmap(one)(self.theta, histories)


@dataclasses.dataclass(frozen=True, eq=False)
class Ensemble:
    """A corrected learned drift and its variants on halves of the data; NumPy.

    A member's drift is `trust` times the learned model plus `theta` times the columns of `basis`.
    The second term is the part that a step of the simulator misses on all data, plus the difference
    of a regression on a half from the same regression on all data. Halves vary about as much as
    other records would. If the model predicts a step no better than the regression, given its
    number of parameters, only the regression is used: `trust` is 1 or 0 per target.

    - `graphs`: graphs chosen on each half, `[resample source target lag]`.
    - `share`: share of the halves whose graph contains an edge at this lag or a neighbouring one,
        `[source target lag]`; NaN if an edge was no candidate.
    - `step`: kind of step of the simulator: `"heun"`, with the present predicted at its end;
        `"flow"`, finer than the sampling, with the past read between samples, if it fits better; or
        `"map"`, for maps and if it fits better than both, so that drifts are those of the map from
        one sample to the next.
    - `own`: whether the learned model explains the windows nearly as well as the regression, or
        better, so that effects are its own, bool `[target]`.
    - `trust`: weight of the model, `[target]`.
    - `center`: coefficients of the correction alone, `[target feature]`; `theta`: coefficients of
        every member, `[resample target feature]`; both for physical rates.
    - `noise`: noise of one step.
    - `rows`: the steps that all of this was estimated from.
    - `inputs`: the known inputs that move from value to value in a step, and not by the drift.
    """

    graphs: np.ndarray
    share: np.ndarray
    step: str
    own: np.ndarray
    trust: np.ndarray
    center: np.ndarray
    theta: np.ndarray
    basis: Basis
    noise: Noise
    rows: Rows
    inputs: tuple[str, ...] = ()

    @property
    def resamples(self) -> int:
        """The number of halves."""
        return len(self.graphs)

    def __repr__(self) -> str:
        in_all, in_any = (int(g.sum()) for g in (self.graphs.all(axis=0), self.graphs.any(axis=0)))
        return (
            f"Ensemble of {self.resamples} halves of {len(self.rows)} steps: "
            f"{amount(in_all, 'edge', 9)} in all of them, {in_any - in_all} in some; simulated "
            f"by steps of {self.step!r}"
        )

    def members(self, model: AbstractDelayModel, which: Any) -> Member:
        """Return a stack of drifts, in the precision of the learned model.

        - `which`: the member number of each path, `[path]`; −1 for the centre.
        """
        theta = np.concatenate([self.theta, self.center[None]])[which]
        parts = (self.basis, self.trust, theta)
        return Member(model, *jax.tree.map(partial(in_precision, model), parts))


def generator(key: PRNGKeyArray) -> np.random.Generator:
    """Return a NumPy generator from a JAX key."""
    return np.random.default_rng(np.asarray(jr.key_data(key)).astype(np.uint32).ravel().tolist())


def in_precision(model: AbstractDelayModel, value: Any) -> Array:
    """Return a JAX array, with floats in the precision of a model."""
    return to_jax(value, model.dt.dtype if np.asarray(value).dtype.kind == "f" else None)


def histories_of(ensemble: Ensemble) -> Float[np.ndarray, "row lag dim"]:
    """Return at most `MOST_HISTORIES` histories of the record."""
    start = ensemble.rows.start
    return start[np.unique(np.linspace(0, len(start) - 1, MOST_HISTORIES).astype(int))]


def rates_of(model: Any) -> Callable[[np.ndarray], np.ndarray]:
    """Return the physical rates of a model as a function of histories, `[row dim]`."""
    return lambda histories: model_rates(model, histories, model.dt.dtype)


@one_blas_thread()
def make_ensemble(
    found: Any, *, rng: np.random.Generator, resamples: int, inputs: tuple[str, ...] = ()
) -> Ensemble:
    """Select the graph again on random halves of the data, and fit a drift to each in closed form.

    **Arguments:**

    - `found`: the discovery.
    - `rng`: generator that draws the halves.
    - `resamples`: number of halves.
    - `inputs`: known inputs whose values will be given during the steps.

    **Raises:** `ValueError` for irregular sampling, or fewer than 20 steps.
    """
    rows, scaling = step_rows(found), found.model.scaling
    if len(rows) < 20:
        raise ValueError(
            f"an ensemble needs at least 20 steps between complete samples; there are {len(rows)}."
        )
    n_rows = min(len(rows), int(np.sum(np.asarray(found.windows.valid))))
    halves = draw_halves(count_blocks(n_rows, int(found.lags[-1]) + 2), resamples, rng)
    basis, targets, own = _select_again(found, rows, halves)
    # A map has no states between samples.
    steps = ("heun", "flow", "map") if found.moves_between_samples else ("map",)
    given = given_inputs(found, inputs)
    fitted, *others = (
        fit_steps(found, rows, basis, targets, halves, step, given) for step in steps
    )
    for other in others:
        fitted = other if _clearly_smaller(other.residual, fitted.residual) else fitted
    graphs = np.zeros((resamples, *np.shape(found.graph)), bool)
    candidate = np.zeros(np.shape(found.graph), bool)
    for j, target in enumerate(targets):
        lag, source = np.divmod(target.basis.inputs, len(found.names))
        graphs[:, source, j, lag] = target.chosen
        candidate[source, j, lag] = True
    state = (rows.now - np.asarray(scaling.center)) / np.asarray(scaling.scale)
    share = np.where(candidate, (graphs | neighbours(graphs)).mean(axis=0), np.nan)
    noise = estimate_noise(fitted.residual, state, rows.position, fitted.freedom)
    center, theta = fitted.center, fitted.center[None] + fitted.spread
    return Ensemble(
        graphs=graphs,
        share=share,
        step=fitted.step,
        own=own,
        trust=fitted.trust,
        center=center,
        theta=theta,
        basis=fitted.basis,
        noise=noise,
        rows=rows,
        inputs=inputs,
    )


def given_inputs(found: Any, inputs: tuple[str, ...]) -> Bool[np.ndarray, "dim"]:
    """Return which variables are among the known inputs whose values are given."""
    return np.isin(np.asarray(found.names), inputs)


def _candidates(found: Any, target: int) -> np.ndarray:
    """Return the candidates of one target, flat (lag, source), chosen in the order: inputs of the
    model, edges and neighbouring lags, others by score.
    """
    reads, edges = found.reads[:, target], found.graph[:, target]  # [source lag]
    allowed = np.asarray(found.windows.prior.allowed)[:, target] | reads | edges
    near = edges | reads | neighbours(reads)
    score = np.nan_to_num(np.asarray(found.scores, float)[:, target], nan=-np.inf)
    flat = lambda a: a.T.ravel()  # noqa: E731
    order = np.lexsort((-flat(score), ~flat(near), ~flat(reads)))
    order = order[flat(allowed)[order]]
    return np.sort(order[: max(SLOTS, int(reads.sum()) + 2)])


@dataclasses.dataclass(frozen=True, eq=False)
class Target:
    """The inputs on which one target may be fitted.

    - `basis`: basis of the inputs; `place`: positions of its columns in the shared basis.
    - `kept`: inputs that the model reads, bool `[input]`; `chosen`: inputs chosen on each half,
        bool `[half input]`.
    """

    basis: Basis
    place: Int[np.ndarray, "feature"]
    kept: Bool[np.ndarray, "input"]
    chosen: Bool[np.ndarray, "half input"]


def _select_again(
    found: Any, rows: Rows, halves: np.ndarray
) -> tuple[Basis, list[Target], Bool[np.ndarray, "target"]]:
    """Return a basis for all targets, the inputs of each and those chosen on each half, and for
    which targets the learned model explains the windows nearly as well as a regression on the kept
    inputs.
    """
    windows, s = found.windows, found.windows.scaling
    valid = np.asarray(windows.valid)
    history, increment, weight = (
        np.asarray(a, np.float64)[valid]
        for a in (windows.history, windows.increment, windows.weight)
    )
    history = history * np.asarray(s.scale) + np.asarray(s.center)
    said = rates_of(found.model)(history) - np.asarray(s.rate_center)
    left = increment - said / np.asarray(s.rate_scale)
    risk = weight @ left**2 / max(weight.sum(), 1.0)
    slots = [_candidates(found, j) for j in range(windows.dim)]
    pairs = {pair for own in slots for pair in itertools.combinations(own.tolist(), 2)}
    inputs = np.unique(np.concatenate(slots))
    shared = make_basis(rows.start, inputs, np.searchsorted(inputs, sorted(pairs)))
    targets, as_good = [], []
    for j, own in enumerate(slots):
        basis, place = shared.part(used_columns(shared, np.isin(inputs, own), MULTIPLIED))
        kept = found.reads[:, j].T.ravel()[own]
        given = (basis(history), increment[:, j], weight)
        fixed = np.asarray(windows.prior.required)[:, j].T.ravel()[own]
        places = itertools.combinations(range(len(own)), 2)
        swaps = [(a, b) for b, a in places if own[a] % windows.dim == own[b] % windows.dim]
        equations, n_candidates = Equations.of(*given, halves), windows.dim * windows.n_lags
        chosen = choose(equations, basis, kept, fixed=fixed, swaps=swaps, n_candidates=n_candidates)
        whole = Equations.of(*given)
        (rest,) = whole.solve(best_family(whole, basis, kept)[1])[1]
        targets.append(Target(basis, place, kept, chosen))
        as_good.append(risk[j] <= rest / max(whole.n[0], 1.0) + SHORTFALL)
    return shared, targets, np.array(as_good)


def _clearly_smaller(one: np.ndarray, other: np.ndarray) -> bool:
    """Return whether residuals are clearly smaller, over all variables together."""
    sizes = [np.mean(np.square(np.nan_to_num(r, nan=np.inf)), axis=0) for r in (one, other)]
    with np.errstate(divide="ignore", invalid="ignore"):
        change = np.log(sizes[0] / sizes[1])
    return bool(np.nan_to_num(change, nan=0.0).mean() < -MIN_LOG_IMPROVEMENT)


# ---- corrections of a learned model, and their spread ----


ROUNDS = 2
# Effective parameters of a smooth function of a few inputs, however large the network: an upper
# guess, which favours the regression.
MAX_PARAMETERS = 100
# Share of them that widens the spread of a network. With all of them, intervals of a two-variable
# system were too wide; with none, those of a network of ten were too narrow.
EFFECTIVE_SHARE = 0.6


@dataclasses.dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted one-step map; arrays as in `Ensemble`.

    - `step`: of the simulator, one of `KINDS`.
    - `residual`: residuals of the centre, `[row dim]`.
    - `freedom`: number of fitted parameters per target.
    """

    step: str
    basis: Basis
    trust: np.ndarray
    center: np.ndarray
    spread: np.ndarray
    residual: np.ndarray
    freedom: np.ndarray


def fit_steps(
    found: Any,
    rows: Rows,
    basis: Basis,
    targets: list[Target],
    halves: np.ndarray,
    step: str,
    given: Bool[np.ndarray, "dim"],
) -> Fitted:
    """Return the model corrected so that its step fits, and its differences between halves."""
    learned, dt = rates_of(found.model), float(found.dt)
    rate = (rows.next - rows.now) / dt
    own = [np.zeros(len(target.place)) for target in targets]
    for _ in range(ROUNDS):

        def corrected(z, own=own):
            extra = [
                target.basis(z) @ c if c.any() else np.zeros(len(z))
                for target, c in zip(targets, own, strict=True)
            ]
            return learned(z) + np.stack(extra, axis=1)

        path, _ = quadrature(corrected, rows, found.lags, dt, step, given)
        said, designs = path.mean(learned), [path.mean(target.basis) for target in targets]
        left = rate - said
        own = [_correction(*each) for each in zip(targets, designs, left.T, strict=True)]
    numbers = np.minimum(count_parameters(found.model), MAX_PARAMETERS)
    trust, freedom = np.zeros((2, len(targets)))
    center = np.zeros((len(targets), len(basis.kind)))
    spread = np.zeros((len(halves), *center.shape))
    for j, (target, design) in enumerate(zip(targets, designs, strict=True)):
        # The regression alone, and its differences on halves of the data.
        _, used = best_family(Equations.of(design, rate[:, j]), target.basis, target.kept)
        alone, differ = _refitted(halves, target, design, rate[:, j], used)
        with_model = np.mean((left[:, j] - design @ own[j]) ** 2)
        regression = np.mean((rate[:, j] - design @ alone) ** 2)
        # Akaike's criterion, since the aim is to predict the next step, not to find the true form.
        floor = 1e-12 * np.var(rate[:, j])
        gain = len(rate) * np.log((regression + floor) / (with_model + floor))
        more = numbers[j] + np.sum(own[j] != 0) - len(used)
        freedom[j], coefficients = len(used), alone
        if np.isfinite(with_model) and gain > 2 * more:
            # Halves are fitted to what the *model* misses. A network with more parameters than the
            # regression varies more, by the root of their ratio.
            trust[j], freedom[j], coefficients = 1.0, max(numbers[j], len(used)), own[j]
            wider = np.sqrt(max(EFFECTIVE_SHARE * numbers[j] / max(len(used), 1), 1))
            differ = wider * _refitted(halves, target, design, left[:, j], used, trusted=True)[1]
        center[j, target.place], spread[:, j, target.place] = coefficients, differ
    used = np.any(spread != 0, axis=(0, 1)) | np.any(center != 0, axis=0)
    basis, place = basis.part(np.flatnonzero(used))
    center, spread = center[:, place], spread[..., place]
    drift = center_drift(learned, trust, basis, center)
    residual = rows.next - rows.now - dt * quadrature(drift, rows, found.lags, dt, step, given)[1]
    return Fitted(step, basis, trust, center, spread, residual, freedom)


def center_drift(
    learned: Callable, trust: np.ndarray, basis: Basis, center: np.ndarray
) -> Callable[[np.ndarray], np.ndarray]:
    """Return the rates of the centre of an ensemble as a function of histories, `[row dim]`."""
    return lambda histories: learned(histories) * trust[None] + basis(histories) @ center.T


def _correction(target: Target, design: np.ndarray, left: np.ndarray) -> np.ndarray:
    """Return the coefficients of the residuals on the kept inputs; 0 if none helps."""
    equations, coefficients = Equations.of(design, left), np.zeros(design.shape[1])
    cost, used = best_family(equations, target.basis, target.kept)
    (n,), (square,), (spread,) = equations.n, equations.square, equations.spread
    if spread > 0 and cost < n * np.log(square / spread + FLOOR):
        coefficients[used] = equations.solve(used)[0][0]
    return coefficients


def _refitted(
    halves: np.ndarray, target: Target, design, output, used, *, trusted: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients of an output on all data, for the columns `used`, and their differences
    on each half, with the same family, `[half column]`.

    With `trusted`, the output is the residual of a trusted model. Every half then uses the kept
    inputs, since omitting one would say nothing about a model that has it.
    """
    family, whole = int(target.basis.kind[used].max()), np.zeros(design.shape[1])
    whole[used] = Equations.of(design, output).solve(used)[0][0]
    spread = np.tile(-whole, (len(halves), 1))
    equations = Equations.of(design, output, halves=halves)
    for h, mask in enumerate(target.chosen):
        here = used_columns(target.basis, mask | target.kept if trusted else mask, family)
        spread[h, here] += equations.solve(here, np.array([h]))[0][0]
    return whole, spread


def count_parameters(model: Any) -> np.ndarray:
    """Return the number of fitted parameters per target, in arrays whose first axis is the target,
    that belong to inputs in use.
    """
    dim, counts = model.dim, np.zeros(model.dim)
    mask = np.asarray(model.mask).reshape(dim, -1)
    degree, n_inputs = mask.sum(axis=1), mask.shape[1]
    fitted = eqx.filter(getattr(model, "drift", model), eqx.is_inexact_array)
    for leaf in map(np.asarray, jax.tree.leaves(fitted)):
        if not leaf.ndim or leaf.shape[0] != dim:
            continue
        size = np.count_nonzero(leaf.reshape(dim, -1), axis=1)
        # In a first layer, only weights of inputs in the mask count.
        first = leaf.ndim > 1 and leaf.shape[-1] == n_inputs
        counts += size * degree / n_inputs if first else size
    return counts
