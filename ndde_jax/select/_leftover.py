"""A closed-form test of whether residuals leave anything for networks to explain."""

import numpy as np
from jaxtyping import Float

# Random hidden units: enough for any shape that eight trained ones make, and few beside the
# windows.
UNITS = 64
# Of their weights, for standardised inputs: between nearly linear and nearly a step.
STEEPNESS = 1.5
# Most inputs of a unit: random directions among many seldom come near those that matter.
MOST = 3
# Windows per unit that a test needs.
PER_UNIT = 4
# Of a leftover without a cause in any target.
CHANCE = 0.01


def beyond_chance(chances: list[float]) -> list[bool]:
    """Return, for the chance of the leftover of each target, whether something is left. The level
    `CHANCE` is divided among the targets (Bonferroni).
    """
    return [chance < CHANCE / len(chances) for chance in chances]


def chance_of_leftover(
    residual: Float[np.ndarray, " window"],
    known: Float[np.ndarray, "window column"],
    inputs: Float[np.ndarray, "window input"],
    root: Float[np.ndarray, " window"],
) -> float:
    """Return the probability that chance alone lets smooth functions of some inputs explain as much
    of a residual as they do.

    An F test of random tanh units, of one to three inputs each, beside the columns that the model
    has, whose least squares left the residual. Random units span what a trained network can add
    (Rahimi & Recht, "Random features for large-scale kernel machines", NIPS 2007). Windows are
    independent for it: where they are not, it says "more" too often, never too seldom.

    **Arguments:**

    - `residual`, `known`: times `root`, the roots of the weights of the windows.
    - `inputs`: standardised.

    **Returns:** a probability; 1 where nothing can be told.
    """
    from scipy.special import fdtrc  # takes a moment to import

    used = root > 0
    n, count = int(used.sum()), min(UNITS, int(used.sum()) // PER_UNIT)
    spare = n - known.shape[1] - count - 1
    if count == 0 or spare < PER_UNIT or not inputs.shape[1]:
        return 1.0
    # The same units for everybody: an answer depends on the data alone.
    draw = np.random.default_rng(0)
    seen = np.minimum(np.arange(count) % MOST + 1, inputs.shape[1])
    places = draw.random((inputs.shape[1], count)).argsort(axis=0).argsort(axis=0)
    weights = np.where(places < seen, draw.normal(size=places.shape), 0) * STEEPNESS / np.sqrt(seen)
    units = np.tanh(inputs[used] @ weights + draw.normal(size=count)) * root[used, None]
    basis, _ = np.linalg.qr(np.concatenate([root[used, None], known[used], units], axis=1))
    new = basis[:, 1 + known.shape[1] :]
    left = residual[used] - basis[:, : 1 + known.shape[1]] @ (
        basis[:, : 1 + known.shape[1]].T @ residual[used]
    )
    explained, total = float(np.sum((new.T @ left) ** 2)), float(left @ left)
    if not total > 0 or not np.isfinite(explained):
        return 1.0
    ratio = (explained / count) / (max(total - explained, 1e-300) / spare)
    return float(fdtrc(count, spare, ratio))
