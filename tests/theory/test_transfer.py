"""Transfer and invariant laws, against closed forms of Ornstein–Uhlenbeck processes."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats
from scipy.linalg import solve_discrete_lyapunov

import ndde_jax as ndde
from ndde_jax import theory


class Pull(eqx.Module):
    """The drift −rate x."""

    rate: jax.Array

    def __call__(self, t, x, lagged, args):
        """A linear drift."""
        return -self.rate * x


class DelayedPull(eqx.Module):
    """The drift −a x + b x(t − τ)."""

    feedback: jax.Array

    def __call__(self, t, x, lagged, args):
        """A linear drift with delay."""
        return -2.0 * x + self.feedback * lagged[0]


def test_constants_handed_on_hold_for_every_drift_that_is_near():
    rng = np.random.default_rng(0)
    present, delayed, error = np.array([[-2.0, 0.5], [0.0, -3.0]]), 0.4 * np.eye(2), 0.8
    known = theory.linear_dissipativity(present, delayed[None], delays=[1.0])
    handed = theory.transferred(known, error)
    assert bool(handed.holds) and handed.kind == "certified"
    z = rng.normal(size=(4000, 2, 2)) * np.exp(rng.normal(size=(4000, 1, 1)))

    def worst(t, x, lagged, args):
        """A drift whose error points outwards."""
        free = present @ x + delayed @ lagged[0]
        return free + error * x / jnp.linalg.norm(x)

    assert float(jnp.max(handed.excess(worst, z))) <= 1e-9
    assert float(jnp.max(known.excess(worst, z))) > 0
    # The size of the error decides how far, not whether.
    assert bool(theory.transferred(known, 1e6).holds)


def test_constants_inside_a_ball_are_handed_on():
    """Both lines of the assumption, for a drift that meets them with equality."""
    known = theory.Dissipativity(center=[0.0], beta0=2.0, alpha=0.3, radius=1.0, inside=0.5)
    slack, error = 1.2, 0.7
    handed = theory.transferred(known, error, slack=slack)
    u = np.linspace(-4, 4, 2001)
    out, inner = np.abs(u) >= 1, np.abs(u) <= 1
    outside = 0.3 - 2 * u**2 + error * np.abs(u)
    assert (outside <= float(handed.alpha) - float(handed.beta0) * u**2 + 1e-12)[out].all()
    assert ((0.5 + error * np.abs(u)) <= float(handed.inside) + 1e-12)[inner].all()
    with pytest.raises(ValueError, match=r"slack must lie below 2\(β_0 − B\) = 4"):
        theory.transferred(known, error, slack=4.5)


@pytest.mark.parametrize("prefactor", [0.1, 2.0])
@pytest.mark.parametrize("error", [1e-4, 0.05, 0.4, 3.0])
def test_the_time_that_makes_the_bound_smallest(error, prefactor):
    rate, second = 0.7, 1.5
    at = lambda t: error * np.sqrt(t) / 2 + prefactor * (1 + second) * np.exp(-rate * t)  # noqa: E731
    grid = np.append(0, np.exp(np.linspace(-8, 5, 4001)))
    best = min(1.0, at(grid).min())
    given = dict(prefactor=prefactor, rate=rate, second_moment=second)
    assert float(theory.invariant_law_bound(error, **given)) == pytest.approx(best, rel=1e-4)
    fixed = float(theory.invariant_law_bound(error, time=3.0, **given))
    assert fixed == pytest.approx(min(1.0, at(3.0)), rel=1e-9)


def test_the_bound_under_transforms():
    given = dict(prefactor=2.0, rate=0.7, second_moment=1.5)
    bound = lambda e: theory.invariant_law_bound(e, **given)  # noqa: E731
    errors = jnp.array([0.01, 0.05, 0.1])
    np.testing.assert_allclose(jax.vmap(bound)(errors), bound(errors), rtol=1e-9)
    slope = (float(bound(0.05 + 1e-6)) - float(bound(0.05 - 1e-6))) / 2e-6
    assert float(jax.grad(bound)(0.05)) == pytest.approx(slope, rel=1e-4)


def normal_distance(one, other):
    """Total variation of two centred normal laws, by quadrature."""
    apart = lambda x: abs(stats.norm.pdf(x, 0, one) - stats.norm.pdf(x, 0, other)) / 2  # noqa: E731
    edge = 12 * max(one, other)
    return integrate.quad(apart, -edge, edge, limit=500)[0]


def geometric_constants(theta, sigma, rate):
    """The least C with TV(P_t(x, ·), π) ≤ C exp(−rate t)(1 + x²), on a grid of t and x."""
    spread = sigma / np.sqrt(2 * theta)
    edges = np.linspace(-9, 9, 6001) * spread
    law = stats.norm.pdf(edges, 0, spread)
    largest = 0.0
    for t in np.linspace(0.02, 8, 40):
        narrow = spread * np.sqrt(-np.expm1(-2 * theta * t))
        for x in np.linspace(0, 6 * spread, 13):
            kernel = stats.norm.pdf(edges, x * np.exp(-theta * t), narrow)
            tv = np.trapezoid(np.abs(kernel - law), edges) / 2
            largest = max(largest, tv * np.exp(rate * t) / (1 + x**2))
    return largest


@pytest.fixture(scope="module")
def curve():
    family = [Pull(jnp.asarray(1 + share)) for share in (0.02, 0.2, 1.0)]
    return theory.transfer_curve(
        Pull(jnp.asarray(1.0)), family, sigma=0.8, history=np.zeros(1), dt=0.02, n_steps=150_000,
        key=jax.random.key(0),
    )  # fmt: skip


def test_measured_errors_and_distances_are_those_of_two_normal_laws(curve):
    """e² = ε² E X² / σ² = ε² / 2θ, and the laws are normal with variances σ² / 2θ(1 + ε)."""
    shares = np.array([0.02, 0.2, 1.0])
    # Euler's step of .02 makes stationary variances a hundredth larger.
    np.testing.assert_allclose(curve.error, shares / np.sqrt(2), rtol=0.05)
    exact = [normal_distance(1.0, 1 / np.sqrt(1 + share)) for share in shares]
    chance = float(curve.chance)
    assert chance < 0.06
    # A histogram shows no more than exists, and chance adds to it.
    for found, truth in zip(np.asarray(curve.distance), exact, strict=True):
        assert truth - 0.03 <= found <= truth + chance + 0.02
    assert (np.asarray(curve.largest) > 0.8 * np.asarray(curve.error)).all()
    assert float(curve.second_moment) == pytest.approx(0.32, rel=0.06)


def test_the_bound_holds_where_its_constants_are_known(curve):
    for share, error, found in zip((0.02, 0.2, 1.0), curve.error, curve.distance, strict=True):
        theta = 1 + share
        prefactor = geometric_constants(theta, 0.8, rate=theta)
        bound = float(
            theory.invariant_law_bound(
                error, prefactor=prefactor, rate=theta, second_moment=curve.second_moment
            )
        )
        assert normal_distance(1.0, 1 / np.sqrt(theta)) <= bound
        assert float(found) <= bound + float(curve.chance)
    # And the bound is not trivial for the smallest error.
    assert (
        float(
            theory.invariant_law_bound(
                curve.error[0], prefactor=geometric_constants(1.02, 0.8, 1.02), rate=1.02,
                second_moment=curve.second_moment,
            )
        )
        < 0.1
    )  # fmt: skip


def test_a_family_with_delays():
    curve = theory.transfer_curve(
        DelayedPull(jnp.asarray(0.5)), [DelayedPull(jnp.asarray(b)) for b in (0.5, -1.5)],
        sigma=[0.6], history=np.zeros(1), dt=0.05, delays=[1.0], n_steps=30_000, skip=1000,
        key=jax.random.key(1),
    )  # fmt: skip
    assert float(curve.error[0]) == 0 and float(curve.distance[0]) < 2 * float(curve.chance) + 0.03
    # The lagged state is what the drifts differ in: e² = 4 var / σ², var of the discrete chain.
    chain = np.eye(21, k=-1)
    chain[0, 0], chain[0, 20] = 1 - 0.05 * 2, 0.05 * 0.5
    noise = np.zeros((21, 21))
    noise[0, 0] = 0.05 * 0.36
    variance = solve_discrete_lyapunov(chain, noise)[0, 0]
    assert float(curve.error[1]) == pytest.approx(2 * np.sqrt(variance) / 0.6, rel=0.06)
    assert float(curve.second_moment) > 0.12  # a supremum over a segment, not a variance


@pytest.mark.slow
def test_learned_models_come_nearer_with_data():
    """Networks with one candidate lag more than the truth, fitted to few and to many data."""
    rng, dt, x = np.random.default_rng(0), 0.05, np.zeros(8001)
    for k in range(20, 8000):
        x[k + 1] = x[k] + dt * (0.5 * x[k - 20] - 2 * x[k]) + 0.6 * np.sqrt(dt) * rng.normal()
    config = ndde.fitting.StrengthConfig(restarts=1, steps=20, width=3, depth=1)
    models = []
    for n in (300, 8000):
        windows = ndde.lagged_windows(x[:n, None], dt=dt, lags=(0, 10, 20))
        fitted = ndde.fitting.fit_graph(windows, "full", key=jax.random.key(0), config=config)
        models.append(ndde.confine(fitted, radius=5.0))
    curve = theory.transfer_curve(
        DelayedPull(jnp.asarray(0.5)), models, sigma=0.6, history=np.zeros(1), dt=dt,
        delays=[1.0], n_steps=40_000, key=jax.random.key(0),
    )  # fmt: skip
    assert float(curve.error[1]) < 0.5 * float(curve.error[0])
    assert float(curve.distance[1]) < float(curve.distance[0]) + float(curve.chance)
    assert float(curve.distance[1]) < 3 * float(curve.chance) + 0.03


def test_what_diverges_is_told_and_what_cannot_be_compared_refused():
    curve = theory.transfer_curve(
        Pull(jnp.asarray(1.0)), [Pull(jnp.asarray(-40.0))], sigma=1.0, history=np.ones(1), dt=0.5,
        n_steps=2000, key=jax.random.key(0),
    )  # fmt: skip
    assert np.isnan(float(curve.distance[0])) and np.isfinite(float(curve.error[0]))
    with pytest.raises(ValueError, match="sigma must be invertible"):
        theory.transfer_curve(
            Pull(jnp.asarray(1.0)), [Pull(jnp.asarray(2.0))], sigma=[1.0, 0.0],
            history=np.ones(2), dt=0.1, n_steps=100, key=jax.random.key(0),
        )  # fmt: skip
    with pytest.raises(ValueError, match="dt is missing"):
        theory.transfer_curve(
            Pull(jnp.asarray(1.0)), [Pull(jnp.asarray(2.0))], sigma=1.0, history=np.ones(1),
            n_steps=100, key=jax.random.key(0),
        )  # fmt: skip
