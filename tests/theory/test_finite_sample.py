"""The bound on uneven grids, its radius and its gap, against sums, quadrature and simulation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax import theory

CONSTANTS = dict(
    confidence=0.9, spread=1.5, envelope=2.0, tail=0.001, covering=30.0, resolution=1e-3,
    noise_norm=0.2, noise_trace=0.5, mixing_prefactor=3.0, mixing_rate=0.7,
)  # fmt: skip


def terms(steps, **changes):
    given = CONSTANTS | (changes if "holder" in changes else {"modulus": 0.02} | changes)
    return theory.finite_sample_terms(steps, **given)


def test_the_terms_of_an_uneven_grid_are_sums_over_it():
    steps = np.random.default_rng(0).uniform(0.01, 0.5, 3000)
    found, eta = terms(steps), 0.1 / 6
    assert float(found.discretisation) == pytest.approx(2 * 1.5 * 0.02 * steps.sum() / eta)
    net = 2e-3 * 0.5 / eta * np.sqrt(steps).sum()
    assert float(found.brownian_net) == pytest.approx(net, rel=1e-9)
    # The same duration on an even grid of the mean step: roots are concave, so that is larger.
    even = terms(np.full(3000, steps.mean()))
    assert float(even.brownian_net) > float(found.brownian_net)
    assert float(even.average) < float(found.average)  # the largest step counts there


def test_a_modulus_of_root_h_is_integrated_over_every_step():
    """2 m_E / η Σ ∫₀^Δ C √u du, by quadrature."""
    steps = np.random.default_rng(1).uniform(0.01, 0.9, 50)
    grid = np.linspace(0, 1, 200_001)
    inner = sum(np.trapezoid(0.3 * np.sqrt(grid * d), grid * d) for d in steps)
    found = terms(steps, holder=0.3)
    assert float(found.discretisation) == pytest.approx(2 * 1.5 / (0.1 / 6) * inner, rel=1e-4)
    # Never more than with the largest step throughout.
    coarse = terms(steps, modulus=0.3 * np.sqrt(steps.max()))
    assert float(found.discretisation) < 2 / 3 * float(coarse.discretisation) + 1e-9


def test_the_gap_is_added_and_decides():
    steps = np.full(100, 0.1)
    exact, loose = terms(steps), terms(steps, gap=7.0)
    assert float(exact.total) == float(exact.error) and float(exact.duration) == pytest.approx(10)
    assert float(loose.total) == pytest.approx(float(exact.total) + 7)
    assert float(loose.drift_error) == pytest.approx(float(loose.total) / 10)
    margin = float(exact.total) + 3
    assert bool(exact.recovers(margin)) and not bool(loose.recovers(margin))


def test_refusals():
    for bad, words in (
        (dict(steps=[0.1, 1.5]), "steps must be at most 1"),
        (dict(steps=[0.1, 0.0]), "steps must be positive"),
        (dict(steps=0.1), r"steps must be lengths \[step\]"),
    ):
        with pytest.raises(ValueError, match=words):
            terms(bad["steps"])
    with pytest.raises(ValueError, match="give either modulus or holder"):
        theory.finite_sample_terms([0.1], **CONSTANTS)
    with pytest.raises(ValueError, match="give either modulus or holder"):
        theory.finite_sample_terms([0.1], modulus=0.1, holder=0.1, **CONSTANTS)


def test_terms_under_transforms():
    steps = jnp.full(40, 0.1)
    total = lambda s: theory.finite_sample_terms(s, holder=0.1, **CONSTANTS).total  # noqa: E731
    batch = jnp.stack([steps, 0.5 * steps])
    np.testing.assert_allclose(jax.vmap(total)(batch), [total(s) for s in batch], rtol=1e-9)
    assert float(jax.grad(lambda g: theory.finite_sample_terms(
        steps, holder=0.1, gap=g, **CONSTANTS).total)(1.0)) == 1  # fmt: skip


@pytest.mark.parametrize("order", [1, 3])
def test_the_radius_is_hardly_ever_left(order):
    """Stationary Ornstein–Uhlenbeck paths over T = 20 with their measured S_p: at most δ/6 of them
    leave the ball.
    """
    rng, n, dt, duration = np.random.default_rng(0), 4000, 0.02, 20
    x = rng.normal(size=n) * 0.5**0.5
    peaks = np.zeros((duration, n))
    for unit in range(duration):
        for _ in range(round(1 / dt)):
            peaks[unit] = np.maximum(peaks[unit], np.abs(x))
            x = x - dt * x + np.sqrt(dt) * rng.normal(size=n)
    moment = np.mean(peaks[0] ** (2 * order))
    radius = float(theory.truncation_radius(float(duration), moment, confidence=0.4, order=order))
    left = np.mean(peaks.max(axis=0) > radius)
    assert left <= 0.1
    assert radius == pytest.approx((duration * moment / 0.1) ** (1 / (2 * order)), rel=1e-6)
    with_delays = theory.truncation_radius(
        float(duration), moment, confidence=0.4, order=order, n_delays=3
    )
    assert float(with_delays) == pytest.approx(2 * radius)  # √(q + 1)


def test_mixing_of_an_ornstein_uhlenbeck_process():
    """β(t) = ∫ TV(P_t(x, ·), π) π(dx) of the process, by quadrature, obeys its bound with the C of
    its kernels, and decays with their rate.
    """
    from scipy import stats

    spread, x = 0.5**0.5, np.linspace(-4, 4, 41)
    y = np.linspace(-5, 5, 4001)
    law, weight = stats.norm.pdf(y, 0, spread), stats.norm.pdf(x, 0, spread)

    def distances(t):
        narrow = spread * np.sqrt(-np.expm1(-2 * t))
        kernels = stats.norm.pdf(y[None], x[:, None] * np.exp(-t), narrow)
        return np.trapezoid(np.abs(kernels - law[None]), y, axis=1) / 2

    times = np.array([0.3, 1.0, 2.0, 4.0])
    prefactor = max(np.max(distances(t) * np.exp(t) / (1 + x**2)) for t in times)
    beta = np.array([np.trapezoid(distances(t) * weight, x) for t in times])
    bound = np.asarray(theory.mixing_bound(times, prefactor=prefactor, rate=1.0, second_moment=0.5))
    assert (beta <= bound).all() and (beta > 0.2 * bound).all()
    assert float(theory.mixing_bound(0.0, prefactor=5.0, rate=1.0)) == 1


def test_the_modulus_of_a_linear_drift():
    """θ² E (X_h − X_0)² = 2 θ² var (1 − exp(−θh)) of a stationary process."""
    rng, dt, theta = np.random.default_rng(0), 0.1, 1.5
    decay = np.exp(-theta * dt)
    x = np.zeros(20_001)
    for k in range(20_000):
        x[k + 1] = decay * x[k] + np.sqrt((1 - decay**2) / (2 * theta)) * rng.normal()
    windows = ndde.lagged_windows(x[:, None], dt=dt)

    class Pull:
        lags = (0,)

        def __call__(self, history):
            return -theta * history[0]

    expected = np.sqrt(2 * theta**2 / (2 * theta) * (1 - decay))
    assert float(theory.drift_modulus(Pull(), windows)) == pytest.approx(expected, rel=0.02)
    uneven = ndde.lagged_windows(x[:50, None], t=np.arange(50.0) ** 1.1)
    with pytest.raises(ValueError, match="equally spaced"):
        theory.drift_modulus(Pull(), uneven)


def test_the_whole_bound_as_the_paper_writes_it():
    """Its equation for ε_n, in NumPy, on an uneven grid; and the radius with a hypothetical S_p."""
    steps = np.random.default_rng(4).uniform(0.02, 0.6, 700)
    modulus, c = 0.07, CONSTANTS
    total, largest, eta = steps.sum(), steps.max(), (1 - c["confidence"]) / 6
    pieces = max(1, np.ceil(total))
    block = max(1, np.log(c["mixing_prefactor"] * pieces / eta) / c["mixing_rate"])
    complexity = np.log(4 * np.exp(c["covering"]) / eta)
    epsilon, envelope = c["resolution"], c["envelope"]
    whole = (
        2 * c["spread"] * total / eta * modulus
        + 2 * c["noise_norm"] * envelope * np.sqrt(2 * total * complexity)
        + 2 * epsilon * c["noise_trace"] / eta * np.sum(np.sqrt(steps))
        + envelope**2 * np.sqrt(2 * total * (block + largest) * complexity)
        + 4 * envelope * epsilon * total
        + c["tail"] * total
    )
    found = terms(steps, modulus=modulus, gap=2.5)
    assert float(found.error) == pytest.approx(whole, rel=1e-9)
    assert float(found.drift_error) == pytest.approx((whole + 2.5) / total, rel=1e-9)
    radius = theory.truncation_radius(total, 40.0, confidence=c["confidence"], n_delays=2, order=3)
    assert float(radius) == pytest.approx((pieces * 3**3 * 40.0 / eta) ** (1 / 6), rel=1e-9)
