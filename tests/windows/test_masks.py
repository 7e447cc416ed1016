"""Samples that may be the present of a window."""

import dataclasses

import jax
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax.select import midpoint_windows, spline_graph
from ndde_jax.windows._stencils import STENCILS

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 2)).cumsum(axis=0)
MASK = (np.arange(200) // 30) % 2 == 0
LAGS = (0, 3, 10)


def cut(mask=MASK, scheme="euler", x=X):
    samples = ndde.read_samples(x, dt=0.5, mask=mask)
    return ndde.lagged_windows(samples, lags=LAGS, scheme=scheme)


@pytest.mark.parametrize("scheme", STENCILS)
def test_rows_are_those_whose_steps_begin_in_the_mask(scheme):
    masked, whole = cut(scheme=scheme), cut(None, scheme)
    offsets = STENCILS[scheme]
    by_hand = [
        all(MASK[k + o] for o in range(min(offsets), max(offsets)))
        for k in np.asarray(whole.position)
    ]
    np.testing.assert_array_equal(masked.valid, by_hand)
    assert 0 < sum(by_hand) < len(by_hand)
    # The past comes from outside the mask as well, in the units of the whole record.
    np.testing.assert_array_equal(masked.history[masked.valid], whole.history[masked.valid])
    assert not np.asarray(masked.weight)[~np.asarray(masked.valid)].any()
    assert int(masked.dropped) == 0
    rate = lambda w: w.increment * w.scaling.rate_scale[None] + w.scaling.rate_center[None]  # noqa: E731
    np.testing.assert_allclose(rate(masked)[masked.valid], rate(whole)[masked.valid], atol=1e-12)
    np.testing.assert_allclose(masked.increment[masked.valid].mean(axis=0), 0, atol=1e-12)


def test_midpoints_obey_it_too():
    samples = ndde.read_samples(X, dt=0.5, mask=MASK)
    masked = midpoint_windows(samples, lags=LAGS)
    np.testing.assert_array_equal(masked.valid, MASK[np.asarray(masked.position)])
    model = lambda history: -history[0]  # noqa: E731
    model.lags = LAGS
    again = midpoint_windows(samples, lags=LAGS, model=model)
    np.testing.assert_array_equal(again.valid, masked.valid)


def test_rows_cut_by_hand_give_the_same_graph():
    masked, whole = cut(), cut(None)
    kept = np.flatnonzero(MASK[np.asarray(whole.position)])
    scaling = masked.scaling
    rate = np.asarray(whole.increment)[kept] * whole.scaling.rate_scale[None]
    rate = rate + whole.scaling.rate_center[None] - scaling.rate_center[None]
    rate = rate / scaling.rate_scale[None]
    hand = dataclasses.replace(
        whole,
        history=whole.history[kept],
        increment=rate,
        valid=whole.valid[kept],
        weight=whole.weight[kept],
        position=whole.position[kept],
        scaling=scaling,
    )
    one, other = spline_graph(masked), spline_graph(hand)
    np.testing.assert_array_equal(one.graph, other.graph)
    np.testing.assert_allclose(one.risk, other.risk, rtol=1e-9)


def test_missing_values_count_inside_only():
    x = X.copy()
    x[115, 0] = np.nan  # outside, and ten samples later the past of a row inside
    x[70, 1] = np.nan
    masked = cut(x=x)
    touched = {k for gap in (115, 70) for k in (gap - 1, *(gap + lag for lag in LAGS))}
    inside = [k for k in touched if MASK[k]]
    assert int(masked.dropped) == len(inside) == 5
    assert not np.isin(np.asarray(masked.position)[masked.valid], inside).any()


def test_several_trajectories_have_one_each():
    masks = [MASK, ~MASK[:150]]
    samples = ndde.read_samples([X, X[:150]], dt=0.5, mask=masks)
    windows = ndde.lagged_windows(samples, lags=LAGS)
    both = np.concatenate([mask[10:-1] for mask in masks])
    np.testing.assert_array_equal(windows.valid, both)
    one = ndde.read_samples(np.stack([X, X]), dt=0.5, mask=MASK)
    assert len(one.mask) == 2
    assert ndde.read_samples(X, dt=0.5, mask=np.ones(200, bool)).mask == ()
    assert "in the mask" in repr(one) and "mask" not in repr(ndde.read_samples(X, dt=0.5))
    other = ndde.read_samples(one, mask=~MASK)
    np.testing.assert_array_equal(other.mask[0], ~MASK)


def test_it_follows_rows_that_are_filled_in():
    rng = np.random.default_rng(1)
    x, t = rng.normal(size=(300, 2)), np.arange(300.0)
    kept = ~np.isin(np.arange(300), (40, 41, 77, 200))
    mask = t >= 150
    samples = ndde.read_samples(x[kept], t=t[kept], mask=mask[kept])
    treated = ndde.prepare_samples(samples, ("clock",))
    np.testing.assert_array_equal(treated.mask[0], mask)
    np.testing.assert_array_equal(treated.as_measured().mask[0], mask[kept])


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (MASK.astype(float), "mask must be booleans"),
        (MASK[:-1], "mask must hold one boolean per sample"),
        ([MASK, MASK], "mask must hold one boolean per sample"),
        (np.zeros(200, bool), "mask must be True somewhere"),
        ("winter", "mask must be booleans"),
        ({"a": 1}, "mask must be booleans"),
    ],
)
def test_what_is_no_mask_is_refused(mask, message):
    with pytest.raises(ValueError, match=message):
        ndde.read_samples(X, dt=0.5, mask=mask)


def test_too_little_inside_is_said():
    mask = np.zeros(200, bool)
    mask[[50, 60]] = True
    said = "only 2 valid windows remain inside the mask.* holds 2 of 200 samples; include more"
    with pytest.raises(ValueError, match=said):
        cut(mask)


# ---- discoveries ----

DT, HALF = 0.2, 100


def seasonal(n=3000, seed=0):
    """In winter a drives b two samples later by +1, in summer by −1."""
    rng, x = np.random.default_rng(seed), np.zeros((n, 2))
    winter = (np.arange(n) // HALF) % 2 == 0
    for k in range(2, n - 1):
        push = 1.0 if winter[k] else -1.0
        rate = np.array([-x[k, 0], push * x[k - 2, 0] - x[k, 1]])
        x[k + 1] = x[k] + DT * rate + np.sqrt(DT) * np.array([0.7, 0.3]) * rng.normal(size=2)
    return x, winter


FAST = dict(dt=DT, names=("a", "b"), lags=(0, 2, 4), recipe=ndde.Recipe.fast(), treat=False)


@pytest.fixture(scope="module")
def halves():
    x, winter = seasonal()
    found = {
        name: ndde.discover(x, mask=mask, key=jax.random.key(0), scheme="euler", **FAST)
        for name, mask in (("winter", winter), ("summer", ~winter))
    }
    return found, x, winter


@pytest.mark.slow
@pytest.mark.parametrize(("season", "sign"), [("winter", 1), ("summer", -1)])
def test_each_season_has_its_law(halves, season, sign):
    found = halves[0][season]
    edge = (0, 1, 1)
    assert found.graph[edge] and found.graph.sum() == 3
    history = np.zeros((3, 2))
    history[1, 0] = 1.0
    push = found.model(history)[1] - found.model(0 * history)[1]
    assert float(push) == pytest.approx(sign, abs=0.15)
    effects = found.effects()
    assert effects.slope_low[edge] < sign < effects.slope_high[edge]
    assert effects.slope[edge] == pytest.approx(sign, abs=0.15)
    assert effects.share[edge] > 0.9
    mask = halves[2] if season == "winter" else ~halves[2]
    # Rows of the ensemble begin in the mask, so the noise is that of the season.
    at = effects.ensemble.rows.position
    assert mask[at].all()
    np.testing.assert_allclose(
        np.diag(effects.ensemble.noise.covariance), DT * np.array([0.49, 0.09]), rtol=0.15
    )
    assert not np.asarray(ndde.check.residual_memory(found.windows, found.model)).any()


def test_without_a_mask_the_laws_cancel(halves):
    _, x, _ = halves
    found = ndde.discover(x, key=jax.random.key(0), scheme="euler", **FAST)
    history = np.zeros((3, 2))
    history[1, 0] = 1.0
    push = found.model(history)[1] - found.model(0 * history)[1]
    assert abs(float(push)) < 0.4


@pytest.mark.slow
def test_it_is_reported_saved_and_noted(halves, tmp_path):
    found, _, winter = halves
    found = found["winter"]
    inside = int(winter.sum())
    said = found.report(full=True).replace("\n", " ")
    assert f"Only the {inside} of 3000 samples in the mask" in " ".join(said.split())
    assert int(found.windows.n_valid) < inside
    found.save(tmp_path)
    loaded = ndde.Discovery.load(tmp_path)
    np.testing.assert_array_equal(loaded.samples.mask[0], winter)
    np.testing.assert_array_equal(loaded.effects().slope, found.effects().slope)
    notes = loaded.forecast(2, paths=4, key=jax.random.key(0)).notes
    assert any("ends outside the mask" in note for note in notes) == (not winter[-1])
    assert not winter[-1]


def test_the_default_recipe_obeys_it_as_well():
    x, winter = seasonal(1200, seed=1)
    found = ndde.discover(x, mask=winter, key=jax.random.key(0), **FAST)
    windows = found.windows
    assert winter[np.asarray(windows.position)[np.asarray(windows.valid)]].all()
    assert found.graph[0, 1].any()
