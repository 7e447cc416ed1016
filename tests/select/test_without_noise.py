"""Delays of smooth paths without noise, where a few states just before the present tell every
rate.
"""

import jax.random as jr
import numpy as np

import ndde_jax as ndde

CLOSED = ndde.select.Default(networks=None)


def heun(drift, x0, delay, step, n, every):
    """The last `n` samples, every so many steps, of a path with one delay."""
    late = round(delay / step)
    x = np.empty((late + n * every * 2, len(x0)))
    x[: late + 1] = x0
    for k in range(late, len(x) - 1):
        rate = drift(x[k], x[k - late])
        ahead = drift(x[k] + step * rate, x[k + 1 - late])
        x[k + 1] = x[k] + step / 2 * (rate + ahead)
    return x[-n * every :: every]


def test_mackey_glass_follows_its_own_delay():
    def drift(x, late):
        return 0.2 * late / (1 + late**10) - 0.1 * x

    x = heun(drift, np.array([1.2]), 17.0, 0.1, 1200, 10)
    windows = ndde.lagged_windows(x, dt=1.0, lags=tuple(range(25)), scheme="central4")
    graph = np.asarray(ndde.recover(windows, CLOSED, key=jr.key(0)).graph)
    np.testing.assert_array_equal(np.flatnonzero(graph[0, 0]), [0, 17])


def test_a_delayed_source_beside_a_product():
    def drift(x, late):
        (a, b, c), (d, e, f) = x[:3], x[3:]
        first = 10 * (b - a), a * (28 - c) - b, a * b - 8 / 3 * c
        second = 8 * (e - d), d * (32 - f) - e + 2 * late[0], d * e - 2.9 * f
        return np.array([*first, *second])

    x = heun(drift, np.array([1.0, 2, 20, -3, 1, 25]), 0.2, 0.004, 1500, 5)
    lags = (0, 4, 7, 10, 13)
    windows = ndde.lagged_windows(x, dt=0.02, lags=lags, scheme="central4")
    graph = np.asarray(ndde.select.spline_graph(windows).graph)[:, 4]
    found = [(int(i), lags[k]) for i, k in np.argwhere(graph)]
    assert found == [(0, 10), (3, 0), (4, 0), (5, 0)]
