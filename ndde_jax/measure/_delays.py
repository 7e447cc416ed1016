"""The delays between the candidate lags: a network and its delays fitted together."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, ArrayLike, Bool, Float, Int, PRNGKeyArray

from .._checks import (
    check_concrete,
    check_config,
    check_graph,
    check_key,
    check_positive,
    check_real_array,
)
from .._types import Checked, RealScalarLike
from ..fit._newton import fit_network, predict, predict_and_jacobian
from ..fit._prices import EBIC
from ..fit._refit import StrengthConfig
from ..models._networks import init_layers
from ..samples._trajectories import read_lags
from ..select._between import SHORTEST, student_quantile
from ..select._midpoint import midpoint_windows
from ..windows._windows import Windows

# Half-width of an interval, in samples, that discretisation leaves whatever the noise.
FINEST = 0.25
# Fewest steps to explain.
MINIMUM = 20
# Steps of the joint fit.
STEPS = 40


class DelayEstimates(eqx.Module):
    """The delays of the edges of a graph, in units of time, one entry per delayed term.

    - `source`, `target`: positions of the two variables of the edge.
    - `lags`: first and last of the candidate lags that the term stands for, in samples,
        `[term 2]`. Two numbers differ where neighbouring kept lags turned out to be one delay.
    - `delay`: the estimate.
    - `standard_error`: from the spread of blocks of the series, so that autocorrelated residuals
        and a drift that is not quite a network's are accounted for.
    - `lower`, `upper`: two-sided 95 % interval, by Student's t with one degree of freedom less than
        there are blocks.
    - `resolution`: how far the delay must move until the fit is worse by the price of an edge.
        Nearer than this, two lags of one source cannot be told apart in these data.
    """

    source: Int[np.ndarray, "term"]
    target: Int[np.ndarray, "term"]
    lags: Int[np.ndarray, "term 2"]
    delay: Float[np.ndarray, "term"]
    standard_error: Float[np.ndarray, "term"]
    lower: Float[np.ndarray, "term"]
    upper: Float[np.ndarray, "term"]
    resolution: Float[np.ndarray, "term"]

    def on_graph(
        self, graph: Bool[ArrayLike, "source target lag"], lags
    ) -> Float[np.ndarray, "source target lag"]:
        """Return the estimates at the kept edges they belong to, NaN elsewhere."""
        lags = np.asarray(lags)
        found = np.full(np.shape(graph), np.nan)
        for i in range(len(self.delay)):
            inside = (lags >= self.lags[i, 0]) & (lags <= self.lags[i, 1])
            found[self.source[i], self.target[i], inside] = self.delay[i]
        return np.where(graph, found, np.nan)


def refine_delays(
    x: Checked[Float[ArrayLike, "time dim"]],
    graph: Checked[Bool[ArrayLike, "source target lag"]],
    *,
    dt: Checked[RealScalarLike],
    lags,
    key: Checked[PRNGKeyArray],
    config: Checked[StrengthConfig | None] = None,
) -> DelayEstimates:
    """Estimate the delays of a graph between the candidate lags, with intervals.

    For each target a network sees the source of every kept edge at its own real-valued delay,
    interpolated between samples, and weights and delays are fitted together by
    Levenberg–Marquardt. Rates are forward differences and states are taken half a step later, as in
    [`midpoint_windows`][ndde_jax.select.midpoint_windows]. Kept lags of one source that are
    neighbours among the candidates are replaced by one delay where that lowers risk + price ×
    terms: a delay that falls between two candidates shows as both. A delay stays within one
    candidate step of where it starts.

    The interval covers what noise and a finite series leave open, given the graph. It does not
    cover a wrong graph, nor errors of interpolation where samples are sparse: it is never shorter
    than a quarter of a sampling interval to either side. Edges at lag 0, and at lags below 2.5
    samples, stay where they are and get no estimate.

    **Arguments:**

    - `x`: one trajectory, no missing values.
    - `graph`, `lags`, `dt`: edges at candidate lags (samples), and the sampling interval. The graph
        is read, and the function runs, outside `jit`.
    - `key`: initial weights.
    - `config`: [`StrengthConfig`][ndde_jax.fitting.StrengthConfig]: restarts, steps, blocks and
        networks.

    **Returns:** [`DelayEstimates`][ndde_jax.measure.DelayEstimates].

    **Raises:** `ValueError` if `graph` does not fit `x` and `lags`, or fewer than 20 steps are left
    to explain, and as [`lagged_windows`][ndde_jax.lagged_windows].

    Delays as parameters of a fit: the method of steps makes a solution differentiable in its
    delays (Hale and Verduyn Lunel, 1993); intervals by the sandwich formula (White, 1982).

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    system = ndde.systems.get("mackey_glass")
    path = ndde.solve_sdde(
        system.drift, lags=system.lags, dt=0.1, n_steps=8000, history=system.history, sigma=0.02,
        key=jax.random.key(0), save_every=10,
    )
    lags = (0, 15, 20)
    graph = np.array([[[True, True, False]]])
    found = ndde.measure.refine_delays(path.ys, graph, dt=1.0, lags=lags, key=jax.random.key(1))
    print(found.delay, found.lower, found.upper)  # true: 17
    ```
    """
    check_concrete("refine_delays", (x, graph, dt))
    check_config(config, StrengthConfig)
    key = check_key(key)
    check_positive(dt, "dt")
    check_real_array(x, "x", "one trajectory [time dim]", finite=True)
    x, lags = np.asarray(x, float), read_lags(lags)
    if x.ndim != 2:
        raise ValueError(f"x must be one trajectory [time dim]; got shape {x.shape}.")
    graph = np.asarray(check_graph(graph, (x.shape[1], x.shape[1], len(lags))))
    config = StrengthConfig() if config is None else config
    steps = np.diff(lags)
    # Room for the longest delay to grow by one candidate step, and for interpolation.
    reach = lags[-1] + (int(steps.max()) if len(steps) else 1) + 2
    data = _Data(midpoint_windows(x, dt=dt, lags=lags), x, reach)
    rows = []
    for target in range(x.shape[1]):
        rows += _refine_target(data, graph[:, target], lags, target, config, key)
    columns = [np.array([row[i] for row in rows], float) for i in range(8)]
    source, target, first, last, delay, error, resolution, quantile = columns
    unit = float(dt)
    half = np.maximum(quantile * error, FINEST) * unit
    return DelayEstimates(
        source=source.astype(int),
        target=target.astype(int),
        lags=np.stack([first, last], axis=1).astype(int).reshape(-1, 2),
        delay=delay * unit,
        standard_error=error * unit,
        lower=delay * unit - half,
        upper=delay * unit + half,
        resolution=resolution * unit,
    )


class _Data(eqx.Module):
    """The standardised samples and rates, and the present states half a step ahead."""

    samples: Float[Array, "time dim"]
    present: Float[Array, "window dim"]
    rate: Float[Array, "window dim"]
    position: Int[Array, "window"]
    fixed: dict

    def __init__(self, windows: Windows, x, reach: int):
        s = windows.scaling
        self.samples = (jnp.asarray(x, windows.history.dtype) - s.center[None]) / s.scale[None]
        # Not windows of one lag more, which would have to be screened, and compiled, once more.
        inside = np.flatnonzero(np.asarray(windows.position) > reach)
        if len(inside) < MINIMUM:
            raise ValueError(
                f"a delay may grow to {reach} samples; that leaves {len(inside)} of {len(x)} to "
                f"explain, and at least {MINIMUM} are needed. Use a longer series or shorter lags."
            )
        self.present = windows.history[inside]
        self.rate = windows.increment[inside]
        self.position = windows.position[inside]
        self.fixed = {lag: i for i, lag in enumerate(windows.lags)}


def _refine_target(data, graph, lags, target, config, key) -> list[tuple]:
    """Return rows (source, target, first, last, delay, error, resolution, quantile) in samples."""
    fixed, runs = [], []
    for source in range(graph.shape[0]):
        kept = [i for i in range(len(lags)) if graph[source, i]]
        fixed += [(source, lags[i]) for i in kept if lags[i] < SHORTEST + 0.5]
        free = [i for i in kept if lags[i] >= SHORTEST + 0.5]
        groups = np.split(free, np.nonzero(np.diff(free) > 1)[0] + 1) if free else []
        runs += [(source, [lags[i] for i in group]) for group in groups]
    if not runs:
        return []
    separate = [(source, [lag]) for source, group in runs for lag in group]
    gaps = np.diff(lags)
    step = float(gaps.max()) if len(gaps) else 1.0
    best: tuple = ()
    for terms in [separate] if len(runs) == len(separate) else [separate, runs]:
        found = _joint_fit(data, fixed, terms, target, step, config, key)
        n = data.rate.shape[0]
        n_inputs = graph.size
        price = float(EBIC()(found["risk"], n, n_inputs, config.width))
        cost = float(found["risk"]) + price * len(terms)
        if not best or cost <= best[0]:
            best = (cost, price, terms, found)
    _, price, terms, found = best
    quantile = student_quantile(0.975, config.blocks - 1)
    rows = []
    for i, (source, group) in enumerate(terms):
        curvature = max(float(found["curvature"][i]), 1e-30)
        rows.append(
            (
                source,
                target,
                group[0],
                group[-1],
                float(found["delay"][i]),
                float(found["error"][i]),
                math.sqrt(price / curvature),
                quantile,
            )
        )
    return rows


def _joint_fit(data, fixed, terms, target, step, config, key) -> dict:
    sources = jnp.array([source for source, _ in terms])
    start = jnp.array([float(np.mean(group)) for _, group in terms], data.samples.dtype)
    # One delay for several neighbouring lags may lie anywhere among them.
    room = jnp.array([step * (1 + (len(group) - 1) / 2) for _, group in terms], start.dtype)
    known = [data.present[:, data.fixed[lag], source] for source, lag in fixed]
    known = jnp.stack(known, axis=1) if known else jnp.zeros((data.rate.shape[0], 0), start.dtype)
    args = (data.samples, data.position, known, data.rate[:, target], sources, start, room)
    return _fit_delays(*args, config, jr.fold_in(key, target))


def _interpolated(samples, at):
    """Return the Catmull–Rom interpolation of a column at real-valued indices, and its
    derivative.
    """
    base = jnp.floor(at)
    u = at - base
    i = base.astype(jnp.int32)
    p = [samples[i + k] for k in (-1, 0, 1, 2)]
    a = -0.5 * p[0] + 1.5 * p[1] - 1.5 * p[2] + 0.5 * p[3]
    b = p[0] - 2.5 * p[1] + 2 * p[2] - 0.5 * p[3]
    c = 0.5 * (p[2] - p[0])
    return ((a * u + b) * u + c) * u + p[1], (3 * a * u + 2 * b) * u + c


@eqx.filter_jit
def _fit_delays(samples, position, known, rate, sources, start, room, config, key) -> dict:
    n, n_terms = rate.shape[0], start.shape[0]
    weight = jnp.ones(n, rate.dtype)

    def inputs(delay):
        at = position[:, None].astype(delay.dtype) + 0.5 - delay[None]
        late, slope = jax.vmap(lambda s, a: _interpolated(samples[:, s], a), (0, 1), 1)(sources, at)
        return jnp.concatenate([known, late], axis=1), -slope

    first = inputs(start)[0]
    size = dict(width=config.width, depth=config.depth, key=key, dtype=rate.dtype)
    starts = init_layers(config.restarts, first.shape[1], **size)
    fits = jax.lax.map(
        lambda s: fit_network(s, first, rate, weight, n_iterations=config.steps), starts
    )
    best = jnp.argmin(jnp.where(jnp.isfinite(fits.risk), fits.risk, jnp.inf))
    chosen = jax.tree.map(lambda leaf: leaf[best], fits)
    theta, restore = ravel_pytree(chosen.network)
    n_theta = theta.shape[0]
    decay = chosen.decay * n / 1000

    def error_of(theta, delay):
        return jnp.sum((predict(restore(theta), inputs(delay)[0]) - rate) ** 2)

    def linearised(theta, delay):
        network = restore(theta)
        z, slope = inputs(delay)
        output, jacobian = predict_and_jacobian(network, z)
        gradient = jax.vmap(jax.grad(lambda row: predict(network, row[None])[0]))(z)
        late = gradient[:, known.shape[1] :] * slope
        return jnp.concatenate([jacobian, late], axis=1), output - rate

    is_weight = jnp.arange(n_theta + n_terms) < n_theta

    def step(carry, _):
        theta, delay, error, damping = carry
        jacobian, residual = linearised(theta, delay)
        gram = jacobian.T @ jacobian
        slope = jacobian.T @ residual + decay * jnp.where(
            is_weight, jnp.concatenate([theta, jnp.zeros_like(delay)]), 0
        )
        # Delays are damped in proportion to their own curvature: their unit is another.
        own = jnp.where(is_weight, decay + damping, 1e-6 * n + damping / n * jnp.diag(gram))
        factor = jnp.linalg.cholesky(gram + jnp.diag(own))
        move = jax.scipy.linalg.cho_solve((factor, True), slope)
        new_theta = theta - move[:n_theta]
        new_delay = jnp.clip(delay - move[n_theta:], start - room, start + room)
        new_delay = jnp.maximum(new_delay, SHORTEST)
        new_error = error_of(new_theta, new_delay)
        old = error + decay * jnp.sum(theta**2)
        accept = new_error + decay * jnp.sum(new_theta**2) < old
        pick = lambda a, b: jnp.where(accept, a, b)  # noqa: E731
        damping = pick(jnp.maximum(damping * 0.3, 1e-7 * n), jnp.minimum(damping * 4, 1e6))
        return (pick(new_theta, theta), pick(new_delay, delay), pick(new_error, error), damping), 0

    begin = (theta, start, error_of(theta, start), jnp.ones((), rate.dtype))
    (theta, delay, error, _), _ = jax.lax.scan(step, begin, None, length=STEPS)

    jacobian, residual = linearised(theta, delay)
    gram = jacobian.T @ jacobian
    gram = gram + jnp.diag(jnp.where(is_weight, decay + 1e-7 * n, 1e-7 * n))
    unit = jnp.eye(n_theta + n_terms, dtype=gram.dtype)[:, n_theta:]
    rows = jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(gram), True), unit)
    influence = (jacobian @ rows) * residual[:, None]
    block = jnp.arange(n) * config.blocks // n
    sums = jax.ops.segment_sum(influence, block, num_segments=config.blocks)
    used = jnp.minimum(chosen.n_effective / n, 0.9)
    return dict(
        delay=delay,
        error=jnp.sqrt(jnp.sum(sums**2, axis=0)),
        # What remains of the curvature once weights and other delays adapt.
        curvature=1 / (n * jnp.diagonal(rows[n_theta:])),
        risk=error / n / (1 - used) ** 2,
    )
