"""Lyapunov spectra against closed forms, a full Jacobian of the segment map and known values."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

import ndde_jax as ndde
from ndde_jax.simulate import _blocks
from ndde_jax.simulate._read import Given, read_problem
from ndde_jax.simulate._tableau import read_solver


def test_linear_system_without_delays():
    """Exponents of x' = Ax are the real parts of the eigenvalues."""
    matrix = jnp.array([[-0.1, 2.0, 0.0], [-2.0, -0.1, 0.3], [0.0, 0.0, -1.5]])
    spectrum = ndde.lyapunov_spectrum(
        lambda t, x, lagged, args: matrix @ x,
        dt=0.05,
        n_steps=20_000,
        history=jnp.ones(3),
        solver=diffrax.Tsit5(),
    )
    expected = np.sort(np.linalg.eigvals(matrix).real)[::-1]
    np.testing.assert_allclose(spectrum.exponents, expected, atol=2e-3)
    assert bool(jnp.all(spectrum.standard_error < 5e-3))


def test_a_map_that_contracts_strongly_in_single_precision():
    """The exponents of Hénon's map sum to the logarithm of its determinant, .3."""

    def henon(t, x, lagged, args):
        return jnp.stack([1 - 1.4 * x[0] ** 2 + x[1], 0.3 * x[0]]) - x

    start = jnp.full(2, 0.1, jnp.float32)
    euler = dict(dt=1.0, n_steps=20_000, history=start, solver=diffrax.Euler())
    spectrum = ndde.lyapunov_spectrum(henon, **euler)
    assert spectrum.exponents.dtype == jnp.float32
    np.testing.assert_allclose(spectrum.exponents.sum(), np.log(0.3), rtol=1e-4)
    # 0.419: Sprott, Chaos and Time-Series Analysis (2003).
    np.testing.assert_allclose(spectrum.exponents[0], 0.419, atol=0.01)
    np.testing.assert_allclose(ndde.kaplan_yorke_dimension(spectrum), 1.258, atol=0.01)


def test_a_direction_that_a_map_forgets_has_no_exponent():
    """Two logistic maps, one of which reads the other a step late: three of four numbers go on."""

    def coupled(t, x, lagged, args):
        mixed = 0.3 * lagged[0, 0] + 0.7 * x[1]
        return jnp.stack([3.8 * x[0] * (1 - x[0]), 3.7 * mixed * (1 - mixed)]) - x

    start = jnp.array([0.3, 0.41])
    euler = dict(dt=1.0, n_steps=5000, history=start, solver=diffrax.Euler(), k=3)
    spectrum = ndde.lyapunov_spectrum(coupled, delays=1.0, **euler)
    # 0.43: that of the logistic map at 3.8.
    np.testing.assert_allclose(spectrum.exponents[0], 0.43, atol=0.02)
    assert np.isfinite(spectrum.exponents[1]) and spectrum.exponents[2] == -np.inf


def test_linear_delay_equation():
    """Exponents of x' = a x + b x(t − 1) are the real parts of the roots of λ = a + b e^(−λ)."""
    a, b = -0.3, -1.2
    spectrum = ndde.lyapunov_spectrum(
        lambda t, x, lagged, args: a * x + b * lagged[0],
        lags=1.0,
        dt=1 / 64,
        n_steps=64 * 400,
        history=jnp.ones(1),
        k=4,
    )

    def equation(z):
        root = complex(*z)
        value = root - a - b * np.exp(-root)
        return [value.real, value.imag]

    roots = set()
    for imaginary in np.arange(0, 12, 0.5):
        found = scipy.optimize.root(equation, [-1.0, imaginary])
        if found.success and np.max(np.abs(equation(found.x))) < 1e-9:
            roots.add((round(found.x[0], 6), round(abs(found.x[1]), 6)))
    # Each complex root counts twice, with its conjugate.
    parts = sorted((real for real, imag in roots for _ in range(1 + (imag > 0))), reverse=True)
    np.testing.assert_allclose(spectrum.exponents, parts[:4], atol=4e-3)


def test_lorenz():
    system = ndde.systems.get("Lorenz")
    spectrum = ndde.lyapunov_spectrum(
        system.drift, dt=0.02, n_steps=30_000, history=system.history, solver=diffrax.Tsit5()
    )
    # Viswanath's value for the leading exponent; the sum is −(σ + 1 + β).
    assert abs(float(spectrum.exponents[0]) - 0.9056) < 3 * float(spectrum.standard_error[0])
    assert abs(float(spectrum.exponents[1])) < 0.01
    total = -(10 + 1 + 2.667)
    np.testing.assert_allclose(jnp.sum(spectrum.exponents), total, rtol=2e-3)
    dimension = ndde.kaplan_yorke_dimension(spectrum)
    np.testing.assert_allclose(dimension, 2.062, atol=0.003)


@pytest.mark.slow
def test_segment_tangents_against_the_full_jacobian():
    """Euler's segment map on grid values, its whole Jacobian and a QR at each block: the same
    exponents along the same path, as long as chaos does not amplify rounding errors.
    """
    n, dt, n_blocks, k = 17, 1.0, 100, 4
    system = ndde.systems.get("mackey_glass")
    rate = lambda x, late: 0.2 * late / (1 + late**10) - 0.1 * x  # noqa: E731

    def segment_map(z):
        def step(z, _):
            return jnp.append(z[1:], z[-1] + dt * rate(z[-1], z[0])), None

        return jax.lax.scan(step, z, None, length=n)[0]

    def block(state, _):
        z, frame = state
        frame, triangle = jnp.linalg.qr(jax.jacfwd(segment_map)(z) @ frame)
        return (segment_map(z), frame), jnp.log(jnp.abs(jnp.diagonal(triangle)))

    start = (1.2 * jnp.ones(n + 1), jnp.eye(n + 1)[:, :k])
    transient = 40
    _, growth = jax.lax.scan(block, start, length=transient + n_blocks)
    expected = growth[transient:].sum(axis=0) / (n_blocks * n * dt)
    found = ndde.lyapunov_spectrum(
        system.drift,
        lags=system.lags,
        dt=dt,
        n_steps=n * n_blocks,
        transient_steps=n * transient,
        history=1.2 * jnp.ones(1),
        k=k,
        solver=diffrax.Euler(),
    )
    # Leading directions are forgotten at different rates from different starts.
    np.testing.assert_allclose(found.exponents[:2], expected[:2], atol=3e-4)
    np.testing.assert_allclose(found.exponents, expected, atol=3e-3)


def test_tangents_are_derivatives():
    """One block of the map whose linearisation propagates the tangents, against a difference."""
    drift = lambda t, x, lagged, args: -x + jnp.tanh(3 * lagged[0])  # noqa: E731
    given = Given(drift, 0.5, 0.1, jnp.array([0.3, -0.2]), 0.0, "delays")
    tableau = read_solver(diffrax.Bosh3())
    problem = read_problem(given, None, 0.0, None, tableau)
    carry = _blocks.start(problem, tableau)
    go = jax.jit(lambda carry: _blocks.block(problem, tableau, carry, 0, None, 5, 99)[0])
    wave = lambda leaf: np.sin(1.0 + np.arange(leaf.size)).reshape(leaf.shape)  # noqa: E731
    direction = jax.tree.map(lambda leaf: jnp.asarray(wave(leaf), leaf.dtype), carry)
    _, tangent = jax.jit(lambda *given: jax.jvp(go, *given))((carry,), (direction,))
    moved = lambda h: jax.tree.map(  # noqa: E731
        lambda x, d: jnp.asarray(np.asarray(x) + h * np.asarray(d)), carry, direction
    )
    move = lambda h: go(moved(h))  # noqa: E731
    for up, down, exact in zip(
        *map(jax.tree.leaves, (move(1e-6), move(-1e-6), tangent)), strict=True
    ):
        difference = (np.asarray(up) - np.asarray(down)) / 2e-6
        np.testing.assert_allclose(difference, exact, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, exponent, error, dimension",
    [
        # jitcdde_lyap 1.8.3, T = 50 000, twenty block means.
        ("mackey_glass", 0.00507, 0.0002, 2.1315),
        ("mackey_glass_23", 0.0093, 0.0003, 2.765),
        ("mackey_glass_30", 0.0071, 0.0003, 3.559),
    ],
)
def test_mackey_glass(name, exponent, error, dimension):
    system = ndde.systems.get(name)
    spectrum = ndde.lyapunov_spectrum(
        system.drift, lags=system.lags, dt=0.5, n_steps=100_000, history=system.history, k=6
    )
    spread = np.hypot(error, float(spectrum.standard_error[0]))
    assert abs(float(spectrum.exponents[0]) - exponent) < 2 * spread
    assert abs(float(ndde.kaplan_yorke_dimension(spectrum)) - dimension) < 0.08


@pytest.mark.slow
def test_many_systems_at_once():
    """Under vmap over parameters and starts; a path that escapes does not affect its neighbours."""

    def one(rho, start):
        def rate(t, x, lagged, args):
            return jnp.stack(
                [10 * (x[1] - x[0]), x[0] * (rho - x[2]) - x[1], x[0] * x[1] - 8 / 3 * x[2]]
            )

        return ndde.lyapunov_spectrum(rate, dt=0.01, n_steps=2000, history=start)

    rho = jnp.array([28.0, 0.5, 28.0])
    starts = jnp.stack([jnp.ones(3), jnp.ones(3), jnp.full(3, 1e4)])
    together = jax.vmap(one)(rho, starts)
    # Below the pitchfork the origin attracts: −1, −8/3 and so on by the eigenvalues there.
    matrix = np.array([[-10, 10, 0], [0.5, -1, 0], [0, 0, -8 / 3]])
    eigenvalues = np.sort(np.linalg.eigvals(matrix).real)[::-1]
    np.testing.assert_allclose(together.exponents[1], eigenvalues, atol=0.01)
    np.testing.assert_allclose(together.exponents[0], one(rho[0], starts[0]).exponents, rtol=1e-6)
    assert bool(jnp.all(jnp.isnan(together.exponents[2])))


@pytest.mark.parametrize(
    "exponents, dimension",
    [
        ([0.906, 0.0, -14.57], 2 + 0.906 / 14.57),
        ([-14.57, 0.906, 0.0], 2 + 0.906 / 14.57),
        ([-0.1, -1.0], 0.0),
        ([0.0, -1.0], 1.0),
        ([0.5, 0.1], 2.0),
        ([0.5, -0.2, -0.3, -4.0], 3.0),
        ([np.nan, -1.0], np.nan),
    ],
)
def test_kaplan_yorke(exponents, dimension):
    np.testing.assert_allclose(ndde.kaplan_yorke_dimension(exponents), dimension, atol=1e-12)
    batch = ndde.kaplan_yorke_dimension(jnp.array([exponents, exponents]))
    np.testing.assert_allclose(batch, [dimension, dimension], atol=1e-12)


def test_refusals():
    good = dict(lags=1.0, dt=0.1, n_steps=1000, history=jnp.ones(1))
    rate = lambda t, x, lagged, args: -lagged[0]  # noqa: E731
    for change, message in [
        (dict(k=0), "k must be between 1 and 11"),
        (dict(k=12), "k must be between 1 and 11"),
        (dict(n_steps=150), "at least 20 blocks"),
        (dict(lags=0.01), "below the step"),
        (dict(history=lambda t: jnp.ones((3, 1))), "one system"),
    ]:
        with pytest.raises(ValueError, match=message):
            ndde.lyapunov_spectrum(rate, **{**good, **change})
    with pytest.raises(ValueError, match="at least one exponent"):
        ndde.kaplan_yorke_dimension(0.1)


def test_the_spectrum_of_a_system():
    system = ndde.systems.get("Lorenz")
    options = dict(n_steps=400, transient_steps=0)
    whole = ndde.lyapunov_spectrum(system, **options)
    parts = ndde.lyapunov_spectrum(system.drift, dt=system.dt, history=system.history, **options)
    np.testing.assert_array_equal(whole.exponents, parts.exponents)
