"""Recordings that differ by a constant."""

import jax
import numpy as np
import pytest

import ndde_jax as ndde

DT, KEY = 0.2, jax.random.key(0)
NAMES = ("a", "b")


def recordings(seed=0, n=250, count=6, apart=5.0):
    """a has no driver, b follows a of two samples ago; every recording has its own level."""
    rng, made = np.random.default_rng(seed), []
    for _ in range(count):
        x = np.zeros((n + 100, 2))
        for k in range(2, len(x) - 1):
            rate = np.array([-x[k, 0], 1.2 * x[k - 2, 0] - x[k, 1]])
            x[k + 1] = x[k] + DT * rate + np.sqrt(DT) * np.array([0.7, 0.3]) * rng.normal(size=2)
        made.append(x[100:] + apart * rng.normal(size=2))
    return made


def discover(x, offsets=True, **options):
    recipe = ndde.Recipe(
        strategy=ndde.select.Default(networks=None), offsets=offsets, scheme="euler"
    )
    return ndde.discover(x, dt=DT, names=NAMES, lags=(0, 2, 4), recipe=recipe, key=KEY, **options)


@pytest.fixture(scope="module")
def made():
    return recordings()


@pytest.fixture(scope="module")
def found(made):
    return discover(made)


@pytest.mark.slow
def test_the_law_is_that_of_recordings_centred_by_hand(made, found):
    x = made
    mean = np.concatenate(x).mean(axis=0)
    by_hand = discover([piece - piece.mean(axis=0) + mean for piece in x], offsets=False)
    np.testing.assert_array_equal(found.graph, by_hand.graph)
    np.testing.assert_allclose(found.scores, by_hand.scores, atol=1e-6)
    assert found.graph.sum() == 3 and found.graph[0, 1, 1]
    edge = (0, 1, 1)
    assert found.effects().slope[edge] == pytest.approx(1.2, abs=0.15)
    # Uninformative levels hide the pull to the mean.
    plain = discover(x, offsets=False).effects().slope
    assert found.effects().slope[0, 0, 0] == pytest.approx(-1.0, abs=0.2)
    assert not plain[0, 0, 0] < -0.7


def test_offsets_are_kept_and_said(made, found):
    x = made
    means = np.array([piece.mean(axis=0) for piece in x])
    np.testing.assert_allclose(found.samples.offsets, means - means.mean(axis=0), atol=1e-9)
    assert "Each of 6 recordings has its own mean" in " ".join(found.report(full=True).split())
    for piece, raw in zip(found.samples.as_measured().values, x, strict=True):
        np.testing.assert_array_equal(piece, raw)
    (treatment,) = (t for t in found.samples.treatments if t.name == "offsets")
    assert treatment.size > 1
    np.testing.assert_allclose(treatment.removed(np.arange(3.0), 2)[1], found.samples.offsets[2])


@pytest.mark.slow
def test_forecasts_come_at_the_level_of_the_last(made, found, tmp_path):
    x = made
    f = found.forecast(60, paths=50, key=KEY)
    np.testing.assert_allclose(f.history[-1], x[-1][-1], atol=1e-9)
    np.testing.assert_allclose(f.median[-20:].mean(axis=0), x[-1].mean(axis=0), atol=0.3)
    again = found.forecast(60, paths=50, key=KEY, history=x[-1][-20:])
    np.testing.assert_allclose(again.paths, f.paths, atol=1e-6)
    found.save(tmp_path)
    loaded = ndde.Discovery.load(tmp_path)
    np.testing.assert_array_equal(loaded.forecast(60, paths=50, key=KEY).paths, f.paths)


@pytest.mark.slow
def test_interventions_set_what_is_measured(made, found):
    level = made[-1].mean(axis=0)
    g = found.intervene({"a": level[0] + 1.0}, horizon=60, paths=50, key=KEY)
    np.testing.assert_allclose(g.changed[..., 0], level[0] + 1.0, atol=1e-6)
    by_rule = found.intervene(
        {"a": lambda t, x: 0 * x[1] + level[0] + 1.0}, horizon=60, paths=50, key=KEY
    )
    np.testing.assert_allclose(by_rule.changed, g.changed, atol=1e-6)
    rise = np.asarray(g.changed[:, -20:, 1]).mean() - level[1]
    assert rise == pytest.approx(1.2, abs=0.4)
    unchanged = found.intervene({"b": lambda t, x: x[1]}, horizon=60, paths=50, key=KEY)
    np.testing.assert_allclose(unchanged.changed, unchanged.baseline, atol=1e-6)


def test_known_inputs_keep_their_levels():
    x = recordings(n=120, count=3)
    dose = [np.full((120, 1), k) + np.sin(np.arange(120.0))[:, None] for k in range(3)]
    values = [np.concatenate(pair, axis=1) for pair in zip(x, dose, strict=True)]
    samples = ndde.read_samples(values, dt=DT, names=("a", "b", "dose"))
    treated = ndde.prepare_samples(samples, ("offsets",), ("dose",))
    assert (treated.offsets[:, 2] == 0).all() and (treated.offsets[:, :2] != 0).all()
    for new, old in zip(treated.values, values, strict=True):
        np.testing.assert_array_equal(new[:, 2], old[:, 2])
    assert not ndde.prepare_samples(samples).offsets.any()


def test_missing_values_have_no_part_in_a_mean():
    x = [np.array([[1.0], [np.nan], [3.0], [2.0]]), np.array([[7.0], [9.0], [np.nan], [8.0]])]
    treated = ndde.prepare_samples(ndde.read_samples(x, dt=1.0), ("offsets",))
    np.testing.assert_allclose(treated.offsets[:, 0], [-3, 3])
    np.testing.assert_allclose([np.nanmean(v) for v in treated.values], 5)


def test_what_cannot_be_done_is_said(made):
    with pytest.raises(ValueError, match="offsets=True is for several recordings"):
        discover(made[0])
    spiky = [piece.copy() for piece in made]
    spiky[0][40, 0] += 1000.0
    samples = ndde.prepare_samples(ndde.read_samples(spiky, dt=DT, names=NAMES))
    assert samples.treatments
    recipe = ndde.Recipe(strategy=ndde.select.Default(networks=None), offsets=True)
    with pytest.raises(ValueError, match="offsets must be True or False"):
        ndde.Recipe(offsets="yes")
    with pytest.raises(ValueError, match="already treated"):
        ndde.discover(samples, lags=(0, 2), recipe=recipe, key=KEY)
