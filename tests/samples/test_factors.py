"""Variables that change in proportion to their level."""

import jax.random as jr
import numpy as np
import pytest
from scipy import stats

import ndde_jax as ndde
from ndde_jax.samples._factors import factor_nats, proportional
from ndde_jax.select._reading import choose_windows


def logarithms(n=500, seed=0):
    """A map of three populations in a chain, with delays of two and three samples."""
    rng, x = np.random.default_rng(seed), np.zeros((n, 3))
    for k in range(3, n):
        x[k] = 0.6 * x[k - 1] + 0.3 * rng.normal(size=3)
        x[k, 1] += 0.5 * x[k - 2, 0]
        x[k, 2] -= 0.5 * x[k - 3, 1]
    return x


def outbreaks(n=500, seed=0):
    """Weather, a population that it breeds, which grows by factors and limits itself, and cases."""
    rng, x = np.random.default_rng(seed), np.ones((n, 3))
    for k in range(5, n):
        x[k, 0] = 0.8 * x[k - 1, 0] + 0.6 * rng.normal()
        growth = 0.3 * np.tanh(x[k - 3, 0]) - 0.15 * (x[k - 1, 1] - 1)
        x[k, 1] = x[k - 1, 1] * np.exp(growth + 0.05 * rng.normal())
        x[k, 2] = x[k - 1, 2] ** 0.75 * x[k - 5, 1] ** 0.3 * np.exp(0.1 * rng.normal())
    return x


def test_the_nats_are_those_of_box_and_cox():
    """For independent values nothing is explained, and SciPy has the likelihood."""
    x = np.exp(np.random.default_rng(0).normal(size=(4000, 1)))
    found = factor_nats(ndde.read_samples(x, dt=1.0))[0]
    after = x[2:, 0]
    expected = stats.boxcox_llf(0.0, after) - stats.boxcox_llf(1.0, after)
    assert found == pytest.approx(expected, rel=0.02)


def test_proportional_changes_are_told_from_changes_by_amounts():
    y = logarithms()
    for x, expected in ((np.exp(y), [True] * 3), (10 + y, [False] * 3), (y, [False] * 3)):
        samples = ndde.read_samples(x, dt=1.0)
        assert proportional(factor_nats(samples), samples).tolist() == expected
    # The same in another unit.
    samples, other = (ndde.read_samples(unit * np.exp(y), dt=1.0) for unit in (1, 1000))
    np.testing.assert_allclose(factor_nats(other), factor_nats(samples), rtol=1e-6)
    gaps = np.exp(y)
    gaps[::7, 1] = np.nan
    samples = ndde.read_samples(gaps, dt=1.0)
    assert proportional(factor_nats(samples), samples).all()
    # Without any row that holds all variables, and without any value of one beside another.
    turns = np.where(np.arange(500)[:, None] // 100 % 3 == np.arange(3)[None], np.exp(y), np.nan)
    turned = ndde.read_samples(turns, dt=1.0)
    assert proportional(factor_nats(turned), turned).all()
    # Values measured below zero, although they are not below zero without their season.
    wave = 2 * np.sin(2 * np.pi * np.arange(len(y)) / 12)[:, None]
    treated = ndde.prepare_samples(ndde.read_samples(np.exp(y) + wave, dt=1.0, time_unit="month"))
    assert (treated.values[0] > 0).all() and not factor_nats(treated).any()
    logs = ndde.prepare_samples(samples, (), transform={"x1": "log"})
    assert not factor_nats(logs)[1]


@pytest.mark.parametrize("seed", range(3))
def test_logarithms_make_no_flow_of_a_river_that_adds_up_the_rain(seed):
    rng, n = np.random.default_rng(seed), 1200
    wet, slow, noise = np.zeros(n, bool), np.zeros(n), rng.normal(size=(n, 2))
    for k in range(1, n):
        wet[k] = rng.random() < (0.65 if wet[k - 1] else 0.07)
        slow[k] = 0.97 * slow[k - 1] + 0.07 * noise[k, 0]
    rain = np.where(wet, rng.gamma(0.8, 4, n), 0)
    runs_off = enumerate((0.1, 0.3, 0.25, 0.15, 0.08), start=1)
    fast = sum(share * np.roll(rain, days) for days, share in runs_off)
    river = fast * np.exp(0.05 * noise[:, 1]) + slow + 3
    samples = ndde.read_samples(np.stack([rain, river], axis=1)[10:], dt=1.0)
    assert proportional(factor_nats(samples), samples).tolist() == [False, True]
    found = choose_windows(samples, lags=tuple(range(8)), scheme="auto", prior=None)
    assert found.screened.readings.name != "flow"


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_map_that_is_multiplied_by_noise_is_read_as_a_map(seed):
    samples = ndde.read_samples(outbreaks(seed=seed), dt=1.0)
    found = choose_windows(samples, lags=tuple(range(6)), scheme="auto", prior=None)
    assert found.screened.readings.name == "map" and found.screened.windows.scheme == "euler"
    assert "decided by the logarithms of x1, x2" in found.choices[-1]
    # The windows hold the values, and logarithms have the same effect as on their own.
    windows = ndde.lagged_windows(samples, lags=range(6))
    np.testing.assert_array_equal(found.screened.windows.history, windows.history)
    logs = outbreaks(seed=seed)
    logs[:, 1:] = np.log(logs[:, 1:])
    alone = choose_windows(
        ndde.read_samples(logs, dt=1.0), lags=tuple(range(6)), scheme="auto", prior=None
    )
    evidence = alone.screened.readings.evidence
    assert found.screened.readings.evidence == pytest.approx(evidence, rel=1e-6)


def test_a_set_point_is_not_said_to_change_in_proportion_to_its_level():
    rng, x = np.random.default_rng(0), np.zeros((1200, 2))
    x[:, 0] = np.repeat(rng.choice([1.0, 2.0, 5.0, 10.0], 60), 20)
    for k in range(1199):
        x[k + 1, 1] = 0.8 * x[k, 1] + 0.3 * x[k, 0] + 0.2 * rng.normal()
    found = ndde.discover(x, dt=1.0, lags=range(4), key=jr.key(0))
    assert "proportional changes" not in [one.name for one in found.findings]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_outbreaks_have_their_links_at_their_lags(seed):
    x, apart = outbreaks(seed=seed), ~np.eye(3, dtype=bool)[..., None]
    expected = np.zeros((3, 3, 6), bool)
    expected[0, 1, 2] = expected[1, 2, 4] = True
    found = ndde.discover(x, dt=1.0, lags=range(6), key=jr.key(0))
    # For values a neighbouring lag may be kept beside a lag, for logarithms none.
    assert found.graph[expected].all()
    assert (found.graph.any(axis=2) & apart[..., 0] == expected.any(axis=2)).all()
    transform = {"x1": "log", "x2": "log"}
    logs = ndde.discover(x, dt=1.0, lags=range(6), key=jr.key(0), transform=transform)
    assert (logs.graph & apart == expected).all()
    assert all(one.name != "proportional changes" for one in logs.findings)
    (note,) = [one for one in found.findings if one.name == "proportional changes"]
    assert note.weight == "note" and "'x1': 'log', 'x2': 'log'" in note.remedy
    assert note.remedy.startswith("If x1, x2 cannot fall below zero")
