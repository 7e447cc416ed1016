"""The theorems applied to the true drift of a task, compared with practice."""

import dataclasses
import itertools

import jax.random as jr
import numpy as np
from jaxtyping import Float

import ndde_jax as ndde

from .data import Series, simulate
from .methods import search_recipe
from .settings import Specification

# Beyond this number of candidates a projection omits products of inputs, which would need more
# points than there are.
MOST_WITH_PRODUCTS = 30
KNOTS = (0.025, 0.1833, 0.3417, 0.5, 0.6583, 0.8167, 0.975)


def true_strengths(series: Series) -> Float[np.ndarray, "source target lag"]:
    """Return (s_ij^a)² of the true edges by projection, as shares of the variance of the true
    drift.

    The squared error of the best prediction of G_j from all candidate inputs except one, minus that
    from all of them, on an independent run; NaN where there is no edge. The projection is least
    squares on splines and, up to 30 candidates, products of inputs, so the strength is an upper
    bound if the drift needs further terms.
    """
    _, n_lags, dim = series.history.shape
    flat, splines, rate = _to_project(series)
    found = np.full(series.graph.shape, np.nan)
    everything = range(len(splines))
    full = _unexplained(flat, splines, everything, rate)
    for source, lag in itertools.product(range(dim), range(n_lags)):
        targets = np.nonzero(series.graph[source, :, lag])[0]
        if len(targets):
            others = [i for i in everything if i != lag * dim + source]
            rest = _unexplained(flat, splines, others, rate[:, targets])
            found[source, targets, lag] = np.maximum(rest - full[targets], 0)
    return found


def breaking_price(series: Series) -> float:
    """Return the price above which no method that minimises risk + price × edges can return the
    true graph: the smallest reduction of the risk by one true edge given only the other true edges,
    as a share of the variance of the measured rate. It uses the same projection, so it is exact if
    the drift is a sum of splines and products.
    """
    dim = series.history.shape[2]
    flat, splines, rate = _to_project(series)
    least = np.inf
    for target in range(dim):
        sources, lags = np.nonzero(series.graph[:, target])
        inputs = list(lags * dim + sources)
        y = rate[:, [target]]
        full = _unexplained(flat, splines, inputs, y)
        for left_out in inputs:
            rest = _unexplained(flat, splines, [i for i in inputs if i != left_out], y)
            least = min(least, float((rest - full)[0] * series.explained[target]))
    return least


def measured_strengths(series: Series) -> Float[np.ndarray, "source target lag"]:
    """Return the true strengths as shares of the variance of the *measured* rates, which includes
    noise.
    """
    return true_strengths(series) * series.explained[None, :, None]


def _to_project(series: Series):
    """Return standardised inputs in the order (lag, source), the splines of each, standardised
    drifts.
    """
    flat = series.history.reshape(len(series.history), -1)
    flat = (flat - flat.mean(axis=0)) / flat.std(axis=0)
    rate = (series.drift - series.drift.mean(axis=0)) / series.drift.std(axis=0)
    return flat, [_spline(z) for z in flat.T], rate


def _spline(z):
    """Return a restricted cubic spline: linear beyond the outer knots."""
    k = np.quantile(z, KNOTS)
    cube = lambda c: np.maximum((z - c) / (k[-1] - k[0]), 0) ** 3  # noqa: E731
    wide = k[-1] - k[-2]
    curved = [
        cube(c) - cube(k[-2]) * (k[-1] - c) / wide + cube(k[-1]) * (k[-2] - c) / wide
        for c in k[:-2]
    ]
    return np.stack([z, *curved], axis=1)


def _unexplained(flat, splines, inputs, rate):
    """Return the unexplained share of each rate, unbiased for the number of features."""
    inputs = list(inputs)
    columns = [splines[i] for i in inputs]
    if len(splines) <= MOST_WITH_PRODUCTS:
        pairs = itertools.combinations(inputs, 2)
        columns += [(flat[:, a] * flat[:, b])[:, None] for a, b in pairs]
    design = np.concatenate([np.ones((len(flat), 1)), *columns], axis=1)
    coefficients, _, rank, _ = np.linalg.lstsq(design, rate, rcond=1e-10)
    residual = rate - design @ coefficients
    return np.sum(residual**2, axis=0) / (len(flat) - rank)


@dataclasses.dataclass(frozen=True)
class Window:
    """The penalised theorem for one task; prices are shares of the variance of a measured rate.

    - `weakest`: s_min² of the true edges, on that scale.
    - `most_drivers`: d_max.
    - `limit`: the theorem recovers the graph for prices in (0, limit) = (0, s_min² / d_max).
    - `noise`: share of the measured rates' variance that no drift explains, the largest of all
        targets.
    """

    weakest: float
    most_drivers: int
    limit: float
    noise: float

    @classmethod
    def of(cls, series: Series, strengths: Float[np.ndarray, "source target lag"]) -> "Window":
        """Return the window from strengths as shares of the variance of measured rates."""
        weakest = float(np.nanmin(strengths))
        drivers = int(series.graph.sum(axis=(0, 2)).max())
        return cls(weakest, drivers, weakest / drivers, float(np.max(1 - series.explained)))

    def margin(self, price: float) -> float:
        """Return γ = min(price, s_min² − price · d_max), the least excess of a wrong graph."""
        return min(price, self.weakest - price * self.most_drivers)

    def spread(self, n: int, width: int = 8) -> float:
        """Return the size of chance variations in the estimated difference of risks between two
        graphs, from n samples: the gain from the `width` weights of an irrelevant input, and the
        standard deviation of the effect of the weakest edge.
        """
        return self.noise * width / n + 2 * np.sqrt(self.noise * max(self.weakest, 0) / n)


def recovery(
    name: str,
    *,
    lengths: tuple[int, ...] = (250, 500, 1000, 2000, 4000),
    prices: tuple[float, ...] = (0.02, 0.5),
    beyond: float = 2.0,
    seeds: int = 5,
    noise: str = "low",
) -> list[dict]:
    """Return how often the benchmark's method `search` finds the exact graph, by length and price.

    `prices` are multiples of the weakest strength s_min²; multiples of 1/d_max or more lie outside
    the theorem's window, which is sufficient. Another price is `beyond` times that of
    `breaking_price`, where recovery must fail, and a further row per length has the library's price
    (`factor` NaN).
    """
    rows = []
    for length in lengths:
        series = [simulate(Specification(name, noise, length, i)) for i in range(seeds)]
        about = Window.of(series[0], measured_strengths(series[0]))
        broken = breaking_price(series[0])
        for factor in (*prices, beyond * broken / about.weakest, float("nan")):
            price = factor * about.weakest
            n_inputs = series[0].graph.shape[0] * series[0].graph.shape[2]
            coefficient = None if np.isnan(factor) else price * n_inputs
            hits, paid = 0, []
            for i, s in enumerate(series):
                options = dict(recipe=search_recipe(), coefficient=coefficient, key=jr.key(i))
                found = ndde.discover(s.x, dt=s.dt, lags=s.lags, **options)
                hits += bool((found.graph == s.graph).all())
                paid.append(float(np.mean(found.strengths.threshold)))
            price = float(np.mean(paid))
            rows.append(
                dict(
                    system=name,
                    length=length,
                    factor=factor,
                    price=price,
                    inside=bool(0 < price < about.limit),
                    hopeless=bool(price > broken),
                    margin=about.margin(price),
                    spread=about.spread(length),
                    recovered=hits / seeds,
                    seeds=seeds,
                )
            )
    return rows
