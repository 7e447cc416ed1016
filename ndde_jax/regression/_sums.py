"""The sufficient statistics of regressions: sums over windows, per block, that add up."""

import itertools
import operator

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Bool, Float

from .._types import namespace_of


class Sums(eqx.Module):
    """The sums over the windows of each block, of which regressions are functions.

    They are additive: the sums of a longer record, of several recordings, of chunks or of parts on
    other machines are the sums of the parts, if all use the same features. Weights carry masks,
    missing values and recordings.

    - `weight`: Σ w.
    - `x`, `y`: Σ w x of the features and Σ w y of the targets.
    - `xx`, `xy`, `yy`: Σ w x xᵀ, Σ w x yᵀ and Σ w y².
    """

    weight: Float[Array | np.ndarray, "block"]
    x: Float[Array | np.ndarray, "block feature"]
    y: Float[Array | np.ndarray, "block target"]
    xx: Float[Array | np.ndarray, "block feature feature"]
    xy: Float[Array | np.ndarray, "block feature target"]
    yy: Float[Array | np.ndarray, "block target"]

    def __add__(self, other: "Sums") -> "Sums":
        return jax.tree.map(operator.add, self, other)


def sums_of(
    features: Float[Array | np.ndarray, "window feature"],
    targets: Float[Array | np.ndarray, "window target"],
    weight: Float[Array | np.ndarray, "window"],
    n_blocks: int = 1,
) -> Sums:
    """Return sums over equally long blocks of consecutive windows.

    In NumPy unless something is traced, since a program would be compiled for every length. Rows of
    weight zero may hold anything finite.

    ```python
    import numpy as np
    from ndde_jax import regression

    x = np.random.default_rng(0).normal(size=(100, 2))
    weight = np.ones(100)
    whole = regression.sums_of(x, x, weight)
    parts = regression.sums_of(x[:30], x[:30], weight[:30])
    parts = parts + regression.sums_of(x[30:], x[30:], weight[30:])
    print(np.allclose(whole.xx, parts.xx))  # True
    ```
    """
    xp = namespace_of((features, targets, weight))
    edges = np.linspace(0, len(weight), n_blocks + 1).round().astype(int)
    blocks = []
    for first, last in itertools.pairwise(edges):
        x, y, w = features[first:last], targets[first:last], weight[first:last]
        wx = x if xp is np and (w == 1).all() else w[:, None] * x
        xx = _weighted_squares(x, w) if xp is np else wx.T @ x
        blocks.append((w.sum(), wx.sum(0), w @ y, xx, wx.T @ y, w @ y**2))
    return Sums(*(xp.stack(parts) for parts in zip(*blocks, strict=True)))


def _weighted_squares(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return xᵀ diag(weight) x: the product of an array with its own transpose takes half the
    time.
    """
    rows = x if (weight == 1).all() else np.sqrt(weight)[:, None] * x
    return rows.T @ rows


def with_changed(
    sums: Sums,
    features: Float[np.ndarray, "window feature"],
    targets: Float[np.ndarray, "window target"],
    weight: Float[np.ndarray, "window"],
    changed: Bool[np.ndarray, "feature"],
) -> Sums:
    """Return the sums of one block of windows in which some features have new values; `features`
    are all of them, as they are now.
    """
    new = features[:, changed]
    new = new if (weight == 1).all() else weight[:, None] * new
    x, xx, xy = sums.x.copy(), sums.xx.copy(), sums.xy.copy()
    x[0, changed], xy[0, changed] = new.sum(axis=0), new.T @ targets
    xx[0, changed] = products = new.T @ features
    xx[0][:, changed] = products.T
    return Sums(sums.weight, x, sums.y, xx, xy, sums.yy)
