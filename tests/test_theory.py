"""Constants of the theorems, against brute force over all graphs and against plain arithmetic."""

import itertools
import math

import hypothesis
import hypothesis.strategies as st
import jax
import numpy as np
import pytest

import ndde_jax as ndde

strength = st.floats(0.01, 5.0)


def costs(strengths, price):
    """The penalised risk of every set of inputs of a linear drift in independent inputs, where
    leaving inputs out costs the sum of their strengths; the true set first.
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
    window = float(ndde.penalty_window(min(strengths), len(strengths)))
    price = share * window
    truth, *others = costs(strengths, price)
    margin = float(ndde.recovery_margin(price, min(strengths), len(strengths)))
    assert margin > 0
    assert min(others) - truth >= margin * (1 - 1e-6)


def test_beyond_the_strengths_the_truth_loses():
    strengths = [0.3, 0.2]
    assert float(ndde.penalty_window(0.2, 2)) == pytest.approx(0.1)
    truth, *others = costs(strengths, 0.21)
    assert min(others) < truth
    assert float(ndde.recovery_margin(0.21, 0.2, 2)) < 0
    # Sufficient, not necessary: between the window and the strengths the truth still wins.
    truth, *others = costs(strengths, 0.15)
    assert min(others) > truth


def test_the_margin_is_largest_where_its_terms_meet():
    prices = np.linspace(0.001, 0.06, 2000)
    margins = ndde.recovery_margin(prices, 0.12, 2, duration=1.0)
    assert prices[np.argmax(margins)] == pytest.approx(0.12 / 3, abs=1e-4)
    assert float(np.max(margins)) == pytest.approx(0.12 / 3, abs=1e-4)
    np.testing.assert_allclose(
        ndde.recovery_margin(50 * prices, 0.12, 2, duration=50.0), 50 * margins, rtol=1e-12
    )


def test_occupation_bound_is_the_mean_of_the_decay():
    prefactor, rate, start, delay, duration = 2.0, 0.3, 1.5, 2.0, 40.0
    t = np.linspace(delay, duration, 200_001)
    mean = np.trapezoid(prefactor * (1 + start) * np.exp(-rate * t), t) / (duration - delay)
    bound = ndde.occupation_bound(
        duration, prefactor=prefactor, rate=rate, start=start, largest_delay=delay
    )
    assert float(bound) == pytest.approx(mean, rel=1e-6)


CONSTANTS = dict(
    confidence=0.9, modulus=0.02, spread=1.5, envelope=2.0, tail=0.001, covering=30.0,
    resolution=1e-3, noise_norm=0.2, noise_trace=0.5, mixing_prefactor=3.0, mixing_rate=0.7,
)  # fmt: skip


def by_hand(duration, step, c):
    eta = (1 - c["confidence"]) / 6
    block = max(1, math.log(c["mixing_prefactor"] * max(1, math.ceil(duration)) / eta) / 0.7)
    complexity = math.log(4 * math.exp(c["covering"]) / eta)
    sums = sum(math.sqrt(step) for _ in range(round(duration / step)))
    return (
        2 * c["spread"] * duration / eta * c["modulus"]
        + 2 * c["noise_norm"] * c["envelope"] * math.sqrt(2 * duration * complexity)
        + 2 * c["resolution"] * c["noise_trace"] / eta * sums
        + c["envelope"] ** 2 * math.sqrt(2 * duration * (block + step) * complexity)
        + 4 * c["envelope"] * c["resolution"] * duration
        + c["tail"] * duration
    )


@pytest.mark.parametrize("duration, step", [(100.0, 0.1), (0.5, 0.01), (2000.0, 1.0)])
def test_finite_sample_bound_by_hand(duration, step):
    found = ndde.finite_sample_bound(duration, step, **CONSTANTS)
    assert float(found) == pytest.approx(by_hand(duration, step, CONSTANTS), rel=1e-10)


def test_bounds_are_differentiable():
    slope = jax.grad(lambda d: ndde.finite_sample_bound(100.0, 0.1, **(CONSTANTS | {"tail": d})))
    assert float(slope(0.1)) == pytest.approx(100.0)
    slope = jax.grad(lambda s: ndde.recovery_margin(0.1, s, 2))
    assert float(slope(0.25)) == pytest.approx(1.0)
