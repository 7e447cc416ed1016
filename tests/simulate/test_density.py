"""The Euler–Maruyama likelihood against SciPy's normal laws."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.stats

import ndde_jax as ndde

DT = 0.1


def drift(t, x, lagged, args):
    return -args * lagged[0] + 0.1 * jnp.sin(t)


@pytest.fixture(scope="module")
def path():
    return ndde.solve_sdde(
        drift,
        delays=1.0,
        dt=DT,
        n_steps=400,
        history=np.ones(2),
        sigma=0.2,
        args=0.9,
        key=jr.key(0),
    )


def by_hand(x, tau, rate, covariance, first, t0=0.0):
    total, lag = 0.0, tau / DT
    for k in range(first, len(x) - 1):
        low = int(np.floor(lag + 1e-9))
        late = x[k - low] + (lag - low) * (x[k - low - 1] - x[k - low])
        mean = x[k] + DT * (-rate * late + 0.1 * np.sin(t0 + DT * k))
        total += scipy.stats.multivariate_normal.logpdf(x[k + 1], mean, DT * covariance)
    return total


MATRIX = np.array([[0.2, 0.0, 0.1], [0.05, 0.3, 0.0]])
SIGMAS = {
    "number": (0.2, 0.04 * np.eye(2)),
    "diagonal": (np.array([0.2, 0.3]), np.diag([0.04, 0.09])),
    "matrix": (MATRIX, MATRIX @ MATRIX.T),
    "function": (lambda t, x, lagged, args: 0.2, 0.04 * np.eye(2)),
}


@pytest.mark.parametrize("kind", SIGMAS)
def test_against_normal_laws(path, kind):
    sigma, covariance = SIGMAS[kind]
    given = dict(delays=1.03, args=0.7, delay_bounds=(0.5, 1.5))
    found = ndde.simulate.log_density(drift, path, DT, sigma, **given)
    expected = by_hand(np.asarray(path.ys), 1.03, 0.7, covariance, 15)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_derivatives_and_bounds(path):
    def density(rate, tau, sigma):
        given = dict(delays=tau, args=rate, delay_bounds=(0.5, 1.5))
        return ndde.simulate.log_density(drift, path.ys, DT, sigma, **given)

    both = jax.jit(jax.value_and_grad(density, argnums=(0, 1, 2)))

    def score(*given):
        return both(*given)[0]

    at = (0.8, 0.97, 0.25)
    slopes = both(*at)[1]
    for i, slope in enumerate(slopes):
        up, down = (score(*[v + (j == i) * h for j, v in enumerate(at)]) for h in (1e-6, -1e-6))
        np.testing.assert_allclose(slope, (up - down) / 2e-6, rtol=1e-6)
    assert jnp.isnan(score(0.8, 2.0, 0.2))
    # The truth is about as likely as the maximum; delays far from it are not.
    values = np.array([score(0.9, tau, 0.2) for tau in np.linspace(0.6, 1.4, 9)])
    assert values[4] > values.max() - 3 > max(values[0], values[-1])


@pytest.mark.slow
def test_of_models_and_systems(path):
    windows = ndde.lagged_windows(np.asarray(path.ys), dt=DT, lags=(0, 10))
    family = ndde.models.Polynomials()
    model = ndde.fit_drift(windows, "full", family, flow=None, key=jr.key(0))
    found = ndde.simulate.log_density(model, path, DT, 0.2)
    x = np.asarray(path.ys)
    mean = x[10:400] + DT * np.asarray(jax.vmap(model)(np.stack([x[10:400], x[:390]], axis=1)))
    expected = scipy.stats.norm.logpdf(x[11:], mean, 0.2 * np.sqrt(DT)).sum()
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    with pytest.raises(ValueError, match="dt must be that of the model's data"):
        ndde.simulate.log_density(model, path, DT / 2, 0.2)
    system = ndde.systems.get("mackey_glass")
    own = ndde.solve_sdde(system, n_steps=2000, key=jr.key(1))
    dense = lambda s: ndde.simulate.log_density(system, own, system.dt, s)  # noqa: E731
    assert dense(system.sigma) > max(dense(0.8 * system.sigma), dense(1.25 * system.sigma))


def test_what_is_called_by_itself_is_one_program(path):
    """The same program for other numbers; of a shape that no other test has compiled."""
    programs = []

    def heard(event, *args, **of):
        if event == "/jax/core/compile/backend_compile_duration":
            programs.append(of.get("fun_name"))

    part = path.ys[:37]
    jax.monitoring.register_event_duration_secs_listener(heard)
    try:
        values = [
            ndde.simulate.log_density(drift, part, DT, sigma, delays=1.03, args=rate)
            for sigma, rate in ((0.2, 0.9), (0.3, 0.8))
        ]
    finally:
        jax.monitoring.unregister_event_duration_listener(heard)
    assert len(programs) <= 4, programs
    for value, sigma, rate in zip(values, (0.2, 0.3), (0.9, 0.8), strict=True):
        expected = by_hand(np.asarray(part), 1.03, rate, sigma**2 * np.eye(2), 11)
        np.testing.assert_allclose(value, expected, rtol=1e-10)


def test_refusals(path):
    for given, message in [
        (dict(path=path.ys[:, 0]), r"states \[time dim\]"),
        (dict(path=path.ys[:8]), "it needs more"),
        (dict(sigma=np.ones(3)), "sigma must be"),
        (dict(sigma=0.0), "sigma must not be zero"),
    ]:
        with pytest.raises(ValueError, match=message):
            arguments = dict(path=path, sigma=0.2) | given
            ndde.simulate.log_density(drift, dt=DT, delays=1.0, args=0.9, **arguments)
