"""Constants of the theorems, against brute force over all graphs and against plain arithmetic."""

import itertools
import math

import hypothesis
import hypothesis.strategies as st
import jax
import numpy as np
import pytest
from scipy import stats

import ndde_jax as ndde

strength = st.floats(0.01, 5.0)


def costs(strengths, price):
    """The penalised risk of every set of inputs of a linear drift in independent inputs, where
    omitting inputs costs the sum of their strengths; the true set first.
    """
    everything = list(itertools.product((True, False), repeat=len(strengths) + 1))
    return np.array(
        [
            sum(s for s, kept in zip(strengths, inputs, strict=False) if not kept)
            + price * sum(inputs)
            for inputs in sorted(everything, key=lambda kept: kept != _truth(strengths))
        ]
    )


def _truth(strengths):
    return (True,) * len(strengths) + (False,)


@hypothesis.given(st.lists(strength, min_size=1, max_size=3), st.floats(0.01, 0.99))
def test_inside_the_window_the_truth_wins_by_the_margin(strengths, share):
    window = float(ndde.theory.penalty_window(min(strengths), len(strengths)))
    price = share * window
    truth, *others = costs(strengths, price)
    margin = float(ndde.theory.recovery_margin(price, min(strengths), len(strengths)))
    assert margin > 0
    assert min(others) - truth >= margin * (1 - 1e-6)


def test_beyond_the_strengths_the_truth_loses():
    strengths = [0.3, 0.2]
    assert float(ndde.theory.penalty_window(0.2, 2)) == pytest.approx(0.1)
    truth, *others = costs(strengths, 0.21)
    assert min(others) < truth
    assert float(ndde.theory.recovery_margin(0.21, 0.2, 2)) < 0
    # Sufficient, not necessary: between the window and the strengths the truth still wins.
    truth, *others = costs(strengths, 0.15)
    assert min(others) > truth


def test_the_margin_is_largest_where_its_terms_meet():
    prices = np.linspace(0.001, 0.06, 2000)
    margins = ndde.theory.recovery_margin(prices, 0.12, 2, duration=1.0)
    assert prices[np.argmax(margins)] == pytest.approx(0.12 / 3, abs=1e-4)
    assert float(np.max(margins)) == pytest.approx(0.12 / 3, abs=1e-4)
    np.testing.assert_allclose(
        ndde.theory.recovery_margin(50 * prices, 0.12, 2, duration=50.0), 50 * margins, rtol=1e-12
    )


def test_occupation_bound_is_the_mean_of_the_decay():
    prefactor, rate, start, delay, duration = 2.0, 0.3, 1.5, 2.0, 40.0
    t = np.linspace(delay, duration, 200_001)
    mean = np.trapezoid(prefactor * (1 + start) * np.exp(-rate * t), t) / (duration - delay)
    bound = ndde.theory.occupation_bound(
        duration, prefactor=prefactor, rate=rate, start=start, largest_delay=delay
    )
    assert float(bound) == pytest.approx(mean, rel=1e-6)


CONSTANTS = dict(
    confidence=0.9, modulus=0.02, spread=1.5, envelope=2.0, tail=0.001, covering=30.0,
    resolution=1e-3, noise_norm=0.2, noise_trace=0.5, mixing_prefactor=3.0, mixing_rate=0.7,
)  # fmt: skip


def bound(duration=1000.0, step=0.1, **changes):
    steps = np.full(round(duration / step), step)
    return float(ndde.theory.finite_sample_terms(steps, **(CONSTANTS | changes)).error)


# Constants that switch off all terms but one.
NOTHING = dict(modulus=0.0, resolution=0.0, tail=0.0, covering=0.0)


@pytest.mark.parametrize("drifts", [1, 50])
def test_the_brownian_term_is_a_union_bound_of_normal_tails(drifts):
    """M = 2 Σ ⟨h, Σ ΔW⟩ with ‖h‖ = E is normal with standard deviation 2 σ E √T."""
    settings = dict(envelope=1.0, covering=math.log(drifts), confidence=0.9)
    without = bound(**(NOTHING | settings | dict(noise_norm=0.0)))
    term = bound(**(NOTHING | settings | dict(noise_norm=0.2))) - without
    beyond = 2 * drifts * stats.norm.sf(term / (2 * 0.2 * 1.0 * math.sqrt(1000.0)))
    share = (1 - 0.9) / 6  # of the allowed failures, one of six events
    assert beyond <= share / 2
    # A factor of 1.5 too small, and it would no longer hold.
    assert 2 * drifts * stats.norm.sf(term / 1.5 / (2 * 0.2 * math.sqrt(1000.0))) > share / 2


def test_the_mean_over_time_covers_a_process_of_independent_stretches():
    """A process that is constant, 0 or E², over stretches of the mixing block, the least averaging
    that its mixing allows: exact binomial tails stay below the allowed share of failures.
    """
    duration, envelope, share = 4000.0, 1.7, 0.1 / 6
    settings = NOTHING | dict(noise_norm=0.0, envelope=envelope, confidence=0.9)
    block = math.log(3.0 * duration / share) / 0.7  # where C exp(-γ u) reaches share / stretches
    blocks = int(duration / block)
    term = bound(duration, 1e-3, **settings)
    deviation = term / (envelope**2 * block)
    centre = blocks / 2
    beyond = 2 * stats.binom.sf(centre + deviation - 1, blocks, 0.5)
    assert beyond <= share
    assert 2 * stats.binom.sf(centre + deviation / 4 - 1, blocks, 0.5) > share
    # A step lengthens every stretch.
    longer = bound(duration, 1.0, **settings)
    assert longer == pytest.approx(math.sqrt((block + 1) / (block + 1e-3)) * term, rel=1e-6)


def test_the_rest_of_the_bound_is_paid_per_unit_of_time():
    """Markov's inequality at a share δ/6 for the discretisation: the size of a drift times how much
    the true drift varies within a step; the net of resolution ε, √Δ for every step.
    """
    steps = np.full(10_000, 0.1)
    settings = NOTHING | dict(envelope=1.0, spread=1.5)
    share = 0.1 / 6

    def more(**change):
        return bound(**(settings | change)) - bound(**settings)

    moving = more(modulus=0.02)
    assert moving * share == pytest.approx(2 * np.sum(steps * 1.5 * 0.02), rel=1e-6)
    apart, net = 4 * 1.0 * 1e-3 * steps.sum(), more(resolution=1e-3)
    expected = 2e-3 * 0.5 * np.sum(np.sqrt(steps)) / share + apart
    assert net == pytest.approx(expected, rel=1e-6)
    assert more(tail=0.01) == pytest.approx(np.sum(steps * 0.01), rel=1e-6)
    # The part that averages out grows as the root of the time, where mixing is fast.
    averaging = NOTHING | dict(noise_norm=0.0, mixing_rate=1e3)
    assert bound(4e4, **averaging) == pytest.approx(2 * bound(1e4, **averaging), rel=1e-6)


def test_bounds_are_differentiable():
    slope = jax.grad(
        lambda d: ndde.theory.finite_sample_terms([0.1] * 1000, **(CONSTANTS | {"tail": d})).error
    )
    assert float(slope(0.1)) == pytest.approx(100.0)
    slope = jax.grad(lambda s: ndde.theory.recovery_margin(0.1, s, 2))
    assert float(slope(0.25)) == pytest.approx(1.0)
