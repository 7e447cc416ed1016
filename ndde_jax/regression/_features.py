"""The features of one input: a straight line and the bends of a restricted cubic spline."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

# Knots of restricted cubic splines (Harrell, Regression Modeling Strategies, 2015, table 2.3).
QUANTILES = (0.025, 0.1833, 0.3417, 0.5, 0.6583, 0.8167, 0.975)
# Terms of a spline: the input itself first.
WIDTH = len(QUANTILES) - 1
# Knots for records without noise, whose splines err by their own bends and by nothing else: what
# seven miss of a steep law, other lags would make up for.
MANY_QUANTILES = tuple(np.linspace(0.02, 0.98, 21).tolist())
# Squared error of a neighbour's guess, relative to a step, below which a path is smooth.
SMOOTH = 0.25
# Squared error of cubics, relative to that of lines, below which a path clearly bends.
BENT = 0.5


def knots_of(
    values: Float[np.ndarray, "sample *input"], quantiles: tuple[float, ...] = QUANTILES
) -> Float[np.ndarray, "*input knot"]:
    """Return the knots of each input, quantiles of its values."""
    if not len(values):
        return np.zeros((*values.shape[1:], len(quantiles)))
    return np.moveaxis(np.quantile(values, quantiles, axis=0), 0, -1)


def spline_terms(
    z: Float[Array | np.ndarray, "*input"], knots: Float[Array | np.ndarray, "*known knot"]
) -> Float[Array | np.ndarray, "*input term"]:
    """Return the terms of a restricted cubic spline of every input; the first is the input itself.

    Linear beyond the outer knots, so that rare extremes have no leverage (Harrell, 2015, equation
    2.25).
    """
    columns = spline_columns(z, knots)
    return (np if isinstance(columns[-1], np.ndarray) else jnp).stack(columns, axis=-1)


def spline_columns(
    z: Float[Array | np.ndarray, "*input"], knots: Float[Array | np.ndarray, "*known knot"]
) -> list[Float[Array | np.ndarray, "*input"]]:
    """Return each of the [`spline_terms`][ndde_jax.regression._features.spline_terms]."""
    xp = np if isinstance(z, np.ndarray) and isinstance(knots, np.ndarray) else jnp
    span = xp.maximum(knots[..., -1] - knots[..., 0], 1e-6)
    wide = xp.maximum(knots[..., -1] - knots[..., -2], 1e-6)
    beyond = [xp.maximum(z - knots[..., k], 0) / span for k in range(knots.shape[-1])]
    # Several times as quick as a power.
    *cubes, before, last = [u * u * u for u in beyond]
    curved = [
        cube
        - before * (knots[..., -1] - knots[..., k]) / wide
        + last * (knots[..., -2] - knots[..., k]) / wide
        for k, cube in enumerate(cubes)
    ]
    return [z, *curved]


class Between(NamedTuple):
    """The mean squared errors of `lines` and of `cubics` through every other sample at the one
    between, relative to the mean square of a step, `[dim]`.

    Lines err by a half on a path whose steps do not depend on one another, and cubics by more.
    """

    lines: Float[np.ndarray, " dim"]
    cubics: Float[np.ndarray, " dim"]

    @classmethod
    def of(cls, recordings: list[np.ndarray]) -> "Between":
        """Return the errors in recordings, each `[time dim]`, NaN where missing."""
        lines = cubics = steps = np.zeros(recordings[0].shape[1])
        for x in recordings:
            far, near = (
                (x[3 - k : len(x) - 3 - k] + x[3 + k : len(x) - 3 + k]) / 2 for k in (3, 1)
            )
            error = np.where(np.isfinite(far), near - x[3 : len(x) - 3], np.nan)
            step = np.where(np.isfinite(error), x[4 : len(x) - 2] - x[3 : len(x) - 3], np.nan)
            lines = lines + np.nansum(error**2, axis=0)
            cubics = cubics + np.nansum((error + (near - far) / 8) ** 2, axis=0)
            steps = steps + np.nansum(step**2, axis=0)
        steps = np.where(steps > 0, steps, 1)
        return cls(lines / steps, cubics / steps)

    @property
    def rough(self) -> Bool[np.ndarray, " dim"]:
        """The variables of which lines tell as much as cubics, as of paths that noise drives."""
        return self.lines <= self.cubics

    @property
    def bent(self) -> Bool[np.ndarray, " dim"]:
        """The variables whose path clearly bends between samples: cubics err half as much."""
        return self.cubics < BENT * self.lines

    @property
    def smooth(self) -> bool:
        """Whether all paths hardly leap: neighbours tell a sample at half the error and less of
        steps that do not depend on one another.
        """
        return bool(np.all(np.minimum(self.lines, self.cubics) < SMOOTH))
