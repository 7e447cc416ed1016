"""The learned drift and its uncertainty: other graphs, other curves, noise, error."""

import dataclasses
import itertools
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, PRNGKeyArray

from .._checks import check_whole
from .._scaling import Scaling
from .._types import to_jax
from ..models._model import AbstractDelayModel, model_rates
from ..select._splines import FLOOR
from ._half_sampling import (
    Basis,
    Equations,
    best_family,
    choose,
    count_blocks,
    draw_halves,
    make_basis,
    shared_basis,
    used_columns,
)
from ._noise import Noise, estimate_noise
from ._one_step import Rows, lead, step_rows

RESAMPLES = 40
# Candidates per target that a half may choose from.
SLOTS = 12
# By how much the logarithm of the residuals' variance must fall for another step to be taken.
CLEARLY = 0.03
# Share of a rate's variance by which the learned model may fall short of the regression.
SHORTFALL = 0.05


class Member(AbstractDelayModel):
    """A learned drift and its correction: `trust` times the model plus `theta` times the columns of
    a basis.

    With a leading axis of `theta` it is a stack of drifts, one for each path.
    """

    model: AbstractDelayModel
    basis: Basis
    trust: Float[Array, "target"]
    theta: Float[Array, "*path target feature"]

    @property
    def lags(self) -> tuple[int, ...]:
        """The lags in samples."""
        return self.model.lags

    @property
    def dt(self) -> Float[Array, ""]:
        """The sampling interval."""
        return self.model.dt

    @property
    def scaling(self) -> Scaling:
        """The scaling of the learned drift."""
        return self.model.scaling

    @property
    def mask(self) -> Bool[Array, "target lag source"]:
        """The inputs of the learned drift."""
        return self.model.mask

    def __call__(self, history: Float[ArrayLike, "lag dim"]) -> Float[Array, "dim"]:
        """Return the physical drift for one physical history."""
        history = jnp.asarray(history)
        return self.trust * self.model(history) + self.theta @ self.basis(history)

    def each(self, histories: Float[Array, "path lag dim"]) -> Float[Array, "path dim"]:
        """Return the drift of every member of a stack for its own history."""
        one = lambda theta, z: eqx.tree_at(lambda m: m.theta, self, theta)(z)  # noqa: E731
        return jax.vmap(one)(self.theta, histories)


@dataclasses.dataclass(frozen=True)
class Ensemble:
    """A learned drift, corrected, and its variants on halves of the data; NumPy.

    A member's drift is `trust` times the learned model plus `theta` times the columns of `basis`:
    the part that a step of the simulator misses on all data, and the difference of a regression on
    a half from the same regression on all data. Halves spread about as much as the data themselves
    do. Where the model predicts a step no better than the regression, for the numbers it has, the
    regression stands alone: `trust` is 1 or 0 per target.

    - `graphs`: chosen on each half, `[resample source target lag]`.
    - `share`: of the halves whose graph holds an edge at this lag or a neighbouring one,
        `[source target lag]`; NaN where an edge was no candidate.
    - `step`: of the simulator. `"heun"`, with the present predicted at its end; `"flow"`, where one
      that is finer than the sampling, and reads the past between samples, fits better; `"hold"`,
      where neither does as well as holding the present, so that drifts are those of the map from
      one sample to the next.
    - `own`: whether the learned model explains the windows nearly as well as the regression does,
      or better, so that effects are its own, bool `[target]`.
    - `trust`: of the model, `[target]`.
    - `center`: coefficients of the correction alone, `[target feature]`; `theta`: of every member,
        `[resample target feature]`, physical rates.
    - `noise`: of one step.
    - `rows`: the steps they were estimated from.
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

    @property
    def resamples(self) -> int:
        """The number of halves."""
        return len(self.graphs)

    def members(self, model: AbstractDelayModel, which: Any) -> Member:
        """Return a stack of drifts, in the precision of the learned model.

        - `which`: the number of the member that each of them is, `[path]`; −1 for the centre.
        """
        theta = np.concatenate([self.theta, self.center[None]])[which]
        parts = (self.basis, self.trust, theta)
        return Member(model, *jax.tree.map(partial(in_precision, model), parts))


def generator(key: PRNGKeyArray) -> np.random.Generator:
    """Return a NumPy generator, from a key of JAX."""
    return np.random.default_rng(np.asarray(jr.key_data(key)).astype(np.uint32).ravel().tolist())


def in_precision(model: AbstractDelayModel, value: Any) -> Array:
    """Return an array of JAX, numbers in the precision of a model."""
    return to_jax(value, model.dt.dtype if np.asarray(value).dtype.kind == "f" else None)


def make_ensemble(found: Any, *, rng: np.random.Generator, resamples: int = RESAMPLES) -> Ensemble:
    """Select the graph again on random halves of the data, and fit a drift on each, in closed form.

    **Arguments:**

    - `found`: a discovery.
    - `rng`: draws the halves.
    - `resamples`: halves, 40 by default: the least number that distinguishes shares of .9 and .75
        by two standard errors.

    **Raises:** `ValueError` for irregular sampling, or fewer than 20 steps.
    """
    check_whole(resamples, "resamples", least=2)
    rows, windows, model = step_rows(found), found.windows, found.model
    if len(rows) < 20:
        raise ValueError(
            f"an ensemble needs at least 20 steps between complete samples; there are {len(rows)}."
        )
    dim = len(found.names)
    slots = [_candidates(found, j) for j in range(dim)]
    bases = [
        make_basis(rows.start, s, [(b, a) for a, b in itertools.combinations(range(len(s)), 2)])
        for s in slots
    ]
    n_rows = min(len(rows), int(np.sum(np.asarray(windows.valid))))
    halves = draw_halves(count_blocks(n_rows, int(found.lags[-1]) + 2), resamples, rng)
    kept = [found.reads[:, j].T.ravel()[s] for j, s in enumerate(slots)]
    masks, own = _select_again(found, bases, kept, halves)
    data = StepData(model, rows, tuple(found.lags), float(found.dt), bases, kept, masks, halves)
    fitted = fit_steps(data, "heun")
    for step in ("flow", "hold") if 0 in found.lags else ("flow",):
        other = fit_steps(data, step)
        fitted = other if _smaller(other.residual, fitted.residual) else fitted
    graphs = np.zeros((resamples, *np.shape(found.graph)), bool)
    candidate = np.zeros(np.shape(found.graph), bool)
    for j, (slot, mask) in enumerate(zip(slots, masks, strict=True)):
        graphs[:, slot % dim, j, slot // dim] = mask
        candidate[slot % dim, j, slot // dim] = True
    state = (rows.now - np.asarray(model.scaling.center)) / np.asarray(model.scaling.scale)
    return Ensemble(
        graphs=graphs,
        share=np.where(candidate, _with_neighbours(graphs).mean(axis=0), np.nan),
        step=fitted.step,
        own=own,
        trust=fitted.trust,
        center=fitted.center,
        theta=fitted.center[None] + fitted.spread,
        basis=fitted.basis,
        noise=estimate_noise(fitted.residual, state, rows.position, fitted.freedom),
        rows=rows,
    )


def _with_neighbours(graph: np.ndarray) -> np.ndarray:
    """Return edges with those one lag before and after, along the last axis."""
    near = graph.copy()
    near[..., 1:] |= graph[..., :-1]
    near[..., :-1] |= graph[..., 1:]
    return near


def _candidates(found: Any, target: int) -> np.ndarray:
    """Return the candidates of one target, flat (lag, source): first the inputs of the model, then
    edges and their neighbours in lag, then others by score.
    """
    reads, edges = found.reads[:, target], found.graph[:, target]  # [source lag]
    allowed = np.asarray(found.windows.prior.allowed)[:, target] | reads | edges
    near = edges | _with_neighbours(reads)
    score = np.nan_to_num(np.asarray(found.scores, float)[:, target], nan=-np.inf)
    flat = lambda a: a.T.ravel()  # noqa: E731
    order = np.lexsort((-flat(score), ~flat(near), ~flat(reads)))
    order = order[flat(allowed)[order]]
    return np.sort(order[: max(SLOTS, int(reads.sum()) + 2)])


def _select_again(found: Any, bases: list[Basis], kept: list[np.ndarray], halves: np.ndarray):
    """Return the inputs chosen on each half, bool `[half slot]` for each target, and where the
    learned model explains the windows nearly as well as a regression on the kept inputs,
    `[target]`.
    """
    windows, s = found.windows, found.windows.scaling
    valid = np.asarray(windows.valid)
    history, increment, weight = (
        np.asarray(a, np.float64)[valid]
        for a in (windows.history, windows.increment, windows.weight)
    )
    history = history * np.asarray(s.scale) + np.asarray(s.center)
    said = model_rates(found.model, history, found.model.dt.dtype) - np.asarray(s.rate_center)
    left = increment - said / np.asarray(s.rate_scale)
    risk = weight @ left**2 / max(weight.sum(), 1.0)
    masks, own = [], []
    for j, (basis, start) in enumerate(zip(bases, kept, strict=True)):
        slots, design = np.asarray(basis.inputs), basis(history)
        given = (design, increment[:, j], weight)
        chosen = choose(
            Equations.of(*given, halves), basis, start,
            fixed=np.asarray(windows.prior.required)[:, j].T.ravel()[slots],
            swaps=[
                (a, b) for b, a in itertools.combinations(range(len(slots)), 2)
                if slots[a] % windows.dim == slots[b] % windows.dim
            ],
            n_candidates=windows.dim * windows.n_lags,
        )  # fmt: skip
        whole = Equations.of(*given)
        (rest,) = whole.solve(best_family(whole, basis, start)[1])[1]
        masks.append(chosen)
        own.append(risk[j] <= rest / max(whole.n[0], 1.0) + SHORTFALL)
    return masks, np.array(own)


def _smaller(one: np.ndarray, other: np.ndarray) -> bool:
    """Return whether residuals are clearly smaller, variables taken together."""
    sizes = [np.mean(np.square(np.nan_to_num(r, nan=np.inf)), axis=0) for r in (one, other)]
    with np.errstate(divide="ignore", invalid="ignore"):
        change = np.log(sizes[0] / sizes[1])
    return bool(np.nan_to_num(change, nan=0.0).mean() < -CLEARLY)


# ---- corrections of a learned model, and their spread ----


ROUNDS = 2
# Numbers that a smooth function of a few inputs uses up, however large the network: an upper guess,
# in favour of the regression.
MOST_NUMBERS = 100
# Share of them that makes a network vary. All of them made intervals of a two-variable system too
# wide, none those of a network of ten too narrow.
USED_UP = 0.6


@dataclasses.dataclass(frozen=True)
class StepData:
    """The steps of a record, a learned model, and the inputs that may be fitted for each target.

    - `bases`: columns that each target may use; `kept`: which of their inputs the model reads;
        `masks`: which were chosen on each half, `[half input]`.
    - `halves`: bool `[half block]`.
    """

    model: Any
    rows: Rows
    lags: tuple[int, ...]
    dt: float
    bases: list[Basis]
    kept: list[np.ndarray]
    masks: list[np.ndarray]
    halves: np.ndarray

    @property
    def rate(self) -> np.ndarray:
        """The rate of every step, `[row dim]`."""
        return (self.rows.next - self.rows.now) / self.dt

    def learned(self, histories: np.ndarray) -> np.ndarray:
        """Return the rates of the learned model, `[row dim]`."""
        return model_rates(self.model, histories, self.model.dt.dtype)

    def lead(self, drift: Any, step: str):
        """Return the quadrature points of each step under a drift, and its mean rate."""
        return lead(drift, self.rows, self.lags, self.dt, step)


@dataclasses.dataclass(frozen=True)
class Fitted:
    """A fitted one-step map; arrays as in `Ensemble`.

    - `step`: of the simulator, one of `KINDS`.
    - `residual`: what the centre leaves of every step, `[row dim]`.
    - `freedom`: numbers that were fitted, per target.
    """

    step: str
    basis: Basis
    trust: np.ndarray
    center: np.ndarray
    spread: np.ndarray
    residual: np.ndarray
    freedom: np.ndarray


def fit_steps(data: StepData, step: str) -> Fitted:
    """Correct the model so that its step fits, and return by how much halves of the data differ."""
    bases, targets, rate = data.bases, range(len(data.bases)), data.rate
    own = [np.zeros(len(basis.kind)) for basis in bases]
    for _ in range(ROUNDS):

        def corrected(z, of=own):
            extra = [b(z) @ c if c.any() else np.zeros(len(z)) for b, c in zip(bases, of)]  # noqa: B905
            return data.learned(z) + np.stack(extra, axis=1)

        path, _ = data.lead(corrected, step)
        said, designs = path.mean(data.learned), [path.mean(basis) for basis in bases]
        own = [_correction(data, j, designs[j], (rate - said)[:, j]) for j in targets]
    # The regression alone, and how halves of the data differ from it.
    alone = [_refitted(data, j, designs[j], rate[:, j]) for j in targets]
    counts = np.array([count for *_, count in alone])
    numbers = np.minimum(count_numbers(data.model), MOST_NUMBERS)
    trust = np.zeros(len(bases), bool)
    for j in targets:
        with_model = np.mean((rate[:, j] - said[:, j] - designs[j] @ own[j]) ** 2)
        regression = np.mean((rate[:, j] - designs[j] @ alone[j][0]) ** 2)
        # Akaike's criterion, which asks for the next step and not for the true form.
        floor = 1e-12 * np.var(rate[:, j])
        gain = len(rate) * np.log((regression + floor) / (with_model + floor))
        more = numbers[j] + np.sum(own[j] != 0) - counts[j]
        trust[j] = np.isfinite(with_model) and gain > 2 * more
    # A network of more numbers than the regression varies more, as estimates do by their number.
    wider = np.sqrt(np.maximum(USED_UP * numbers / np.maximum(counts, 1), 1))
    # Where the model is trusted, the halves are asked what *it* misses there.
    centers = [own[j] if trust[j] else alone[j][0] for j in targets]
    spreads = [
        wider[j] * _refitted(data, j, designs[j], (rate - said)[:, j], trusted=True)[1]
        if trust[j]
        else alone[j][1]
        for j in targets
    ]
    used = [np.any(d != 0, axis=0) | (c != 0) for d, c in zip(spreads, centers, strict=True)]
    basis, places = shared_basis(data.rows.start, bases, used)
    center = np.zeros((len(bases), len(basis.kind)))
    spread = np.zeros((len(data.halves), *center.shape))
    for j, place in enumerate(places):
        center[j, place], spread[:, j, place] = centers[j][used[j]], spreads[j][:, used[j]]
    led = data.lead(lambda z: data.learned(z) * trust[None] + basis(z) @ center.T, step)[1]
    residual = data.rows.next - data.rows.now - data.dt * led
    freedom = np.where(trust, np.maximum(numbers, counts), counts)
    return Fitted(step, basis, trust.astype(float), center, spread, residual, freedom)


def _correction(data: StepData, target: int, design: np.ndarray, left: np.ndarray) -> np.ndarray:
    """Return the regression of the residuals on the kept inputs; zeros if none lowers the
    criterion.
    """
    equations, coefficients = Equations.of(design, left), np.zeros(design.shape[1])
    cost, used = best_family(equations, data.bases[target], data.kept[target])
    (n,), (square,), (spread,) = equations.n, equations.square, equations.spread
    if spread > 0 and cost < n * np.log(square / spread + FLOOR):
        coefficients[used] = equations.solve(used)[0][0]
    return coefficients


def _refitted(data: StepData, target: int, design, output, *, trusted: bool = False):
    """Return coefficients of an output on all data, differences from them on each half
    `[half column]`, and their number on all data.

    With `trusted` the output is what a trusted model leaves of a rate. Then every half uses the
    kept inputs, since leaving one out would say nothing about a model that has it.
    """
    basis, kept = data.bases[target], data.kept[target]
    _, used = best_family(Equations.of(design, data.rate[:, target]), basis, kept)
    family = int(basis.kind[used].max())
    whole = np.zeros(design.shape[1])
    whole[used] = Equations.of(design, output).solve(used)[0][0]
    spread = np.tile(-whole, (len(data.halves), 1))
    halves = Equations.of(design, output, halves=data.halves)
    for h, mask in enumerate(data.masks[target]):
        here = used_columns(basis, mask | kept if trusted else mask, family)
        spread[h, here] += halves.solve(here, [h])[0][0]
    return whole, spread, len(used)


def count_numbers(model: Any) -> np.ndarray:
    """Return the number of fitted parameters per target: of arrays whose first axis are the
    targets, those that belong to inputs in use.
    """
    dim, counts = model.dim, np.zeros(model.dim)
    mask = np.asarray(model.mask).reshape(dim, -1)
    degree, n_inputs = mask.sum(axis=1), mask.shape[1]
    fitted = eqx.filter(getattr(model, "drift", model), eqx.is_inexact_array)
    for leaf in map(np.asarray, jax.tree.leaves(fitted)):
        if not leaf.ndim or leaf.shape[0] != dim:
            continue
        size = np.count_nonzero(leaf.reshape(dim, -1), axis=1)
        # Of a first layer, only weights of inputs that the mask lets through.
        first = leaf.ndim > 1 and leaf.shape[-1] == n_inputs
        counts += size * degree / n_inputs if first else size
    return counts
