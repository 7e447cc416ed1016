"""Seasons are removed, a system's own oscillations are not."""

import jax
import numpy as np
import pytest

import ndde_jax as ndde
from benchmarks.dirty.data import LAGS, dirty
from ndde_jax.samples._prepare import STEPS
from ndde_jax.select._reading import choose_windows
from ndde_jax.select._rhythm import log_residual_variance, with_own_rhythm

DT, DELAY, NOISE = 0.5, 6, np.array([0.05, 0.5, 0.5])
OSCILLATOR_LAGS = (0, 2, 4, 6, 8)


def oscillator(n=1500, fine=5):
    """A delayed negative feedback whose noise barely shifts its phase, and its target."""
    rng, h, late = np.random.default_rng(0), DT / fine, DELAY * fine
    x = np.full((late + n * fine + 1, 3), 0.3)
    for k in range(late, len(x) - 1):
        first, second, third = x[k]
        fed_back = 2 / (1 + max(x[k - late, 0], 0) ** 8)
        drift = np.array([fed_back - first, np.tanh(3 * (first - 1)) - second, second - third])
        x[k + 1] = x[k] + h * drift + np.sqrt(h) * NOISE * rng.normal(size=3)
    return x[late + 1 :: fine]


@pytest.fixture(scope="module")
def own():
    samples = ndde.prepare_samples(ndde.read_samples(oscillator(), dt=DT), STEPS)
    # Nothing is tested here otherwise.
    assert [t.name for t in samples.treatments] == ["season"]
    return samples, with_own_rhythm(samples, STEPS, lags=OSCILLATOR_LAGS, prior=None)


@pytest.mark.slow
def test_an_oscillation_of_the_systems_own_stays_and_the_report_says_so(own):
    before, (after, chosen) = own
    (note,) = after.treatments
    # The windows are those of the restored samples, and need not be chosen again.
    again = choose_windows(after, lags=OSCILLATOR_LAGS, scheme="auto", prior=None)
    np.testing.assert_array_equal(
        chosen.screened.windows.increment, again.screened.windows.increment
    )
    assert note.name == "rhythm" and "It is kept" in note.text
    np.testing.assert_array_equal(after.values[0], before.as_measured().values[0])
    np.testing.assert_array_equal(note.removed(after.times[0]), 0)
    (finding,) = (f for f in ndde.data_findings(after) if f.name in ("rhythm", "season"))
    assert finding.weight == "note"


@pytest.mark.slow
def test_a_season_that_was_taken_out_before_stays_out(own):
    before, _ = own
    assert with_own_rhythm(before, (), lags=OSCILLATOR_LAGS, prior=None) == (before, None)
    options = dict(lags=(0, 6), recipe=ndde.Recipe.fast(), key=jax.random.key(0))
    for treat in (True, False):
        found = ndde.discover(before, treat=treat, **options)
        assert [t.name for t in found.samples.treatments] == ["season"]


@pytest.mark.slow
def test_what_is_left_of_a_rate_is_its_noise(own):
    # For a variable with decay rate 1 over a step: Σ² (1 − exp(−2Δ)) / (2 Δ²); and the cost of a
    # few edges.
    _, (after, chosen) = own
    left = log_residual_variance(chosen, 0, after.names, None)
    noise = np.mean(np.log(NOISE**2 * (1 - np.exp(-2 * DT)) / (2 * DT**2)))
    assert noise - 0.1 < left < noise + 0.4
    dearer = log_residual_variance(chosen, 10, after.names, None)
    assert dearer - left == pytest.approx(10 * np.log(1490) / 1490, rel=0.02)


def test_a_season_from_outside_goes():
    case = dirty("season_each", 0)
    samples = ndde.prepare_samples(ndde.read_samples(case.x, **case.options), STEPS)
    assert [t.name for t in samples.treatments] == ["season"]
    assert with_own_rhythm(samples, STEPS, lags=LAGS, prior=None).samples is samples


def test_without_a_season_nothing_happens():
    samples = ndde.read_samples(np.random.default_rng(0).normal(size=(200, 2)), dt=1.0)
    assert with_own_rhythm(samples, STEPS, lags=(0,), prior=None) == (samples, None)
