"""Replicates of a parametric bootstrap: the effect of the estimation method on a known drift."""

import dataclasses

import jax
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax.select._measured import fit_splines
from ndde_jax.use import _left_out
from ndde_jax.use._effects import mean_slopes
from ndde_jax.use._left_out import (
    FINE,
    _stretches,
    make_replicates,
    refitted,
    spread_by_replicates,
)

from .small import discovery

# Sampled so coarsely that a forward difference is far from the rate.
PULL, STEP = 1.0, 0.5


def coarse(n=3000, seed=0):
    """dx = −x dt + dW, exactly, and an independent second variable."""
    rng, keep = np.random.default_rng(seed), np.exp(-PULL * STEP)
    x = np.zeros((n, 2))
    for k in range(n - 1):
        x[k + 1] = keep * x[k] + np.sqrt((1 - keep**2) / 2 / PULL) * rng.normal(size=2)
    return x


@pytest.fixture(scope="module")
def found():
    x, graph = coarse(), np.zeros((2, 2, 1), bool)
    graph[0, 0, 0] = graph[1, 1, 0] = True
    windows = ndde.lagged_windows(x, dt=STEP)
    model = fit_splines(windows, graph)
    return discovery(x, graph, lags=(0,), dt=STEP, names=("a", "b"), model=model)


@pytest.fixture(scope="module")
def replicates(found):
    return make_replicates(found, found.resample(key=jax.random.key(0)))


def fitted(found, scheme, x):
    """The replicate of a recording `[stretch time dim]`."""
    return refitted(found, ndde.read_samples(list(x), dt=float(found.dt)), scheme)


def slopes_of(model, past):
    """Mean derivatives of a replicate, `[source target lag]`."""
    return np.moveaxis(mean_slopes(model, past), (0, 1, 2), (1, 2, 0))


@pytest.mark.slow
def test_the_bias_of_forward_differences_is_estimated(found, replicates):
    """A rate of slope b is measured as ((1 + b dt/4)⁴ − 1)/dt: the map over four steps of Euler."""
    past = found.samples.values[0][:-1, None]
    effects = found.effects()
    learned = np.diagonal(effects.slope[..., 0])
    np.testing.assert_allclose(learned, (np.exp(-PULL * STEP) - 1) / STEP, atol=0.06)
    expected = ((1 + learned * STEP / FINE) ** FINE - 1) / STEP
    assert len(replicates) == 2
    made = np.mean([slopes_of(e, past) for e in replicates], axis=0)
    np.testing.assert_allclose(np.diagonal(made[..., 0]), expected, atol=0.06)
    assert (made[found.graph] - learned > 0.08).all() and (made[~found.graph] == 0).all()


@pytest.mark.slow
def test_stretches_along_the_data_show_the_same(found):
    """Simulations are restarted all along the data, for systems that do not stay there."""
    members, record = found.resample(key=jax.random.key(0)), found.samples.values[0]
    made = _stretches(found, members, record, 1)
    assert len(made) == 2 and made[0].shape == (750, 5, 2)
    np.testing.assert_array_equal(made[0][:, 0], record[:-1:4])
    learned = np.diagonal(found.effects().slope[..., 0])
    expected = ((1 + learned * STEP / FINE) ** FINE - 1) / STEP
    past = record[:-1, None]
    slopes = [slopes_of(fitted(found, "euler", x), past) for x in made]
    np.testing.assert_allclose(np.diagonal(np.mean(slopes, axis=0)[..., 0]), expected, atol=0.06)


@pytest.mark.slow
def test_a_system_that_settles_elsewhere_is_restarted_in_stretches(found, monkeypatch):
    monkeypatch.setattr(_left_out, "_long_runs", lambda found, members, record, past: [])
    assert len(make_replicates(found, found.resample(key=jax.random.key(0)))) == 2


@pytest.mark.slow
def test_intervals_know_of_it(found, replicates):
    corrected = found.effects()
    uncorrected = dataclasses.replace(found)
    vars(uncorrected)["_replicates"] = ()
    uncorrected = uncorrected.effects()
    kept = found.graph
    assert ((corrected.slope_low < -PULL) & (-PULL < corrected.slope_high))[kept].all()
    # Variances add up: that of the ensemble, and the square of the mean bias, minus its small part
    # due to chance.
    half = [(e.slope_high - e.slope_low)[kept] / 2 / 1.6449 for e in (corrected, uncorrected)]
    past = found._members.rows.start
    past = past[np.unique(np.linspace(0, len(past) - 1, 1000).astype(int))]
    bias = np.mean([slopes_of(e, past) for e in found._replicates], axis=0)[kept]
    bias = bias - corrected.slope[kept]
    share = (half[0] ** 2 - half[1] ** 2) / bias**2
    assert (share > 0.9).all() and (share < 1).all()
    np.testing.assert_array_equal(corrected.slope, uncorrected.slope)
    curves = [e.curve("a", "a") for e in (corrected, uncorrected)]
    wide = [high - low for _, _, low, high in curves]
    np.testing.assert_array_equal(curves[0][1], curves[1][1])
    assert (wide[0] > wide[1]).all()
    steps = [(e.total.step_high - e.total.step_low)[-1, 0, 0] for e in (corrected, uncorrected)]
    assert steps[0] >= steps[1]


def test_members_are_spread_by_the_bias(found, replicates):
    members = found._members
    spread = spread_by_replicates(found, members, replicates)
    past = members.rows.start[::4]
    columns = np.asarray(members.basis(past))
    moved = np.einsum("rf,mtf->mtr", columns, spread.theta - members.theta)
    np.testing.assert_allclose(moved.mean(axis=0), 0, atol=1e-9)
    bias = np.mean([jax.vmap(e)(past) for e in replicates], axis=0)
    bias = bias - np.asarray(jax.vmap(found.model)(past))
    np.testing.assert_allclose(moved.std(axis=0).T, np.abs(bias), atol=0.05 * np.abs(bias).max())
    assert spread_by_replicates(found, members, ()) is members


def test_nothing_is_made_of_what_cannot_be_made_anew(found):
    members = found._members
    for changes in ({"events": True}, {"inputs": ("a",)}):
        assert make_replicates(dataclasses.replace(found, **changes), members) == ()


@pytest.mark.slow
def test_a_drift_of_zero_wanders_off_and_is_begun_anew(found):
    still = discovery(coarse(400), found.graph, lags=(0,), dt=STEP, names=("a", "b"))
    members = still.resample(resamples=2, key=jax.random.key(0))
    record = still.samples.values[0]
    assert not any(
        _left_out._similar(x, record) for x in _left_out._long_runs(still, members, record, 1)
    )
    replicates = make_replicates(still, members)
    assert len(replicates) == 2
    for replicate in replicates:
        slopes = slopes_of(replicate, record[:-1, None])
        np.testing.assert_allclose(slopes, 0, atol=0.35)


def test_midpoints_are_fitted_as_often_as_the_recipe_says(found):
    x, model = coarse(300)[None], None
    for passes in (1, 2, 3):
        windows = ndde.select.midpoint_windows(list(x), dt=STEP, lags=(0,), model=model)
        model = fit_splines(windows, found.graph)
        so_often = dataclasses.replace(found, recipe=ndde.Recipe(passes=passes))
        drift, past = fitted(so_often, "midpoint", x), x[0, :-1, None]
        np.testing.assert_array_equal(jax.vmap(drift)(past), jax.vmap(model)(past))
