"""Derived variables are distinguished from those with a rate of their own."""

import numpy as np

import ndde_jax as ndde


def told(x, lags=(0, 1)):
    windows = ndde.lagged_windows(x, dt=1.0, lags=lags)
    graph = np.zeros((x.shape[1], x.shape[1], len(lags)), bool)
    return ndde.assess.relations(windows, graph).static.tolist()


def moving(seed, n=800, dim=3):
    rng, x = np.random.default_rng(seed), np.zeros((n, dim))
    for t in range(n - 1):
        x[t + 1] = 0.8 * x[t] + np.r_[0, 0.4 * x[t, :-1]] + rng.normal(size=dim)
    return x


def test_a_product_and_a_sum_are_functions_of_others_and_their_terms_are_not():
    x = moving(0)
    made = np.column_stack([x, x[:, 0] * x[:, 1] + 0.5 * x[:, 2] ** 2])
    assert told(made) == [False, False, False, True]


def test_what_moves_by_itself_is_not_computed_however_well_others_tell_it():
    """The last of a cascade is nearly the previous one, but each step has its own innovations."""
    rng, x = np.random.default_rng(4), np.zeros((2000, 2))
    for t in range(1999):
        first = np.sin(0.03 * t) + 0.005 * rng.normal()
        x[t + 1] = first, x[t, 1] + 0.9 * (x[t, 0] - x[t, 1]) + 0.01 * rng.normal()
    graph = np.zeros((2, 2, 2), bool)
    graph[:, :, 0] = [[True, True], [False, True]]
    found = ndde.assess.relations(ndde.lagged_windows(x, dt=1.0, lags=(0, 1)), graph)
    assert found.static[1] and not found.derived.any()


def test_what_is_computed_from_others_relates_nothing_at_once():
    """Given a sum of two squares, either square determines the other; that is no link."""
    x = moving(3)
    made = np.column_stack([x, x[:, 0] ** 2 + x[:, 1] ** 2])
    graph = np.zeros((4, 4, 2), bool)
    graph[range(4), range(4), 0] = graph[[0, 1], [1, 2], 0] = True
    found = ndde.assess.relations(ndde.lagged_windows(made, dt=1.0, lags=(0, 1)), graph)
    assert found.static.tolist() == found.derived.tolist() == [False, False, False, True]
    assert not found.at_once.any() and np.isfinite(found.correlation).all()


def test_variables_that_move_by_themselves_are_not():
    assert not any(told(moving(1))) and not any(told(moving(2, n=100)))


def test_a_strange_attractor_is_not():
    """The third coordinate of Lorenz' system is no function of the other two: it has two sheets."""
    x = np.ones((4000, 3))
    for t in range(3999):
        a, b, c = x[t]
        x[t + 1] = x[t] + 0.01 * np.array([10 * (b - a), a * (28 - c) - b, a * b - 8 / 3 * c])
    assert not any(told(x[500::3]))


def test_nothing_is_told_without_the_present():
    x = moving(0)
    assert not any(told(np.column_stack([x, x[:, 0] + x[:, 1]]), lags=(1, 2)))
