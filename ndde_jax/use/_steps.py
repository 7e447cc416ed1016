"""What a step of the simulator should be: corrections of a learned model, and their spread."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import numpy as np

from ..models._model import model_rates
from ..select._splines import FLOOR
from . import _halves
from ._basis import CURVED, Basis, columns, families, make_basis
from ._halves import Sums
from ._lead import Quadrature, lead
from ._regraph import kept_of
from ._rows import Rows

ROUNDS = 2
# Numbers that a smooth function of a few inputs uses up, however large the network: an upper guess,
# in favour of the regression.
MOST_NUMBERS = 100
# Share of them that makes a network vary. All of them made intervals of a two-variable system too
# wide, none those of a network of ten too narrow.
USED_UP = 0.6


@dataclasses.dataclass(frozen=True)
class Fitted:
    """One way to step, fitted; arrays as in `Ensemble`.

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


def fit_steps(found: Any, rows: Rows, bases, masks, halves, *, step: str) -> Fitted:
    """Correct the model so that its step fits, and see how much halves of the data differ."""
    corrected, path = _correct(found, rows, bases, step)
    rate, left = _rate(found, rows), _rate(found, rows) - _model_step(found, path)
    given = (found, rows, path)
    fits = [_spread(*given, j, b, masks[j], halves, rate[:, j]) for j, b in enumerate(bases)]
    trust = _trust(*given, bases, corrected, fits)
    corrected = [c if t else f[0] for c, f, t in zip(corrected, fits, trust, strict=True)]
    # Where the model is trusted, the halves are asked what *it* misses there.
    numbers = np.minimum(count_numbers(found.model), MOST_NUMBERS)
    counts = np.array([f[2] for f in fits])
    # A network of more numbers than the regression varies more, as estimates do by their number.
    wider = np.sqrt(np.maximum(USED_UP * numbers / np.maximum(counts, 1), 1))
    spreads = [
        wider[j] * _spread(*given, j, bases[j], masks[j], halves, left[:, j], trusted=True)[1]
        if t
        else fits[j][1]
        for j, t in enumerate(trust)
    ]
    used = [np.any(d != 0, axis=0) | (c != 0) for d, c in zip(spreads, corrected, strict=True)]
    basis, place = _assemble(rows, bases, used)
    center = np.stack([place(j, c[None])[0] for j, c in enumerate(corrected)])
    return Fitted(
        step=step,
        basis=basis,
        trust=trust.astype(float),
        center=center,
        spread=np.stack([place(j, d) for j, d in enumerate(spreads)], axis=1),
        residual=_residual(found, rows, center, basis, trust, step),
        freedom=np.where(trust, np.maximum(numbers, counts), counts),
    )


def _correct(found, rows: Rows, bases, step: str) -> tuple[list, Quadrature]:
    """Coefficients of what a step of the model misses, per target, and where the model, so
    corrected, leads.
    """
    corrected = [np.zeros(len(families(b)[1])) for b in bases]
    for _ in range(ROUNDS):

        def drift(z, of=corrected):
            rates = model_rates(found.model, z, found.model.dt.dtype)
            for j, (basis, c) in enumerate(zip(bases, of, strict=True)):
                if c.any():
                    rates[:, j] += _columns(basis, z) @ c
            return rates

        path = lead(drift, rows, found.lags, float(found.dt), step)[0]
        left = _rate(found, rows) - _model_step(found, path)
        corrected = [_fit_correction(found, j, b, path, left[:, j]) for j, b in enumerate(bases)]
    return corrected, path


def _columns(basis: Basis, histories: np.ndarray) -> np.ndarray:
    flat = histories.reshape(len(histories), -1)
    return columns(basis, flat[:, np.asarray(basis.inputs)], np)


def _design(basis: Basis, path: Quadrature) -> np.ndarray:
    """Columns as a step sees them."""
    return path.mean(lambda z: _columns(basis, z))


def _fit_correction(found, target, basis, path, left) -> np.ndarray:
    """Coefficients of a regression of what is left on the kept inputs; zeros if none pays."""
    design = _design(basis, path)
    gram = _halves.block_sums(design, left, np.ones(len(left)), np.zeros(len(left), int), 1)[0]
    sums, coefficients = Sums(gram), np.zeros(design.shape[1])
    chosen = kept_of(found, target, np.asarray(basis.inputs))
    cost, used = _halves.best_family(sums, chosen, *families(basis))
    nothing = sums.n * np.log(sums.square / sums.spread + FLOOR) if sums.spread > 0 else -np.inf
    if cost < nothing:
        coefficients[used] = sums.solve(used)[0]
    return coefficients


def _rate(found, rows: Rows) -> np.ndarray:
    """Of every step, `[row dim]`."""
    return (rows.next - rows.now) / float(found.dt)


def _model_step(found, path: Quadrature) -> np.ndarray:
    """What the model says of it."""
    return path.mean(lambda z: model_rates(found.model, z, found.model.dt.dtype))


def _spread(found, rows, path, target, basis, masks, halves, output, *, trusted=False):
    """Coefficients of an output on all data, differences from them on each half `[half column]`,
    and how many there are on all data.

    With `trusted` the output is what a trusted model leaves of a rate. Then every half has the kept
    inputs: one that it would leave out says nothing about a model that has it.
    """
    design = _design(basis, path)
    n, n_blocks = len(output), halves.shape[1]
    block = _halves.block_of(n, n_blocks)
    needs, kind = families(basis)
    chosen = kept_of(found, target, np.asarray(basis.inputs))
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


def _trust(found, rows, path, bases, corrected, fits) -> np.ndarray:
    """Whether the corrected model predicts a step better than the regression on all data does, by
    Akaike's criterion, which asks for the next step and not for the true form; bool `[target]`.
    """
    rate, model = _rate(found, rows), _model_step(found, path)
    numbers = count_numbers(found.model)
    trust = []
    for j, (basis, own, fit) in enumerate(zip(bases, corrected, fits, strict=True)):
        design = _design(basis, path)
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


def _residual(found, rows: Rows, center, basis, trust, step: str) -> np.ndarray:
    """What a step of the centre leaves, `[row dim]`."""
    model, dt = found.model, float(found.dt)

    def drift(z):
        known = model_rates(model, z, model.dt.dtype) * trust[None]
        return known + _columns(basis, z) @ center.T

    return rows.next - rows.now - dt * lead(drift, rows, found.lags, dt, step)[1]
