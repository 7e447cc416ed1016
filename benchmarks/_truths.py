"""Effects and interventions of a discovery, compared with those of the true system."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Float

import ndde_jax as ndde

from .delays.data import Series

# A mean slope differs clearly from zero if it is at least this share of the slope's root mean
# square, and an effect on a level if it is at least this number of standard deviations.
CLEAR_SLOPE, CLEAR_EFFECT = 0.05, 0.05
# Largest error of a good curve, as a share of the true curve's range.
GOOD = 0.1
# Least share of halves that contain an edge.
OFTEN = 0.9
# Number of rows over which slopes and curves are averaged.
ROWS = 2000
# Steps of the lag grid for which a variable is held, and paths of either system.
HELD, PATHS = (1, 2, 5, 10), 200


def true_drift(series: Series):
    """The true drift as a function of one history at the candidate lags, `[lag dim]`."""
    system, grid = series.spec.system(), series.spec.grid
    at = np.array([round(float(delay) / grid) for delay in np.asarray(system.lags)], int)
    return lambda history: system.drift(jnp.zeros(()), history[0], history[at])


def histories(series: Series) -> Float[np.ndarray, "row lag dim"]:
    """Return histories of the record, evenly spread."""
    lags = np.asarray(series.lags)
    rows = np.arange(lags[-1], len(series.x) - 1)
    rows = rows[np.unique(np.linspace(0, len(rows) - 1, ROWS).astype(int))]
    return series.x[rows[:, None] - lags[None]]


def effect_scores(found: ndde.Discovery, series: Series) -> dict[str, float]:
    """Return scores of true edges that are kept: signs, intervals of slopes, and curves."""
    past, drift = histories(series), true_drift(series)
    # [row target lag source] -> [source target lag row]
    slopes = np.moveaxis(np.asarray(jax.vmap(jax.jacfwd(drift))(jnp.asarray(past))), 0, -1)
    slopes = slopes.transpose(2, 0, 1, 3)
    mean, size = slopes.mean(axis=-1), np.sqrt(np.mean(slopes**2, axis=-1))
    effects = found.effects()
    kept = np.asarray(effects.graph) & series.graph
    clear = kept & (np.abs(mean) > CLEAR_SLOPE * size)
    inside = (effects.slope_low <= mean) & (mean <= effects.slope_high)
    scores = {
        "kept": kept.sum(),
        "clear": clear.sum(),
        "sign right": (clear & (np.sign(effects.slope) == np.sign(mean))).sum(),
        "slope covered": (kept & inside).sum(),
    }
    curves = [_curve(effects, drift, past, *edge) for edge in np.argwhere(kept).tolist()]
    scores["curves"] = len(curves)
    scores["curve good"] = sum(error < GOOD for error, _ in curves)
    scores["curve covered"] = sum(covered for _, covered in curves)
    return {name: float(value) for name, value in scores.items()}


def _curve(effects, drift, past, i: int, j: int, a: int) -> tuple[float, float]:
    """Return the error of a curve as a share of its range, and the share of the curve inside its
    interval. The true curve accumulates the true drift's local effects over the same slices.
    """
    x, y, low, high = effects.curve(i, j, effects.found.lags[a])
    slot = np.clip(np.searchsorted(x, past[:, a, i], side="right") - 1, 0, len(x) - 2)
    ends = []
    for end in (x[slot], x[slot + 1]):
        moved = past.copy()
        moved[:, a, i] = end
        ends.append(np.asarray(jax.vmap(drift)(jnp.asarray(moved)))[:, j])
    count = np.bincount(slot, minlength=len(x) - 1)
    step = np.bincount(slot, ends[1] - ends[0], minlength=len(x) - 1) / np.maximum(count, 1)
    truth = np.append(0.0, np.cumsum(step))
    truth -= count @ (truth[1:] + truth[:-1]) / 2 / count.sum()
    span = np.ptp(truth)
    error = np.sqrt(np.mean((y - truth) ** 2)) / span if span > 0 else np.inf
    return float(error), float(np.mean((low <= truth) & (truth <= high)))


def share_scores(found: ndde.Discovery, series: Series) -> dict[str, float]:
    """Score edges found in nine of ten halves; a neighbouring lag counts as the same edge."""
    often = np.nan_to_num(found.resample(key=jr.key(0)).share) >= OFTEN
    graph = np.asarray(found.graph)
    near = series.graph.copy()
    near[..., 1:] |= series.graph[..., :-1]
    near[..., :-1] |= series.graph[..., 1:]
    return {
        "often": float((often & graph).sum()),
        "often true": float((often & graph & near).sum()),
        "truth": float(series.graph.sum()),
        "truth often": float((often & series.graph).sum()),
    }


def intervention_scores(found: ndde.Discovery, series: Series, key) -> dict[str, float]:
    """Score the effect of holding the variable with most true links to others one standard
    deviation above its mean from the end of the record, against the true system. A single variable
    has no score.
    """
    dim = series.x.shape[1]
    links = series.graph.any(axis=2) & ~np.eye(dim, dtype=bool)
    if not links.any():
        return {}
    held = int(np.argmax(links.sum(axis=1)))
    value = float(series.x[:, held].mean() + series.x[:, held].std())
    step = series.lags[1] - series.lags[0]
    at = np.array([step * k for k in HELD])
    made = found.intervene({held: value}, horizon=int(at[-1]), paths=PATHS, key=key)
    low, middle, high = (np.asarray(made.effect(q))[at - 1] for q in (0.05, 0.5, 0.95))
    truth = _held(series, held, value, int(at[-1]), jr.fold_in(key, 1))[:, at - 1]
    reached = np.abs(truth).max(axis=0) > 0
    reached[:, held] = False
    mean, error = truth.mean(axis=0), truth.std(axis=0) / np.sqrt(len(truth))
    clear = reached & (np.abs(mean) > 2 * error)
    clear &= np.abs(mean) > CLEAR_EFFECT * series.x.std(axis=0)
    inside = ((low <= truth) & (truth <= high)).mean(axis=0)
    return {
        "held": float(reached.sum()),
        "held covered": float(inside[reached].sum()),
        "held clear": float(clear.sum()),
        "held sign right": float((clear & (np.sign(middle) == np.sign(mean))).sum()),
    }


def _held(series: Series, held: int, value: float, n: int, key) -> np.ndarray:
    """Return the effect of holding a variable in the true system, with the same noise for each
    pair of paths, `[path time dim]`.
    """
    system = series.spec.system()
    fine = max(1, int(np.ceil(series.dt / system.dt)))
    dt, dim = series.dt / fine, series.x.shape[1]
    need = int(np.ceil(float(np.max(system.lags)) / series.dt)) + 2
    past = series.x[-need:]
    ts = np.arange((need - 1) * fine + 1) / fine
    past = np.stack([np.interp(ts, np.arange(need), column) for column in past.T], axis=1)
    there = past.copy()
    there[-1, held] = value
    free = np.ones(dim)
    free[held] = 0.0
    kick = np.sqrt(dt) * jr.normal(key, (PATHS, n * fine, dim))

    def run(history, mask, increments):
        return ndde.solve_sdde(
            lambda t, x, lagged, args: args * system.drift(t, x, lagged),
            delays=system.lags,
            dt=dt,
            n_steps=n * fine,
            history=jnp.asarray(history),
            sigma=jnp.asarray(series.sigma),
            increments=increments * mask[None],
            args=jnp.asarray(mask),
            save_every=fine,
        ).ys[1:]

    paths = [
        jax.vmap(lambda k, h=history, m=mask: run(h, m, k))(kick)
        for history, mask in ((past, np.ones(dim)), (there, free))
    ]
    return np.asarray(paths[1] - paths[0])
