"""A learned drift with what the data leave open: other graphs, other curves, noise, error."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import numpy as np

from .._checks import check_whole
from ..select._splines import FLOOR
from . import _halves
from ._basis import CURVED, Basis, columns, families, make_basis
from ._halves import Sums
from ._noise import Noise, estimate_noise
from ._rows import Rows, model_rates, step_rows

RESAMPLES = 40
# Candidates per target that a half may choose from.
SLOTS = 12
ROUNDS = 2
# Numbers that a smooth function of a few inputs uses up, however large the network: an upper guess,
# in favour of the regression.
MOST_NUMBERS = 100


@dataclasses.dataclass(frozen=True)
class Ensemble:
    """The learned drift, corrected, and its variants on halves of the data; NumPy.

    A member's drift is `trust` times the learned model plus `theta` times the columns of `basis`:
    what a step of the simulator misses on all data, and by how much a regression on a half differs
    from the same regression on all data. Halves spread about as much as the data themselves do.
    Where the model predicts a step no better than the regression, for the numbers it has, the
    regression stands alone: `trust` is 1 or 0 per target.

    - `graphs`: chosen on each half, `[resample source target lag]`.
    - `share`: of the halves whose graph holds an edge at this lag or a neighbouring one,
        `[source target lag]`; NaN where an edge was no candidate.
    - `trust`: of the model, `[target]`.
    - `center`: coefficients of the correction alone, `[target feature]`; `theta`: of every member,
        `[resample target feature]`, physical rates.
    - `noise`: of one step.
    - `rows`: the steps they were estimated from.
    """

    graphs: np.ndarray
    share: np.ndarray
    trust: np.ndarray
    center: np.ndarray
    theta: np.ndarray
    basis: Basis
    noise: Noise
    rows: Rows

    @property
    def resamples(self) -> int:
        """Number of halves."""
        return len(self.graphs)


def make_ensemble(found: Any, *, rng: np.random.Generator, resamples: int = RESAMPLES) -> Ensemble:
    """Select the graph again on random halves of the data, and fit what they say, in closed form.

    **Arguments:**

    - `found`: a discovery.
    - `rng`: draws the halves.
    - `resamples`: halves, 40 by default: the least number with which a share of .9 and one of .75
        are told apart at two standard errors.

    **Raises:** `ValueError` for irregular sampling, or fewer than 20 steps.
    """
    check_whole(resamples, "resamples", least=2)
    rows = step_rows(found)
    if len(rows) < 20:
        raise ValueError(
            f"an ensemble needs at least 20 steps between complete samples; there are {len(rows)}."
        )
    graph = np.asarray(found.graph)
    slots = [_slots(found, j) for j in range(graph.shape[1])]
    pairs = lambda s: np.array(  # noqa: E731
        [(a, b) for a in range(len(s)) for b in range(a)], int
    ).reshape(-1, 2)
    bases = [make_basis(rows.start, s, pairs(s)) for s in slots]
    reach = int(found.lags[-1]) + 2
    n_blocks = _halves.count_blocks(min(len(rows), int(np.sum(_valid(found)))), reach)
    halves = _halves.draw_halves(n_blocks, resamples, rng)
    masks = [_select(found, j, b, halves) for j, b in enumerate(bases)]

    corrected, end = _correct(found, rows, bases)
    rate = _rate(found, rows)
    fits = [
        _spread(found, rows, end, j, bases[j], masks[j], halves, rate[:, j])
        for j in range(len(bases))
    ]
    trust = _trust(found, rows, end, bases, corrected, fits)
    corrected = [c if t else f[0] for c, f, t in zip(corrected, fits, trust, strict=True)]
    # Where the model is trusted, the halves are asked what *it* misses there.
    left = _rate(found, rows) - _model_step(found, rows, end)
    spreads = [
        _spread(found, rows, end, j, bases[j], masks[j], halves, left[:, j], trusted=True)[1]
        if t
        else fits[j][1]
        for j, t in enumerate(trust)
    ]
    used = [np.any(d != 0, axis=0) | (c != 0) for d, c in zip(spreads, corrected, strict=True)]
    basis, place = _assemble(rows, bases, used)
    spread = np.stack([place(j, d) for j, d in enumerate(spreads)], axis=1)
    center = np.stack([place(j, c[None])[0] for j, c in enumerate(corrected)])
    counts = [max(int(np.sum(c != 0)), f[2]) for c, f in zip(corrected, fits, strict=True)]
    residual = _residual(found, rows, end, center, basis, trust)
    scaling = found.model.scaling
    state = (rows.now - np.asarray(scaling.center)) / np.asarray(scaling.scale)
    graphs = _graphs(graph.shape, slots, masks)
    return Ensemble(
        graphs=graphs,
        share=_share(graphs, slots),
        trust=trust.astype(float),
        center=center,
        theta=center[None] + spread,
        basis=basis,
        noise=estimate_noise(residual, state, rows.position, np.asarray(counts)),
        rows=rows,
    )


def _valid(found) -> np.ndarray:
    return np.asarray(found.windows.valid)


def _slots(found: Any, target: int) -> np.ndarray:
    """Candidates of one target, flat (lag, source): what is kept first, then its neighbours in lag,
    then others by score.
    """
    kept = found.graph[:, target].T  # [lag source]
    allowed = np.asarray(found.windows.prior.allowed)[:, target].T | kept
    near = kept.copy()
    near[1:] |= kept[:-1]
    near[:-1] |= kept[1:]
    score = np.nan_to_num(np.asarray(found.scores, float)[:, target].T, nan=-np.inf)
    order = np.lexsort((-score.ravel(), -near.ravel().astype(int), -kept.ravel().astype(int)))
    order = order[allowed.ravel()[order]]
    return np.sort(order[: max(SLOTS, int(kept.sum()) + 2)])


def _chosen(found, target: int, slots: np.ndarray) -> np.ndarray:
    return found.graph[:, target].T.ravel()[slots]


def _select(found, target: int, basis: Basis, halves: np.ndarray) -> np.ndarray:
    """Inputs chosen on each half, bool `[half slot]`."""
    windows, slots = found.windows, np.asarray(basis.inputs)
    valid, scaling = _valid(found), windows.scaling
    history = np.asarray(windows.history, np.float64)[valid]
    history = history * np.asarray(scaling.scale) + np.asarray(scaling.center)
    design = columns(basis, history.reshape(len(history), -1)[:, slots], np)
    block = _halves.block_of(len(design), halves.shape[1])
    output = np.asarray(windows.increment, np.float64)[valid, target]
    weight = np.asarray(windows.weight, np.float64)[valid]
    sums = _halves.block_sums(design, output, weight, block, halves.shape[1])
    needs, kind = families(basis)
    required = np.asarray(windows.prior.required)[:, target].T.ravel()[slots]
    dim = windows.dim
    swaps = [
        (a, b) for a in range(len(slots)) for b in range(a) if slots[a] % dim == slots[b] % dim
    ]
    options = dict(fixed=required, swaps=swaps, n_candidates=windows.dim * windows.n_lags)
    start = _chosen(found, target, slots)
    return np.stack(
        [_halves.choose(Sums(sums[h].sum(0)), start, needs, kind, **options) for h in halves]
    )


def _correct(found, rows: Rows, bases) -> tuple[list, np.ndarray]:
    """Coefficients of what a step of the model misses, per target, and the states at its end."""
    model, dt = found.model, float(found.dt)
    first, rate = model_rates(model, rows.start), (rows.next - rows.now) / dt
    corrected = [np.zeros(len(families(b)[1])) for b in bases]
    lags = tuple(found.lags)
    for _ in range(ROUNDS):
        change = np.stack(
            [_columns(b, rows.start) @ c for b, c in zip(bases, corrected, strict=True)], axis=1
        )
        end = rows.end.copy()
        if 0 in lags:
            end[:, lags.index(0)] = rows.now + dt * (first + change)
        left = rate - (first + model_rates(model, end)) / 2
        corrected = [
            _fit_correction(found, j, b, rows, end, left[:, j]) for j, b in enumerate(bases)
        ]
    return corrected, end


def _columns(basis: Basis, histories: np.ndarray) -> np.ndarray:
    flat = histories.reshape(len(histories), -1)
    return columns(basis, flat[:, np.asarray(basis.inputs)], np)


def _trapezoid(basis: Basis, rows: Rows, end: np.ndarray) -> np.ndarray:
    """Columns as a step of Heun sees them."""
    return (_columns(basis, rows.start) + _columns(basis, end)) / 2


def _fit_correction(found, target, basis, rows, end, left) -> np.ndarray:
    """Coefficients of a regression of what is left on the kept inputs; zeros if none pays."""
    design = _trapezoid(basis, rows, end)
    gram = _halves.block_sums(design, left, np.ones(len(left)), np.zeros(len(left), int), 1)[0]
    sums, coefficients = Sums(gram), np.zeros(design.shape[1])
    chosen = _chosen(found, target, np.asarray(basis.inputs))
    cost, used = _halves.best_family(sums, chosen, *families(basis))
    nothing = sums.n * np.log(sums.square / sums.spread + FLOOR) if sums.spread > 0 else -np.inf
    if cost < nothing:
        coefficients[used] = sums.solve(used)[0]
    return coefficients


def _rate(found, rows: Rows) -> np.ndarray:
    """Of every step, `[row dim]`."""
    return (rows.next - rows.now) / float(found.dt)


def _model_step(found, rows: Rows, end) -> np.ndarray:
    """What the model says of it, as a step of Heun sees it."""
    return (model_rates(found.model, rows.start) + model_rates(found.model, end)) / 2


def _spread(found, rows, end, target, basis, masks, halves, output, *, trusted=False):
    """Coefficients of an output on all data, differences from them on each half `[half column]`,
    and how many there are on all data.

    With `trusted` the output is what a trusted model leaves of a rate. Then every half has the kept
    inputs: one that it would leave out says nothing about a model that has it.
    """
    design = _trapezoid(basis, rows, end)
    n, n_blocks = len(output), halves.shape[1]
    block = _halves.block_of(n, n_blocks)
    needs, kind = families(basis)
    chosen = _chosen(found, target, np.asarray(basis.inputs))
    rate = _rate(found, rows)[:, target]
    whole_rate = _halves.block_sums(design, rate, np.ones(n), np.zeros(n, int), 1)[0]
    _, used = _halves.best_family(Sums(whole_rate), chosen, needs, kind)
    family = int(kind[used].max())
    blocks = _halves.block_sums(design, output, np.ones(n), block, n_blocks)
    whole = np.zeros(design.shape[1])
    whole[used] = Sums(blocks.sum(0)).solve(used)[0]
    spread = np.tile(-whole, (len(halves), 1))
    for h, (half, mask) in enumerate(zip(halves, masks, strict=True)):
        mask = mask | chosen if trusted else mask
        used_here = _halves.used_columns(mask, needs, kind, family)
        spread[h, used_here] += Sums(blocks[half].sum(0)).solve(used_here)[0]
    return whole, spread, len(used)


def _trust(found, rows, end, bases, corrected, fits) -> np.ndarray:
    """Whether the corrected model predicts a step better than the regression on all data does, by
    Akaike's criterion, which asks for the next step and not for the true form; bool `[target]`.
    """
    rate, model = _rate(found, rows), _model_step(found, rows, end)
    numbers = count_numbers(found.model)
    trust = []
    for j, (basis, own, fit) in enumerate(zip(bases, corrected, fits, strict=True)):
        design = _trapezoid(basis, rows, end)
        with_model = np.mean((rate[:, j] - model[:, j] - design @ own) ** 2)
        alone = np.mean((rate[:, j] - design @ fit[0]) ** 2)
        floor = 1e-12 * np.var(rate[:, j])
        more = min(numbers[j], MOST_NUMBERS) + np.sum(own != 0) - fit[2]
        gain = len(rate) * np.log((alone + floor) / (with_model + floor))
        trust.append(bool(np.isfinite(with_model) and gain > 2 * more))
    return np.array(trust)


def count_numbers(model: Any) -> np.ndarray:
    """Numbers that were fitted, per target: of arrays whose first axis are the targets, those that
    belong to inputs in use.
    """
    dim, counts = model.dim, np.zeros(model.dim)
    degree = np.asarray(model.mask).reshape(dim, -1).sum(axis=1)
    n_inputs = np.asarray(model.mask).reshape(dim, -1).shape[1]
    fitted = eqx.filter(getattr(model, "drift", model), eqx.is_inexact_array)
    for leaf in jax.tree.leaves(fitted):
        leaf = np.asarray(leaf)
        if not leaf.ndim or leaf.shape[0] != dim:
            continue
        size = np.count_nonzero(leaf.reshape(dim, -1), axis=1)
        # Of a first layer, only weights of inputs that the mask lets through.
        first = leaf.ndim > 1 and leaf.shape[-1] == n_inputs
        counts += size * degree / n_inputs if first else size
    return counts


def _assemble(rows: Rows, bases, used):
    """One basis for what all targets use, and where the columns of each target's own lie in it."""
    inputs, pairs, own = set(), set(), []
    for basis, column in zip(bases, used, strict=True):
        needs, kind = families(basis)
        flat = np.asarray(basis.inputs)
        own.append([tuple(sorted(int(flat[i]) for i in need if i >= 0)) for need in needs])
        inputs |= {i for need, use in zip(own[-1], column, strict=True) if use for i in need}
        at = zip(own[-1], column, kind, strict=True)
        pairs |= {need for need, use, family in at if use and family == 2}
    inputs, pairs = sorted(inputs or {int(np.asarray(bases[0].inputs)[0])}), sorted(pairs)
    place_of = {i: k for k, i in enumerate(inputs)}
    slots = [[place_of[a], place_of[b]] for a, b in pairs]
    basis = make_basis(rows.start, np.array(inputs, int), np.array(slots, int).reshape(-1, 2))
    n, pair_of = len(inputs), {pair: k for k, pair in enumerate(pairs)}

    def place(target: int, coefficients: np.ndarray) -> np.ndarray:
        _, kind = families(bases[target])
        out = np.zeros((*coefficients.shape[:-1], 1 + n + n * CURVED + len(pairs)))
        for k, (need, family) in enumerate(zip(own[target], kind, strict=True)):
            if not used[target][k]:
                continue
            if family == 2:
                to = 1 + n + n * CURVED + pair_of[need]
            elif not need:
                to = 0
            elif family == 0:
                to = 1 + place_of[need[0]]
            else:
                # Curved columns of an input come in their order.
                first = 1 + len(bases[target].inputs)
                to = 1 + n + place_of[need[0]] * CURVED + (k - first) % CURVED
            out[..., to] = coefficients[..., k]
        return out

    return basis, place


def _residual(found, rows: Rows, end, center, basis, trust) -> np.ndarray:
    """What a step of the centre leaves, `[row dim]`."""
    model, dt = found.model, float(found.dt)
    known = lambda z: model_rates(model, z) * trust[None]  # noqa: E731
    drift = lambda z: known(z) + _columns(basis, z) @ center.T  # noqa: E731
    first = drift(rows.start)
    if 0 in found.lags:
        end = end.copy()
        end[:, tuple(found.lags).index(0)] = rows.now + dt * first
    return rows.next - rows.now - dt / 2 * (first + drift(end))


def _graphs(shape, slots, masks) -> np.ndarray:
    """`[half source target lag]`."""
    dim, _, n_lags = shape
    graphs = np.zeros((len(masks[0]), dim, dim, n_lags), bool)
    for j, (slot, mask) in enumerate(zip(slots, masks, strict=True)):
        graphs[:, slot % dim, j, slot // dim] = mask
    return graphs


def _share(graphs: np.ndarray, slots) -> np.ndarray:
    """Of halves, with neighbouring lags of one source counted together."""
    together = graphs.copy()
    together[..., 1:] |= graphs[..., :-1]
    together[..., :-1] |= graphs[..., 1:]
    share = together.mean(axis=0)
    dim = graphs.shape[1]
    candidate = np.zeros(graphs.shape[1:], bool)
    for j, slot in enumerate(slots):
        candidate[slot % dim, j, slot // dim] = True
    return np.where(candidate, share, np.nan)
