"""The influence of windows on an edge, against omitting them."""

import dataclasses

import jax
import numpy as np
import pytest

import ndde_jax as ndde

from .small import LAGS, TRUTH, discovery, linear_path


@pytest.fixture(scope="module")
def short():
    return discovery(linear_path(160), TRUTH)


def strength_without(found, row):
    """For sun -> heat, splines fitted again with one window less."""
    weight = np.array(found.windows.weight)
    weight[row] = 0
    windows = dataclasses.replace(
        found.windows, weight=jax.numpy.asarray(weight), valid=jax.numpy.asarray(weight > 0)
    )
    without = TRUTH.copy()
    without[0, 1] = False
    risks = [ndde.risk(ndde.select.fit_splines(windows, g), windows)[1] for g in (without, TRUTH)]
    return float(risks[0] - risks[1])


@pytest.mark.slow
def test_leaving_a_window_out_drops_the_strength_by_what_is_said(short):
    made = short.influence("sun", "heat")
    whole = strength_without(short, [])
    assert made.strength == pytest.approx(whole, rel=1e-6)
    order = np.argsort(made.drop)
    rows = np.concatenate([order[:4], order[60:64], order[-8:]])
    drops = np.array([whole - strength_without(short, k) for k in rows])
    # First order: what a window bends the fit by is left out.
    np.testing.assert_allclose(made.drop[rows], drops, atol=0.25 * np.abs(drops).max())
    assert np.corrcoef(made.drop[rows], drops)[0, 1] > 0.98


def test_shares_sum_up_and_the_largest_come_first(short):
    made = short.influence(0, 1, lag=LAGS[1])
    assert made.value.sum() == pytest.approx(made.strength)
    assert made.edge == ("sun", "heat", (LAGS[1],))
    times = made.largest(0.5)
    held = np.isin(made.time, times)
    speaks = np.maximum(made.value, 0)
    assert 0.5 * speaks.sum() <= speaks[held].sum() < 0.5 * speaks.sum() + speaks.max()
    assert speaks[held].min() >= speaks[~held].max()
    assert f"{len(times)} of {len(made.value)} windows" in repr(made)
    assert made.to_frame()["drop"].sum() == pytest.approx(0, abs=1e-3)


def test_a_link_that_ends_is_decided_before_its_end():
    rng, x = np.random.default_rng(0), np.zeros((600, 2))
    for k in range(599):
        rate = np.array([2.0 * x[k, 1] * (k < 300) - x[k, 0], -x[k, 1]])
        x[k + 1] = x[k] + 0.2 * rate + 0.3 * rng.normal(size=2)
    graph = np.ones((2, 2, 1), bool)
    made = discovery([x, x[:100]], graph, lags=(0,), dt=0.2, names=("a", "b")).influence("b", "a")
    first = made.trajectory == 0
    assert made.time[first].max() > 118 and made.time[~first].max() < 20
    early = first & (made.time < 60)
    assert made.value[early].sum() > 0.6 * made.strength
    assert made.value[first & ~early].sum() < 0.05 * made.strength


def test_what_cannot_be_asked_is_said(short):
    with pytest.raises(ValueError, match="ice -> sun is not an edge"):
        short.influence("ice", "sun")
    with pytest.raises(ValueError, match="lag: sun -> heat has lags of 2 samples; got 4"):
        short.influence("sun", "heat", lag=4)
    with pytest.raises(ValueError, match="a source must be one of"):
        short.influence("moon", "heat")
    with pytest.raises(ValueError, match="share must lie"):
        short.influence("sun", "heat").largest(2.0)
