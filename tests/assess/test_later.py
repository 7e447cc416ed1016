"""Delays longer than every candidate: found where they exist, and only there."""

import re

import jax.random as jr
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax._output import forget_stages
from ndde_jax.assess import relations
from ndde_jax.assess._later import later_states
from ndde_jax.assess._score import conditioning_columns, read_inputs, rows_of


def follower(late, n=600, seed=0, dim=3):
    """Autocorrelated variables, of which the last follows the first `late` samples later."""
    rng, x = np.random.default_rng(seed), np.zeros((n, dim))
    for k in range(late, n):
        x[k] = 0.5 * x[k - 1] + rng.normal(size=dim)
        x[k, -1] += 0.5 * x[k - late, 0]
    return x


def alone(dim, n_lags):
    """The graph in which every variable follows its own present alone."""
    graph = np.zeros((dim, dim, n_lags), bool)
    graph[np.arange(dim), np.arange(dim), 0] = True
    return graph


@pytest.mark.parametrize("late", [4, 9, 17])
def test_a_delay_beyond_the_candidates_is_named(late):
    windows = ndde.lagged_windows(follower(late), dt=1.0, lags=(0, 1, 2))
    found = relations(windows, alone(3, 3)).later
    assert found.source.tolist() == [-1, -1, 0]
    assert found.lag.tolist() == [-1, -1, late - 1]  # of the rate
    assert 0.03 < found.share[2] < 0.5
    graph = alone(3, late)
    graph[0, 2, late - 1] = True
    windows = ndde.lagged_windows(follower(late), dt=1.0, lags=range(late))
    assert (relations(windows, graph).later.lag < 0).all()


def test_the_strongest_state_is_that_of_brute_force():
    """Regressions on the given columns and one state more, at every lag, by NumPy."""
    x = follower(7, n=400)
    x[150:160] = np.nan  # a gap: lags count samples, and not windows
    windows = ndde.lagged_windows(x, dt=1.0, lags=(0, 1, 2))
    inputs, graph = read_inputs(rows_of(windows)), alone(3, 3)
    rows, found = inputs.rows, later_states(inputs, graph, np.array([False, False, True]))
    at = {int(place): k for k, place in enumerate(rows.position)}
    given, most = conditioning_columns(inputs, graph, 2, own=True), {}
    given = np.column_stack([np.ones(len(given)), given])
    for lag in range(3, 31):
        there = [(k, at[p - lag]) for p, k in at.items() if p - lag in at]
        now, then = map(np.array, zip(*there, strict=True))
        for source in range(3):
            state = np.column_stack([given[now], rows.past[then, 0, source]])
            risks = [
                np.sum((rows.rates[now, 2] - a @ np.linalg.lstsq(a, rows.rates[now, 2])[0]) ** 2)
                for a in (given[now], state)
            ]
            most[source, lag] = 1 - risks[1] / risks[0]
    assert max(most, key=most.get) == (0, 6) == (found.source[2], found.lag[2])
    assert found.share[2] == pytest.approx(most[0, 6], rel=0.1)


@pytest.mark.slow
def test_records_without_a_later_delay_have_none():
    found = 0
    for seed in range(30):
        windows = ndde.lagged_windows(follower(1, seed=seed), dt=1.0, lags=(0, 1, 2))
        graph = alone(3, 3)
        graph[0, 2, 0] = True
        found += (relations(windows, graph).later.lag >= 0).any()
    assert found <= 2


def test_an_error_of_a_thousandth_of_a_rate_is_no_missing_delay():
    """A rate with almost no noise, whose residual is mostly the error of the method."""
    for late, named in ((0.014, False), (0.3, True)):
        rng, x = np.random.default_rng(0), np.zeros((600, 2))
        for k in range(9, len(x)):
            x[k] = 0.5 * x[k - 1] + [rng.normal(), 0.025 * rng.normal()]
            x[k, 1] += 0.5 * x[k - 1, 0] + late * x[k - 9, 0]
        graph = alone(2, 3)
        graph[0, 1, 0] = True
        windows = ndde.lagged_windows(x, dt=1.0, lags=(0, 1, 2))
        assert (relations(windows, graph).later.lag[1] == 8) == named


def test_a_state_that_prior_knowledge_excludes_is_none():
    prior = ndde.prior_knowledge(3, lags=(0, 1, 2), forbidden=[(0, 2)])
    windows = ndde.lagged_windows(follower(5), dt=1.0, lags=(0, 1, 2), prior=prior)
    assert (relations(windows, alone(3, 3)).later.source != 0).all()


@pytest.mark.slow
def test_it_is_said_and_chosen_lags_grow(tmp_path):
    """Nicholson's blowflies: the choice detects the fast follower, not the slow feedback."""
    rng, steps, noise = np.random.default_rng(70), 10, 0.1 * np.sqrt(0.05)
    x = np.ones((steps * 1000, 2)) * [3.0, 1.0]
    kicks = noise * rng.normal(size=x.shape)
    for k in range(len(x) - 1):
        fly, late = x[k], x[max(k - 200, 0), 0]
        rates = 8 * late * np.exp(-late) - 0.3 * fly[0], 0.4 * x[max(k - 80, 0), 0] - 0.3 * fly[1]
        x[k + 1] = fly + 0.05 * np.array(rates) + kicks[k]
    x = x[steps * 200 :: steps]
    options = dict(dt=0.5, recipe=ndde.Recipe.fast(), key=jr.key(0))
    chosen, _ = ndde.windows.choose_lags(ndde.read_samples(x, dt=0.5))
    assert max(chosen) < 19
    short = ndde.discover(x, **options, lags=chosen)
    (said,) = [finding for finding in short.findings if finding.name == "later delay"]
    assert re.search("x0 by x0 (19|20) samples before", said.text) and "range(" in said.remedy
    found = ndde.discover(x, **options, directory=tmp_path / "stages")
    assert list(tmp_path.glob("stages/longer_1/*.npz"))
    forget_stages(tmp_path / "stages")
    assert not (tmp_path / "stages").exists()
    assert max(found.lags) > 20 and any("was explained by a state" in c for c in found.choices)
    assert np.nanmax(found.delays[0, 0]) == pytest.approx(10, abs=0.3)
    assert not found.graph[1, 0].any() and short.graph[1, 0].any()


def delayed_feedback(delay, n=800, fine=20):
    """Noisy Mackey–Glass feedback after a delay in samples, by Euler steps of 1/20 sample."""
    rng, steps, late = np.random.default_rng(0), n * fine, round(delay * fine)
    x, noise = np.full((steps + late, 2), 0.9), rng.normal(size=(steps + late, 2))
    for k in range(late, steps + late - 1):
        drift = 0.6 * x[k - late] / (1 + np.abs(x[k - late]) ** 10) - 0.3 * x[k]
        x[k + 1] = x[k] + drift / fine + 0.04 * noise[k] / np.sqrt(fine)
    return x[late::fine]


def test_a_delay_between_two_candidates_is_no_later_one():
    graph = alone(2, 9)
    graph[[0, 1], [0, 1], 6] = True
    windows = ndde.select.midpoint_windows(delayed_feedback(5.6), dt=1.0, lags=range(9))
    assert (relations(windows, graph).later.lag < 0).all()
    beyond = alone(2, 4)
    windows = ndde.select.midpoint_windows(delayed_feedback(5.6), dt=1.0, lags=range(4))
    assert (np.abs(relations(windows, beyond).later.lag - 5.6) < 2).all()
