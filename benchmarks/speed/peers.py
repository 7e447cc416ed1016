"""Peers of the simulator: a loop compiled by Numba, and JiTCDDE.

`python peers.py euler|solve|lyapunov JSON` prints its results as JSON. It is run as a script by an
interpreter that has the peers, and imports nothing of this project.
"""

import json
import sys
import time

import numpy as np

LAG_STEPS, DT, SIGMA = 100, 0.01, 0.1


def euler_path(increments):
    """Return a path of dX = (−X + X(t−1)/2) dt + 0.1 dW from zero, past states in a ring."""
    n = LAG_STEPS + 1
    ring = np.zeros(n)
    path = np.empty(increments.shape[0])
    x, at = 0.0, 0
    for k in range(increments.shape[0]):
        late = at + 1 if at + 1 < n else 0  # the next of n slots is the oldest
        x = x + DT * (-x + 0.5 * ring[late]) + SIGMA * increments[k]
        at = late
        ring[at] = x
        path[k] = x
    return path


def euler_path_drawn(n_steps):
    """Return the path of `euler_path` with its own draws."""
    n = LAG_STEPS + 1
    ring = np.zeros(n)
    path = np.empty(n_steps)
    x, at = 0.0, 0
    scale = SIGMA * np.sqrt(DT)
    for k in range(n_steps):
        late = at + 1 if at + 1 < n else 0
        x = x + DT * (-x + 0.5 * ring[late]) + scale * np.random.standard_normal()  # noqa: NPY002
        at = late
        ring[at] = x
        path[k] = x
    return path


def euler_batch(increments, save_every):
    """Return the paths of `euler_path` for `[time batch]` increments, with every `save_every`-th
    state.
    """
    n_steps, size = increments.shape
    n = LAG_STEPS + 1
    ring = np.zeros((n, size))
    path = np.empty((n_steps // save_every, size))
    x, at = np.zeros(size), 0
    for k in range(n_steps):
        late = at + 1 if at + 1 < n else 0
        for i in range(size):
            x[i] = x[i] + DT * (-x[i] + 0.5 * ring[late, i]) + SIGMA * increments[k, i]
            ring[late, i] = x[i]
        at = late
        if (k + 1) % save_every == 0:
            path[k // save_every] = x
    return path


def euler(n_steps, batch_steps, batch, save_every, repeats):
    """Return seconds of the three loops, and of compiling the first."""
    import numba

    rng = np.random.default_rng(0)
    one = np.sqrt(DT) * rng.standard_normal(n_steps)
    many = np.sqrt(DT) * rng.standard_normal((batch_steps, batch))
    calls = {
        "given": (euler_path, (one,)),
        "drawn": (euler_path_drawn, (n_steps,)),
        "batch": (euler_batch, (many, save_every)),
    }
    seconds = {}
    for name, (function, arguments) in calls.items():
        compiled = numba.njit(function)
        first, least = _first_and_least(lambda: compiled(*arguments), repeats)  # noqa: B023
        seconds[name] = {"compile": first - least, "run": least}
    return seconds


def solve(duration, spacing, tau, repeats):
    """Solve Mackey–Glass at times after the first delay; JiTCDDE does not sample before that."""
    import jitcdde

    start = time.perf_counter()
    dde = jitcdde.jitcdde(_mackey_glass(tau), verbose=False)
    dde.set_integration_parameters(rtol=1e-9, atol=1e-9)
    dde.compile_C()
    compiling = time.perf_counter() - start
    times = spacing * np.arange(1, round(duration / spacing) + 1)
    times = times[times > tau]

    def run():
        dde.purge_past()
        dde.constant_past([1.2])
        dde.reset_integrator(idc_unhandled=True)
        dde.step_on_discontinuities()
        return [float(dde.integrate(t)[0]) for t in times]

    _, least = _first_and_least(run, repeats)
    return {"compile": compiling, "run": least, "times": list(times), "states": run()}


def lyapunov(duration, interval, tau, k):
    """Return the leading exponents of Mackey–Glass."""
    import jitcdde

    start = time.perf_counter()
    dde = jitcdde.jitcdde_lyap(_mackey_glass(tau), n_lyap=k, verbose=False)
    dde.constant_past([1.2])
    dde.compile_C()
    compiling = time.perf_counter() - start
    start = time.perf_counter()
    dde.step_on_discontinuities()
    rates, weights = [], []
    for t in dde.t + np.arange(interval, duration + interval, interval):
        _, rate, weight = dde.integrate(t)
        rates.append(rate)
        weights.append(weight)
    seconds = time.perf_counter() - start
    kept = slice(len(rates) // 10, None)
    exponents = np.average(rates[kept], axis=0, weights=weights[kept])
    return {"compile": compiling, "run": seconds, "exponents": list(exponents)}


def _mackey_glass(tau):
    from jitcdde import t, y

    return [0.2 * y(0, t - tau) / (1 + y(0, t - tau) ** 10) - 0.1 * y(0)]


def _first_and_least(run, repeats):
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return times[0], min(times[1:])


if __name__ == "__main__":
    parts = {"euler": euler, "solve": solve, "lyapunov": lyapunov}
    print(json.dumps(parts[sys.argv[1]](**json.loads(sys.argv[2]))))
