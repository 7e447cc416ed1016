"""Removed seasons and trends are added to statements about the future."""

import dataclasses

import jax
import numpy as np
import pytest

import ndde_jax as ndde

KEY = jax.random.key(0)
N = 600


def waves(t):
    """A year and a slow rise, for two variables."""
    year = 2 * np.pi * t / 12
    return np.stack([10 + 3 * np.cos(year), 20 + 2 * np.sin(year) + 0.01 * t], axis=-1)


def weather(n=N, seed=0):
    """a drives b one month later, around the season."""
    rng, x = np.random.default_rng(seed), np.zeros((n + 50, 2))
    for k in range(1, len(x) - 1):
        push = [0.5 * x[k, 0], 0.5 * x[k, 1] + 0.6 * x[k - 1, 0]]
        x[k + 1] = push + 0.5 * rng.normal(size=2)
    return x[50:]


DATA = weather() + waves(np.arange(N))


@pytest.fixture(scope="module")
def found():
    made = ndde.discover(
        DATA, dt=1.0, names=("a", "b"), lags=(0, 1, 2), time_unit="month", key=KEY,
        recipe=ndde.Recipe.fast(),
    )  # fmt: skip
    assert {t.name for t in made.samples.treatments} == {"season", "trend"}
    return made


@pytest.mark.slow
def test_a_forecast_goes_on_with_the_season(found):
    made = found.forecast(24, key=KEY)
    np.testing.assert_array_equal(made.ts, np.arange(N, N + 24.0))
    truth = waves(made.ts)
    # The effect of the last state has decayed after a year.
    np.testing.assert_allclose(np.asarray(made.paths).mean(axis=0)[12:], truth[12:], atol=0.45)
    np.testing.assert_allclose(made.history[-5:], DATA[-5:], atol=1e-5)


def test_known_inputs_are_given_with_their_season(found):
    known = dataclasses.replace(found, inputs=("a",))
    future = waves(np.arange(N, N + 24.0))[:, 0] + 0.5
    made = known.forecast(24, key=KEY, inputs={"a": future})
    np.testing.assert_allclose(made.paths[:, :, 0], np.tile(future, (200, 1)), rtol=1e-5)


def test_a_history_with_times_is_the_same(found, tmp_path):
    late = ndde.read_samples(DATA[-40:], t=np.arange(N - 40.0, N), names=("a", "b"))
    ours = found.forecast(24, key=KEY)
    made = found.forecast(24, key=KEY, history=late)
    np.testing.assert_allclose(made.paths, ours.paths, atol=1e-4)
    np.testing.assert_allclose(made.ts, ours.ts)
    found.save(tmp_path)
    again = ndde.Discovery.load(tmp_path).forecast(24, key=KEY)
    np.testing.assert_array_equal(again.paths, ours.paths)
    half = ndde.read_samples(DATA[-46:-6], t=np.arange(N - 46.0, N - 6), names=("a", "b"))
    shifted = found.forecast(24, key=KEY, history=half)
    np.testing.assert_allclose(
        np.asarray(shifted.paths).mean(axis=0)[12:], waves(shifted.ts)[12:], atol=0.45
    )


def test_an_array_says_that_its_season_is_unknown(found):
    made = found.forecast(24, key=KEY, history=found.samples.values[0][-20:])
    assert any("without times" in note and "season and a trend" in note for note in made.notes)
    timed = found.forecast(24, key=KEY)
    gone = sum(t.removed(timed.ts) for t in found.samples.treatments)
    np.testing.assert_allclose(made.paths, timed.paths - gone[None], atol=1e-4)
    with pytest.raises(ValueError, match=r"Give data=ndde_jax\.read_samples"):
        found.backtest(3, data=DATA, key=KEY)


@pytest.mark.slow
def test_what_is_set_is_what_is_measured(found):
    made = found.intervene({"a": 12.0}, horizon=24, key=KEY)
    np.testing.assert_allclose(made.changed[:, :, 0], 12.0, atol=1e-4)
    np.testing.assert_allclose(
        np.asarray(made.baseline).mean(axis=0)[12:], waves(made.ts)[12:], atol=0.45
    )
    rule = found.intervene({"a": lambda t, x: x[0] * 0 + 12.0}, horizon=24, key=KEY)
    np.testing.assert_allclose(rule.changed, made.changed, atol=1e-4)
    # A rule receives states as they are measured, including the season.
    seen = found.intervene({"a": lambda t, x: x[1]}, horizon=24, key=KEY)
    error = np.abs(np.asarray(seen.changed[:, :, 0] - seen.changed[:, :, 1]))
    assert error.mean() < 0.2 and np.asarray(seen.changed[:, :, 0]).min() > 20


@pytest.mark.slow
def test_a_backtest_reads_times(found):
    new = weather(300, seed=1)
    t = np.arange(N, N + 300.0)
    made = found.backtest(
        3,
        data=ndde.read_samples(new + waves(t), t=t, names=("a", "b")),
        origins=60,
        key=KEY,
        rivals=("climatology",),
    )
    assert 0.8 < made.coverage[0].mean() < 0.97
    assert (made.crps[0] < made.crps[1]).all()


def test_other_samples_are_refused(found):
    with pytest.raises(ValueError, match="interval of the data"):
        found.forecast(3, key=KEY, history=ndde.read_samples(DATA[-40:], dt=2.0, names=("a", "b")))
    with pytest.raises(ValueError, match="one recording of a, b"):
        found.forecast(3, key=KEY, history=ndde.read_samples(DATA[-40:], dt=1.0))
