"""Delays of smooth paths without noise, where a few states just before the present determine every
rate.
"""

import jax
import jax.random as jr
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import ndde_jax as ndde
from ndde_jax.systems import _dysts

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


def arneodo(t, s):
    x, y, z = s
    return [y, z, 5.5 * x - 3.5 * y - z - x**3]


def rucklidge(t, s):
    x, y, z = s
    return [-2 * x + 6.7 * y - y * z, x, -z + y**2]


# The drivers in these equations, `[source target]`.
FLOWS = {
    "Arneodo": (arneodo, [0.2, 0.2, -0.75], [[0, 0, 1], [1, 0, 1], [0, 1, 1]]),
    "Rucklidge": (rucklidge, [1, 0, 4.5], [[1, 1, 0], [1, 0, 1], [1, 0, 1]]),
}


def flow(name):
    drift, start, _ = FLOWS[name]
    t = 10 + 0.1 * np.arange(1500)
    return solve_ivp(drift, (0, t[-1]), start, "DOP853", t_eval=t, rtol=1e-9, atol=1e-10).y.T


@pytest.mark.slow
@pytest.mark.parametrize("name", FLOWS)
def test_past_states_do_not_make_up_for_a_law_of_the_present(name):
    path, who = flow(name), np.array(FLOWS[name][2], bool)
    windows = ndde.lagged_windows(path, dt=0.1, lags=tuple(range(12)), scheme="central4")
    graph = np.asarray(ndde.recover(windows, CLOSED, key=jr.key(0)).graph)
    np.testing.assert_array_equal(graph[:, :, 0], who)
    assert not graph[:, :, 1:].any()


@pytest.mark.slow
def test_past_states_do_not_make_up_for_a_law_of_the_present_in_a_batch():
    """Both flows at once, with the same graphs as each alone."""
    lags = tuple(range(12))
    windows = [
        ndde.lagged_windows(flow(name), dt=0.1, lags=lags, scheme="central4") for name in FLOWS
    ]
    recover = jax.jit(jax.vmap(lambda w: ndde.recover(w, CLOSED, key=jr.key(0)).graph))
    graphs = np.asarray(recover(ndde.stack_windows(windows)))
    np.testing.assert_array_equal(graphs[..., 0], [FLOWS[name][2] for name in FLOWS])
    assert not graphs[..., 1:].any()


def test_present_states_of_many_do_not_stand_for_the_own_past_of_one():
    """Eight mixtures of five oscillations. A few own lags continue each of them, and so do the
    present states of seven or eight, which tell nothing about who drives whom.
    """
    rng = np.random.default_rng(0)
    phase = 0.25 * rng.uniform(0.5, 1, 5) * np.arange(1000.0)[:, None]
    size = 0.6 ** np.arange(5)
    x = np.hstack([size * np.cos(phase), size * np.sin(phase)]) @ rng.normal(size=(10, 8))
    windows = ndde.lagged_windows(
        x + 0.1 * np.tanh(x), dt=1.0, lags=(0, 2, 4, 6), scheme="central4"
    )
    graph = np.asarray(ndde.recover(windows, CLOSED, key=jr.key(0)).graph)
    assert (graph.any(axis=2).sum(axis=0) <= 2).all()
    assert graph[np.arange(8), np.arange(8), 1:].any(axis=1).all()


@pytest.mark.slow
def test_discover_says_that_past_states_were_left_out():
    found = ndde.discover(flow("Rucklidge"), dt=0.1, lags=tuple(range(12)), key=jr.key(0))
    assert not found.graph[:, :, 1:].any()
    assert "Past states were omitted as inputs of 1 of 3 variables" in " ".join(found.choices)


@pytest.mark.slow
def test_past_states_are_no_rivals_of_a_law_of_the_present():
    """They could replace some of its inputs, which gave the graph reservations."""
    found = ndde.discover(flow("Arneodo"), dt=0.1, lags=tuple(range(12)), key=jr.key(0))
    assert found.verdict == "supported"


@pytest.mark.slow
def test_a_weak_delay_of_a_law_that_is_known_to_the_last_digit_is_kept():
    """It explains a thousandth of the rate's residual given the present."""

    def drift(s, late):
        x, y, z, w = s
        return np.array(
            [10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z, -2 * w + x + 0.03 * late[0]]
        )

    x = heun(drift, np.array([1.0, 2, 20, 0]), 0.2, 0.002, 1500, 10)
    windows = ndde.lagged_windows(x, dt=0.02, lags=tuple(range(13)), scheme="central4")
    found = ndde.recover(windows, CLOSED, key=jr.key(0))
    edges = [tuple(map(int, edge)) for edge in np.argwhere(np.asarray(found.graph)[:, 3])]
    assert edges == [(0, 0), (0, 10), (3, 0)]


@pytest.mark.slow
def test_flows_of_dysts_without_noise_have_their_own_graphs():
    """Every other flow of three variables, with lags that `discover` chooses: the half on which no
    constant was chosen.
    """
    import dysts.flows

    right, n = [], 2000
    for name in _dysts.traceable()[1::2]:
        system = ndde.systems.get(name)
        if system.dim != 3:
            continue
        flow = getattr(dysts.flows, name)()
        t = flow.period / 50 * np.arange(n + 1000)
        start = np.ravel(np.asarray(flow.ic, float))
        run = solve_ivp(lambda t, y, f=flow: f.rhs(y, t), (0, t[-1]), start, "LSODA", t, rtol=1e-9)
        x = run.y.T[1000:]
        if len(x) < n or ndde.lagged_windows(x, dt=1.0).noise_share.mean() > 1e-3:
            continue
        found = ndde.discover(x, dt=t[1], key=jr.key(0))
        # A variable may be recognised as a clock.
        true = np.zeros(found.graph.shape, bool)
        if len(true) == 3:
            true[..., 0] = system.graph[..., 0]
        right.append(np.array_equal(found.graph, true))
    assert len(right) >= 15 and np.mean(right) >= 0.55, right
