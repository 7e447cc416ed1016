"""What a step of the simulator should be: corrections of a learned model, and their spread."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import numpy as np

from ..models._model import model_rates
from ..select._splines import FLOOR
from ._half_sampling import Basis, Equations, best_family, shared_basis, used_columns
from ._one_step import Rows, lead

ROUNDS = 2
# Numbers that a smooth function of a few inputs uses up, however large the network: an upper guess,
# in favour of the regression.
MOST_NUMBERS = 100
# Share of them that makes a network vary. All of them made intervals of a two-variable system too
# wide, none those of a network of ten too narrow.
USED_UP = 0.6


@dataclasses.dataclass(frozen=True)
class StepData:
    """Steps of a record, a learned model, and what may be fitted of each target.

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
        """Rate of every step, `[row dim]`."""
        return (self.rows.next - self.rows.now) / self.dt

    def learned(self, histories: np.ndarray) -> np.ndarray:
        """Return what the model says, `[row dim]`."""
        return model_rates(self.model, histories, self.model.dt.dtype)

    def lead(self, drift: Any, step: str):
        """Return what a step sees under a drift, and its mean rate."""
        return lead(drift, self.rows, self.lags, self.dt, step)


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


def fit_steps(data: StepData, step: str) -> Fitted:
    """Correct the model so that its step fits, and see how much halves of the data differ."""
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
    """Return the regression of what is left on the kept inputs; zeros if none pays."""
    equations, coefficients = Equations.of(design, left), np.zeros(design.shape[1])
    cost, used = best_family(equations, data.bases[target], data.kept[target])
    (n,), (square,), (spread,) = equations.n, equations.square, equations.spread
    if spread > 0 and cost < n * np.log(square / spread + FLOOR):
        coefficients[used] = equations.solve(used)[0][0]
    return coefficients


def _refitted(data: StepData, target: int, design, output, *, trusted: bool = False):
    """Return coefficients of an output on all data, differences from them on each half
    `[half column]`, and how many there are on all data.

    With `trusted` the output is what a trusted model leaves of a rate. Then every half has the kept
    inputs: one that it would leave out says nothing about a model that has it.
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
    """Return how many numbers were fitted, per target: of arrays whose first axis are the targets,
    those that belong to inputs in use.
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
