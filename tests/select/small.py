"""Two variables, one of which drives the other some time later."""

import numpy as np
from scipy.integrate import solve_ivp

import ndde_jax as ndde

QUICK = ndde.fitting.StrengthConfig(steps=15, fold_steps=5, restarts=1, search=4)


def delayed_pair(n=1200, delay=6, seed=0, noise=0.3):
    """y follows x after `delay` steps of 0.1; x follows its own past; Euler–Maruyama."""
    rng, dt = np.random.default_rng(seed), 0.1
    x = np.zeros((n, 2))
    for k in range(delay, n - 1):
        past = x[k - delay]
        drift = np.array([4 * np.sin(past[0]) - x[k, 0], past[0] - x[k, 1]])
        x[k + 1] = x[k] + dt * drift + noise * np.sqrt(dt) * rng.normal(size=2)
    return x


TRUTH = np.zeros((2, 2, 4), bool)
TRUTH[0, 0, [0, 2]] = TRUTH[0, 1, 2] = TRUTH[1, 1, 0] = True


def lorenz_ring(dim, n, dt=0.05, force=10.0, seed=0):
    """Return Lorenz' ring of 1996 by SciPy, and the drivers of each variable at the present."""

    def drift(_, x):
        return (np.roll(x, -1) - np.roll(x, 2)) * np.roll(x, 1) - x + force

    start, t = force + np.random.default_rng(seed).normal(size=dim), 10 + dt * np.arange(n)
    path = solve_ivp(drift, (0, t[-1]), start, t_eval=t, rtol=1e-9, atol=1e-9).y.T
    ring = np.eye(dim, dtype=bool)
    return path, np.logical_or.reduce([np.roll(ring, k, axis=1) for k in (-1, 0, 1, 2)])
