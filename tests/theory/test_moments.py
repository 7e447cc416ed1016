"""Dissipativity, Halanay's rate and moments: closed forms, roots by SciPy, simulation."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import factorial2, lambertw

import ndde_jax as ndde
from ndde_jax import theory
from tests.bad_values import model, windows

# ---- Halanay ----


@pytest.mark.parametrize(
    "decay, feedback, delay", [(2, 1, 1), (1, 0.9, 5), (30, 2, 0.3), (1, 0, 2)]
)
def test_the_halanay_rate_is_the_rightmost_root_of_the_characteristic_equation(
    decay, feedback, delay
):
    """m' = −a m + k m(t − τ): roots s = −a + W(k τ exp(aτ)) / τ, the rightmost of branch 0."""
    root = -decay + lambertw(feedback * delay * np.exp(decay * delay)).real / delay
    found = float(theory.halanay_rate(float(decay), [float(feedback)], [float(delay)]))
    assert found == pytest.approx(-root, rel=1e-9)


def test_the_halanay_rate_with_several_delays_and_without_any():
    feedback, delays = np.array([0.3, 0.0, 0.5]), np.array([0.5, 1.0, 4.0])
    rate = float(theory.halanay_rate(1.2, feedback, delays))
    assert rate + np.sum(feedback * np.exp(rate * delays)) == pytest.approx(1.2, rel=1e-12)
    assert 0 < rate < 1.2
    assert float(theory.halanay_rate(0.7, [], [])) == 0.7
    # A delay of a thousand time constants neither overflows nor loses the root.
    far = float(theory.halanay_rate(50.0, [1e-6], [1000.0]))
    assert 0 < far < 0.02 and far + 1e-6 * np.exp(1000 * far) == pytest.approx(50, rel=1e-9)


def test_the_halanay_rate_under_transforms():
    def rate(a):
        return theory.halanay_rate(a, jnp.array([1.0]), jnp.array([1.0]))

    batch = jnp.array([1.5, 2.0, 3.0])
    np.testing.assert_allclose(jax.vmap(rate)(batch), [float(rate(a)) for a in batch], rtol=1e-12)
    slope = (float(rate(2.0 + 1e-6)) - float(rate(2.0 - 1e-6))) / 2e-6
    assert float(jax.grad(rate)(2.0)) == pytest.approx(slope, rel=1e-6)
    assert float(eqx.filter_jit(rate)(2.0)) == pytest.approx(float(rate(2.0)), rel=1e-12)
    # If Halanay's condition is unknown it cannot be refused.
    assert np.isnan(float(jax.jit(rate)(0.5)))
    with pytest.raises(ValueError, match=r"decay must exceed the sum of feedback, 1; got 0\.5"):
        rate(0.5)


# ---- constants ----


def test_constants_of_a_linear_drift_hold_everywhere_and_cannot_be_much_better():
    rng = np.random.default_rng(0)
    present = np.array([[-3.0, 1.0], [-0.5, -2.0]])
    delayed = np.array([[[0.2, 0.3], [-0.1, 0.4]], [[0.0, 0.3], [0.2, 0.0]]])
    offset = np.array([0.5, -1.0])
    known = theory.linear_dissipativity(present, delayed, delays=[0.5, 1.0], offset=offset)
    assert known.kind == "certified" and bool(known.holds)

    def drift(t, x, lagged, args):
        return present @ x + delayed[0] @ lagged[0] + delayed[1] @ lagged[1] + offset

    z = rng.normal(size=(3000, 3, 2)) * np.exp(rng.normal(size=(3000, 1, 1)) * 2)
    assert float(jnp.max(known.excess(drift, z))) <= 1e-9
    tighter = eqx.tree_at(lambda k: k.beta0, known, known.beta0 + 2.0)
    assert float(jnp.max(tighter.excess(drift, z))) > 0
    # One variable, one delay: the margin is a − |b|.
    scalar = theory.linear_dissipativity([[-2.0]], [[[-0.5]]], delays=[1.0])
    assert float(scalar.margin) == pytest.approx(1.5)
    assert not bool(theory.linear_dissipativity([[-1.0]], [[[1.5]]], delays=[1.0]).holds)


def test_the_ball_and_the_rest_make_one_bound():
    """The lemma on global dissipativity, by drawing drifts that satisfy the two lines exactly."""
    known = theory.Dissipativity(
        center=[0.0], beta0=2.0, alpha=0.3, delays=[1.0], beta=[0.4], radius=1.5, inside=0.7,
        epsilon=[0.1],
    )  # fmt: skip
    assert float(known.level) == pytest.approx(0.7 + 2 * 1.5**2)
    assert float(known.margin) == pytest.approx(1.5)
    rng = np.random.default_rng(0)
    u, past = rng.uniform(-4, 4, 20_000), rng.uniform(-4, 4, 20_000)
    outside = 0.3 - 2 * u**2 + 0.4 * past**2
    inside = 0.7 + 0.1 * past**2
    largest = np.where(np.abs(u) >= 1.5, outside, inside)
    bound = float(known.level) - 2 * u**2 + float(known.feedback[0]) * past**2
    assert (largest <= bound + 1e-12).all()
    assert (largest <= float(known.growth) * (1 + u**2 + past**2)).all()


def test_a_confined_model_is_certified_and_its_constants_hold_far_out():
    confined = ndde.confine(model(), radius=2.0)
    known = theory.dissipativity(confined)
    assert known.kind == "certified" and "weights" in known.evidence and bool(known.holds)
    np.testing.assert_array_equal(known.feedback, [0.0])
    z = np.random.default_rng(0).normal(size=(2000, 2, 2)) * 30
    z[:1000] *= 0.05
    assert float(jnp.max(known.excess(confined, z))) <= 0
    with pytest.raises(ValueError, match="center must be omitted"):
        theory.dissipativity(confined, center=[0.0, 0.0])


def test_constants_from_samples_are_those_of_a_linear_drift():
    """For −2x + x(t − 1)/2 the margin 3/2 and α = 0 are optimal, and the program finds them."""

    def drift(t, x, lagged, args):
        return -2 * x + 0.5 * lagged[0]

    z = np.random.default_rng(0).normal(size=(400, 2, 1))
    found = theory.dissipativity(drift, z, center=[0.0], delays=[1.0])
    assert found.kind == "estimated" and "from 4000 histories" in found.evidence
    assert float(found.margin) == pytest.approx(1.5, abs=0.02)
    assert float(found.alpha) == pytest.approx(0, abs=1e-6)
    assert float(jnp.max(found.excess(drift, z))) <= 1e-6


def test_constants_from_samples_of_a_cubic_and_of_an_unstable_drift():
    cubic = lambda t, x, lagged, args: x - x**3  # noqa: E731
    z = np.linspace(-1.5, 1.5, 301)[:, None, None]
    found = theory.dissipativity(cubic, z, center=[0.0], sigma_trace=1.0)
    # x² − x⁴ ≤ α − β x² for all x iff α ≥ (1 + β)² / 4: the smallest (2α + 1) / 2β is at β² = 3.
    assert float(found.beta0) == pytest.approx(3**0.5, rel=0.02)
    assert float(found.alpha) == pytest.approx((1 + 3**0.5) ** 2 / 4, rel=0.02)
    outwards = theory.dissipativity(lambda t, x, lagged, args: x, z, center=[0.0])
    assert not bool(outwards.holds) and outwards.kind == "estimated"


def test_what_is_only_seen_on_half_of_the_data_is_told():
    """The second half lies where the drift pushes outwards, which the first half does not show."""
    z = np.concatenate([np.linspace(-1, 1, 100), np.linspace(4, 5, 100)])[:, None, None]
    drift = lambda t, x, lagged, args: jnp.where(jnp.abs(x) < 3.5, -x, x)  # noqa: E731
    text = theory.dissipativity(drift, z, center=[0.0]).evidence
    assert "100.0% of those in the second half violate" in text


def test_a_free_model_needs_histories_and_a_system_brings_its_delays():
    with pytest.raises(ValueError, match="histories are missing"):
        theory.dissipativity(model())
    z = np.random.default_rng(0).normal(size=(50, 2, 2))
    assert theory.dissipativity(model(), z).kind == "estimated"
    # Windows are histories in physical units, whatever their own units are.
    physical = np.asarray(windows().history) * np.asarray(windows().scaling.scale)
    physical = (physical + np.asarray(windows().scaling.center))[np.asarray(windows().valid)]
    one, other = theory.dissipativity(model(), windows()), theory.dissipativity(model(), physical)
    np.testing.assert_allclose(one.beta0, other.beta0, rtol=1e-6)
    np.testing.assert_allclose(one.center, physical[:, 0].mean(axis=0), rtol=1e-6)
    system = ndde.systems.get("mackey_glass")
    z = np.random.default_rng(0).uniform(0.2, 1.4, size=(200, 2, 1))
    found = theory.dissipativity(system, z)
    np.testing.assert_allclose(found.delays, system.lags)
    # A bounded delayed feedback with linear decay: the present wins.
    assert bool(found.holds)
    with pytest.raises(ValueError, match="delays must be omitted"):
        theory.dissipativity(system, z, delays=[1.0])


# ---- moments ----


@pytest.mark.parametrize("order", [1, 2, 3])
def test_moments_of_an_ornstein_uhlenbeck_process(order):
    """E X^{2p} = (2p − 1)!! (σ²/2θ)^p; for p = 1 the bound is the variance."""
    theta, sigma = 1.3, 0.7
    known = theory.linear_dissipativity([[-theta]])
    bound = theory.moments(known, sigma, order=order)
    exact = factorial2(2 * order - 1) * (sigma**2 / (2 * theta)) ** order
    if order == 1:
        assert float(bound.level) == pytest.approx(exact, rel=1e-9)
        assert float(bound.rate) == pytest.approx(2 * theta)
        # From a start x, the second moment is x² exp(−2θt) + var (1 − exp(−2θt)).
        at = float(bound.at(0.8, 4.0))
        assert at >= 4 * np.exp(-1.6 * theta) + exact * (1 - np.exp(-1.6 * theta))
    else:
        assert exact < float(bound.level) < exact * (2 * order - 1) ** order
        # No slack on a grid is better than the default, and each satisfies its inequality.
        room = 2 * order * theta
        levels = [
            float(theory.moments(known, sigma, order=order, slack=s * room).level)
            for s in np.linspace(0.05, 0.95, 19)
        ]
        assert min(levels) >= float(bound.level) * (1 - 1e-9)
    assert float(bound.decay) > float(jnp.sum(bound.feedback))


def test_the_constant_is_the_largest_of_what_it_replaces():
    known = theory.linear_dissipativity([[-2.0]], [[[0.5]]], delays=[1.0])
    slack, order, sigma = 3.0, 3, 0.6
    bound = theory.moments(known, sigma, order=order, slack=slack)
    size = 2 * order * 0 + order * sigma**2 + 2 * order * (order - 1) * sigma**2
    y = np.linspace(0, 5, 400_001)
    assert float(bound.constant) == pytest.approx(
        np.max(size * y ** (order - 1) - slack * y**order), rel=1e-6
    )


def delayed_paths(decay, feedback, delay, sigma, start, dt=0.01, duration=6.0, n=4000):
    """Euler paths of dX = (−a X + b X(t − τ)) dt + σ dW, `[time path]`, history included."""
    back = round(delay / dt)
    steps = round(duration / dt)
    rng, x = np.random.default_rng(0), np.empty((back + steps + 1, n))
    x[: back + 1] = start
    noise = sigma * np.sqrt(dt)
    for k in range(back, back + steps):
        x[k + 1] = x[k] + dt * (feedback * x[k - back] - decay * x[k])
        x[k + 1] += noise * rng.normal(size=n)
    return x, back


@pytest.mark.parametrize("feedback", [0.8, -0.8])
def test_one_point_and_segment_moments_bound_a_simulated_delay_equation(feedback):
    decay, delay, sigma, start, dt = 2.0, 1.0, 0.6, 3.0, 0.01
    x, back = delayed_paths(decay, feedback, delay, sigma, start, dt)
    known = theory.linear_dissipativity([[-decay]], [[[feedback]]], delays=[delay])
    one, whole = theory.moments(known, sigma), theory.segment_moments(known, sigma)
    for t in (0.5, 2.0, 6.0):
        k = back + round(t / dt)
        square = np.mean(x[k] ** 2)
        assert square <= float(one.at(t, start**2)) * 1.02
        segment = np.mean(np.max(x[k - back : k + 1] ** 2, axis=0))
        decayed = float(whole.prefactor) * start**2 * np.exp(-float(whole.rate) * t)
        assert segment <= decayed + float(whole.level)
    # With reinforcing feedback the one-point bound is tight to a third, so it is not vacuous.
    if feedback > 0:
        assert np.mean(x[-1] ** 2) > 0.6 * float(one.level)
    unit = np.mean(np.max(x[-2 * back - 1 :] ** 2, axis=0))
    assert unit <= float(whole.unit)


def test_segments_without_delays_are_points():
    known = theory.linear_dissipativity([[-1.0]])
    whole = theory.segment_moments(known, 1.0)
    assert float(whole.prefactor) == 1 and float(whole.level) == pytest.approx(0.5)
    rng, x, peak = np.random.default_rng(0), np.random.default_rng(1).normal(size=5000), 0.0
    x = x * 0.5**0.5
    for _ in range(100):
        peak = np.maximum(peak, x**2)
        x = x - 0.01 * x + 0.1 * rng.normal(size=5000)
    assert np.mean(peak) <= float(whole.unit)


def test_refusals_of_moments():
    weak = theory.linear_dissipativity([[-1.0]], [[[1.5]]], delays=[1.0])
    with pytest.raises(ValueError, match="known must satisfy B < β_0"):
        theory.moments(weak, 1.0)
    good = theory.linear_dissipativity([[-1.0]])
    with pytest.raises(ValueError, match="slack must be omitted"):
        theory.moments(good, 1.0, slack=0.1)
    with pytest.raises(ValueError, match="slack must lie below"):
        theory.moments(good, 1.0, order=2, slack=10.0)
    with pytest.raises(ValueError, match="sigma must be a number, a diagonal"):
        theory.moments(good, np.ones((3, 3)))
    with pytest.raises(ValueError, match="beta must have one rate for each of the 1 delays"):
        theory.Dissipativity(center=[0.0], beta0=1.0, alpha=0.0, delays=[1.0])


@pytest.mark.parametrize("order", [1, 3])
def test_constants_of_moments_as_the_paper_writes_them(order):
    """γ_p, K_p, A^seg and B^seg of its lemmas, in NumPy, with two delays, a ball and a noise
    matrix.
    """
    beta0, alpha, inside, radius = 3.0, 0.4, 1.1, 0.8
    beta, epsilon, delays = np.array([0.3, 0.2]), np.array([0.1, 0.0]), np.array([0.5, 2.0])
    known = theory.Dissipativity(
        center=[0.0, 1.0], beta0=beta0, alpha=alpha, delays=delays, beta=beta, radius=radius,
        inside=inside, epsilon=epsilon,
    )  # fmt: skip
    sigma = np.array([[0.5, 0.1], [0.0, 0.7]])
    p, b = order, beta + epsilon
    whole, largest = b.sum(), np.linalg.norm(sigma, 2)
    level = max(alpha, inside + beta0 * radius**2)
    k = 2 * p * level + p * np.trace(sigma @ sigma.T) + 2 * p * (p - 1) * largest**2
    eta = 0.0 if p == 1 else 2.0
    constant = k if p == 1 else k**p * (p - 1) ** (p - 1) / (p**p * eta ** (p - 1))
    decay = 2 * p * beta0 - 2 * (p - 1) * whole - eta
    # The characteristic equation by bisection.
    low, high = 0.0, decay
    for _ in range(200):
        middle = (low + high) / 2
        above = middle + 2 * np.sum(b * np.exp(middle * delays)) > decay
        low, high = (low, middle) if above else (middle, high)
    slack = {} if p == 1 else {"slack": eta}
    one = theory.moments(known, sigma, order=p, **slack)
    assert float(one.rate) == pytest.approx(low, rel=1e-9)
    rest = constant / (decay - 2 * whole)
    assert float(one.level) == pytest.approx(rest, rel=1e-9)
    bdg, tau = 5.0, 2.0
    martingale = (2 * p * largest * bdg) ** 2
    factor = 2 + 4 * whole * tau + martingale * tau
    segment = theory.segment_moments(known, sigma, order=p, bdg=bdg, **slack)
    prefactor = factor * np.exp(2 * low * tau) + np.exp(low * tau)
    assert float(segment.prefactor) == pytest.approx(prefactor, rel=1e-9)
    bound = factor * rest + 2 * constant * tau + martingale * tau
    assert float(segment.level) == pytest.approx(bound, rel=1e-9)
