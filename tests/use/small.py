"""Discoveries with a known truth, made without a search: small, and nothing to compile."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

import ndde_jax as ndde
from ndde_jax.windows._prior import inputs_of

NAMES = ("sun", "heat", "ice")
LAGS = (0, 2, 4)
DT = 0.25
# Rates: of every target by (lag, source).
A = np.zeros((3, 3, 3))  # [target lag source]
A[0, 0, 0] = -1.0
A[1, 0, 1], A[1, 1, 0] = -0.8, 1.2
A[2, 0, 2], A[2, 2, 1] = -0.6, -0.9
TRUTH = np.moveaxis(A != 0, (0, 1, 2), (1, 2, 0))  # [source target lag]
SIGMA = np.array([0.5, 0.3, 0.2])


def linear_path(n, seed=0, a=A, sigma=SIGMA, transient=200):
    """Euler-Maruyama with ten steps per sample, delays exact."""
    rng, fine = np.random.default_rng(seed), 10
    h, past = DT / fine, fine * LAGS[-1]
    total = (n + transient) * fine
    x = np.zeros((total + past, 3))
    kicks = np.sqrt(h) * sigma * rng.normal(size=(total, 3))
    late, drift = -fine * np.array(LAGS), h * a.reshape(3, -1)
    for k in range(past, total + past - 1):
        x[k + 1] = x[k] + drift @ x[late + k].ravel() + kicks[k - past]
    return x[past + transient * fine :: fine]


def still(dim, lags, dt, windows, mask):
    """A model of rate zero, to be replaced by the closed form."""
    drift = ndde.models.MaskedDrift(
        tuple(
            (jnp.zeros((dim, out, fan)), jnp.zeros((dim, out)))
            for out, fan in ((2, dim * len(lags)), (1, 2))
        )
    )
    return ndde.models.NeuralDDE(drift, mask, windows.scaling, jnp.asarray(dt), tuple(lags))


def discovery(x, graph, *, lags=LAGS, dt=DT, names=NAMES, time_unit="h", prior=None, model=None):
    """A discovery that found `graph`."""
    samples = ndde.read_samples(x, dt=dt, names=names, time_unit=time_unit)
    windows = ndde.lagged_windows(samples, lags=lags, prior=prior)
    dim = len(names)
    graph = np.asarray(graph, bool)
    edges, one = jnp.asarray(graph * 1.0), jnp.ones(dim)
    pairs = jnp.ones((dim, dim))
    allowed = ndde.windows.PriorKnowledge.nothing(dim, len(lags)) if prior is None else prior
    strengths = ndde.measure.SignalStrengths(
        edges, edges, edges, pairs, pairs, edges > 0, one, one, one, allowed
    )
    mask = jnp.asarray(np.moveaxis(graph, (0, 1, 2), (2, 0, 1)))
    model = still(dim, lags, dt, windows, mask) if model is None else model
    delays = np.where(graph, samples.dt * np.asarray(lags), np.nan)
    return ndde.Discovery(
        samples=samples, lags=tuple(lags), coefficient=None, recipe=ndde.Recipe(),
        windows=windows, strengths=strengths, model=model, graph=graph, reads=graph,
        scores=np.asarray(edges), lower=np.asarray(edges),
        ranking=np.asarray(edges).max(axis=2), delays=delays,
        delay_intervals=np.stack([delays, delays], axis=-1), networks=np.zeros(len(graph), bool),
        held_out=np.full(len(graph), 0.5), reading="flow", evidence=np.nan,
        inputs=inputs_of(allowed, names),
    )  # fmt: skip


@functools.cache
def linear():
    """The linear system, 1500 samples, its true graph."""
    return discovery(linear_path(1500), TRUTH)


HORIZON = 12
KEY = jax.random.key(0)


def respond(history, steps, a=A, held=None, fine=10):
    """The mean of the true system from a given history, `[step dim]`: noise has no part in it."""
    past = np.repeat(history, fine, axis=0)[fine - 1 :]
    # Between samples the true path is unknown; straight lines are close.
    row = np.arange(len(history)) * fine
    past = np.stack(
        [np.interp(np.arange(row[-1] + 1), row, column) for column in history.T], axis=1
    )
    x, out = list(past), []
    for k in range(steps * fine):
        if held:
            x[-1] = x[-1].copy()
            for i, value in held.items():
                x[-1][i] = value
        rate = sum(a[:, i] @ x[-1 - fine * lag] for i, lag in enumerate(LAGS))
        x.append(x[-1] + DT / fine * rate)
        for i, value in (held or {}).items():
            x[-1][i] = value
        if (k + 1) % fine == 0:
            out.append(x[-1].copy())
    return np.array(out)
