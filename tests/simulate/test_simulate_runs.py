"""The SDDE simulator as a tool: batches of delays, statuses, compilation, progress, refusals."""

import functools

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax import solve_sdde
from ndde_jax.simulate import PathStatus


def langevin(t, x, lagged, args):
    return -x + 0.5 * lagged[0]


def cosine(t):
    return jnp.cos(t)[None]


def test_delays_as_a_batch():
    lags = jnp.array([[0.3], [0.45], [0.9]])

    def solve(lag, bounds):
        return solve_sdde(
            langevin,
            lags=lag,
            dt=0.05,
            n_steps=100,
            history=cosine,
            solver=diffrax.Heun(),
            lag_bounds=bounds,
        ).ys

    together = jax.vmap(lambda lag: solve(lag, (0.3, 0.9)))(lags)
    for i in range(3):
        np.testing.assert_allclose(together[i], solve(lags[i], None), rtol=1e-12, atol=1e-13)
    with pytest.raises(ValueError, match="pass lag_bounds"):
        jax.vmap(lambda lag: solve(lag, None))(lags)
    given = dict(dt=0.05, n_steps=5, history=cosine, delays=0.45)
    old = solve_sdde(langevin, **given, lag_bounds=(0.3, 0.9))
    new = solve_sdde(langevin, **given, delay_bounds=(0.3, 0.9))
    np.testing.assert_array_equal(old.ys, new.ys)
    with pytest.raises(ValueError, match="got both"):
        solve_sdde(langevin, **given, lag_bounds=(0.3, 0.9), delay_bounds=(0.3, 0.9))


def test_divergence_is_a_status_of_its_own_path():
    def cube(t, x, lagged, args):
        return x**3 + 0 * lagged[0]

    def solve(start):
        return solve_sdde(
            cube,
            lags=0.1,
            dt=0.1,
            n_steps=60,
            history=start[None],
        )

    paths = eqx.filter_vmap(solve)(jnp.array([0.1, 3.0, 0.2]))
    finite = jnp.all(jnp.isfinite(paths.ys), axis=(1, 2))
    np.testing.assert_array_equal(finite, [True, False, True])
    assert solve(jnp.array(0.1)).status == PathStatus.successful
    assert solve(jnp.array(3.0)).status == PathStatus.diverged
    np.testing.assert_allclose(paths.ys[2], solve(jnp.array(0.2)).ys)


def test_one_compilation_per_shape():
    traces = 0

    def drift(t, x, lagged, args):
        nonlocal traces
        traces += 1
        return -args * lagged[0]

    def solve(args, start, key):
        history = jnp.full(1, start)
        return solve_sdde(
            drift, lags=0.5, dt=0.1, n_steps=20, history=history, sigma=0.1, key=key, args=args
        )

    solve(jnp.array(1.0), 0.1, jr.key(0))
    once = traces
    solve(jnp.array(2.0), 0.3, jr.key(1))
    assert traces == once > 0


@pytest.fixture
def compilations():
    """The simulator's programs that are compiled in a test, one entry each."""
    found = []

    def listen(event, seconds, **of):
        if event.endswith("backend_compile_duration") and "simulate" in of.get("fun_name", ""):
            found.append(of["fun_name"])

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield found
    jax.monitoring.unregister_event_duration_listener(listen)


def test_lengths_and_delays_make_few_programs(compilations):
    """The states are those of a plain loop."""

    drift = lambda t, x, lagged, args: -x + 0.5 * lagged[0]  # noqa: E731

    def solve(n_steps, delay, bounds=None):
        given = dict(history=jnp.ones(1), dt=0.1, delay_bounds=bounds)
        return solve_sdde(drift, delays=delay, n_steps=n_steps, **given)

    lengths = range(101, 120)
    paths = [solve(n, 1.0) for n in lengths]
    assert len(compilations) == 1
    for n, path in zip(lengths, paths, strict=True):
        assert path.ys.shape == (n + 1, 1) and path.ts.shape == (n + 1,)
        np.testing.assert_array_equal(path.ys, paths[-1].ys[: n + 1])
    compilations.clear()
    delays = np.arange(12, 32)
    paths = [solve(100, 0.1 * k) for k in delays]
    assert len(compilations) == 3  # 12 to 15, 16 to 23, 24 to 31
    for k, path in zip(delays, paths, strict=True):
        x = np.ones(100 + k + 1)
        for i in range(k, 100 + k):
            x[i + 1] = x[i] + 0.1 * (-x[i] + 0.5 * x[i - k])
        np.testing.assert_allclose(path.ys[:, 0], x[k:], rtol=1e-12)
    compilations.clear()
    for k in delays:
        solve(100, 0.1 * k, (1.0, 4.0))
    assert len(compilations) == 1


@pytest.mark.parametrize(
    "solver", [diffrax.Euler(), pytest.param(diffrax.Bosh3(), marks=pytest.mark.slow)]
)
def test_derivatives_by_what_a_drift_closes_over(solver):
    """They pass through a run with room to spare, in which the state is constant."""

    def loss(rate):
        drift = lambda t, x, lagged, args: rate * x**2 - lagged[0]  # noqa: E731
        given = dict(delays=1.0, dt=0.1, history=jnp.ones(1), solver=solver)
        return jnp.sum(solve_sdde(drift, n_steps=1055, save_every=5, **given).ys[:9] ** 2)

    assert loss(0.7) != loss(0.8)
    slope, both = jax.grad(loss)(0.7), jax.jit(jax.value_and_grad(loss))
    difference = (both(0.7 + 1e-5)[0] - both(0.7 - 1e-5)[0]) / 2e-5
    np.testing.assert_allclose(slope, difference, rtol=1e-6)
    np.testing.assert_allclose(slope, both(0.7)[1], rtol=1e-10)


@pytest.mark.parametrize("solver, limit", [(diffrax.Heun(), 1e-4), (diffrax.Bosh3(), 1e-5)])
def test_lengths_where_steps_are_divided(compilations, solver, limit):
    """x' = −x(t − 1) from 1, with kinks between the steps: polynomials of unit intervals."""

    decay = lambda t, x, lagged, args: -lagged[0]  # noqa: E731

    def solve(n_steps, delay):
        given = dict(history=jnp.ones(1), dt=0.03)
        return solve_sdde(decay, delays=delay, n_steps=n_steps, solver=solver, **given)

    paths = {n: solve(n, 1.0) for n in (62, 71, 80)}
    assert len(compilations) == 1
    for n, path in paths.items():
        t = 0.03 * np.arange(n + 1)
        right = 1 - t + np.where(t > 1, (t - 1) ** 2 / 2, 0) - np.where(t > 2, (t - 2) ** 3 / 6, 0)
        np.testing.assert_allclose(path.ys[:, 0], right, atol=limit)
        assert path.status == PathStatus.successful


def test_histories_of_any_length_are_few_programs(compilations):
    """Samples before the delay and its interpolation are not used."""
    past = np.cos(np.arange(-80, 1) * 0.1)[:, None]

    def solve(samples):
        given = dict(delays=1.04, dt=0.1, n_steps=30, solver=diffrax.Heun())
        return solve_sdde(langevin, history=past[-samples:], **given).ys

    paths = [solve(samples) for samples in (81, 70, 61, 40, 25)]
    assert len(compilations) == 1
    for path in paths[1:]:
        np.testing.assert_array_equal(path, paths[0])


def test_a_history_is_not_read_further_back_than_the_delay():
    """It has no values there, and derivatives of unused values would be NaN."""

    def last(scale):
        past = lambda t: jnp.sqrt(1.3 + 1e-9 + t)[None] * scale  # noqa: E731
        given = dict(dt=0.1, n_steps=30, solver=diffrax.Heun())
        return solve_sdde(langevin, delays=1.1, delay_bounds=(1, 4), history=past, **given).ys[
            -1, 0
        ]

    value, slope = jax.value_and_grad(last)(2.0)
    np.testing.assert_allclose(slope, value / 2, rtol=1e-12)


def test_delays_within_bounds_are_one_program():
    """Also where a solver tracks kinks at sums of delays."""
    traces = 0

    def drift(t, x, lagged, args):
        nonlocal traces
        traces += 1
        return -lagged[0]

    def solve(delay):
        given = dict(dt=0.1, n_steps=30, history=jnp.ones(1), solver=diffrax.Bosh3())
        return solve_sdde(drift, delays=delay, delay_bounds=(0.2, 2.0), **given).ys[-1, 0]

    found = [solve(0.2)]
    once = traces
    found += [solve(delay) for delay in np.linspace(0.2, 2.0, 20)[1:]]
    assert traces == once > 0
    assert len(set(map(float, found))) == 20


def test_single_precision():
    """Time is counted in whole steps, so that long runs stay on their grid."""
    n, dt = 200_000, np.float32(0.01)
    path = solve_sdde(
        lambda t, x, lagged, args: jnp.cos(t)[None] + 0 * lagged[0],
        lags=np.float32(0.3),
        dt=dt,
        n_steps=n,
        history=jnp.zeros(1, jnp.float32),
        save_every=1000,
    )
    assert path.ys.dtype == path.ts.dtype == jnp.float32
    np.testing.assert_allclose(path.ts, 0.01 * 1000 * np.arange(201), rtol=1e-6)
    # Euler's error plus that of cos near t = 2000 in single precision.
    np.testing.assert_allclose(path.ys[:, 0], np.sin(path.ts), atol=0.03)


def test_progress_and_interrupt(monkeypatch):
    common = dict(lags=1.0, dt=0.01, history=jnp.ones(1), sigma=0.1, key=jr.key(8), save_every=7)
    quiet = solve_sdde(langevin, n_steps=5000, **common)
    shown = solve_sdde(langevin, n_steps=5000, progress=True, **common)
    np.testing.assert_array_equal(quiet.ys, shown.ys)

    import tqdm.auto

    class Impatient(tqdm.auto.tqdm):
        def update(self, n=1):
            super().update(n)
            if self.n > 2000:
                raise KeyboardInterrupt

    monkeypatch.setattr(tqdm.auto, "tqdm", Impatient)
    stopped = solve_sdde(langevin, n_steps=5000, progress=True, **common)
    assert stopped.status == PathStatus.interrupted
    n = len(stopped.ys)
    assert 2000 / 7 < n < 4000 / 7
    np.testing.assert_array_equal(stopped.ys, quiet.ys[:n])


GOOD = dict(lags=1.0, dt=0.1, n_steps=10, history=jnp.zeros(2), sigma=0.0)


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(lags=0.05), "below the step"),
        (dict(lags=-1.0), "positive and finite"),
        (dict(lags=np.nan), "positive and finite"),
        (dict(lags=[[1.0]]), "one number per delay"),
        (dict(dt=None), "dt is missing"),
        (dict(dt=-0.1), "positive number"),
        (dict(n_steps=0), "n_steps must be"),
        (dict(n_steps=2.5), "n_steps must be"),
        (dict(save_every=11), "no state is saved"),
        (dict(history=jnp.zeros((5, 2))), "needs 11"),
        (dict(history=jnp.array([0.0, jnp.nan])), "must be finite"),
        (dict(history=1.0), "state"),
        (dict(history=lambda t: t), "must return the state"),
        (dict(sigma=0.1), "pass key="),
        (dict(sigma=jnp.ones(3)), "sigma must be"),
        (dict(sigma=jnp.ones((3, 2))), "sigma must be"),
        (dict(sigma=np.inf), "must be finite"),
        (
            dict(sigma=lambda *a: jnp.ones((5, 5)), key=jr.key(0)),
            r"sigma\(t.* must be a number",
        ),
        (dict(sigma=jnp.eye(2), diagonal=True), "a number or diagonals"),
        (dict(sigma=lambda *a: 1.0, solver=diffrax.Heun()), "Itô"),
        (dict(sigma=0.1, increments=jnp.zeros((10, 3))), "increments must"),
        (dict(sigma=0.1, increments=jnp.zeros((9, 2))), "increments must"),
        (dict(sigma=0.1, key=jr.split(jr.key(0), 3)), "one key or one per member"),
        (dict(sigma=0.1, key=0), "jax.random.key"),
        (dict(drift=lambda t, x, lagged, args: x[0]), "shape of the state"),
        (dict(solver=diffrax.ImplicitEuler()), "explicit Runge-Kutta.*diffeqsolve.*DelaySolver"),
        (dict(lag_bounds=(2.0, 1.0)), "shortest <= longest"),
        (dict(lag_bounds=(2.0, 3.0)), r"lags must lie within lag_bounds = \(2, 3\)"),
        (dict(solver=diffrax.HalfSolver(diffrax.Euler())), "explicit Runge-Kutta"),
        (dict(drift=lambda t, x, lagged, slope, args: x), "neutral equations"),
        (dict(y0=jnp.zeros(3)), "shape of a state"),
        (dict(dt=np.timedelta64(1, "h")), "dt must be a number"),
        (dict(n_steps=np.timedelta64(5, "h")), "n_steps must be a positive whole number"),
        (dict(jumps=[[0.1]]), "one time or a list"),
        (dict(sigma=lambda x: x, key=jr.key(0)), r"sigma must be a function sigma\(t, x"),
        (dict(sigma=0.1, key=jr.key(0), increments=jnp.zeros((10, 2))), "got both"),
        (dict(drift=lambda t, x, lagged, args: jax.lax.complex(x, x)), "real numbers; got complex"),
        (
            dict(drift=lambda t, x, lagged, args: x + lagged[0], lags=None),
            "indexes beyond an array",
        ),
        # JAX would read the last one instead.
        (dict(drift=lambda t, x, lagged, args: x - lagged[1]), r"lagged \(1, 2\).*index 1 is out"),
        (dict(drift=lambda t, x, lagged, args: jnp.stack([x[0], x[2]])), "index 2 is out"),
        (
            dict(sigma=lambda t, x, lagged, args: lagged[1], key=jr.key(0)),
            r"sigma\(t.* indexes beyond",
        ),
    ],
)
def test_refusals(change, message):
    given = {**GOOD, **change}
    with pytest.raises(ValueError, match=message):
        solve_sdde(given.pop("drift", langevin), **given)


def decay(t, x, lagged, args):
    return -x


@functools.cache
def keys():
    """Drifts of three members."""
    return list(jr.split(jr.key(8), 3))


def in_a_batch(sigma, batch, **options):
    """Paths of members that start apart, each with its own key."""
    return solve_sdde(
        decay,
        dt=0.1,
        n_steps=40,
        history=np.tile(np.linspace(0, 1, 3)[None, :batch, None], (1, 1, 2)),
        sigma=sigma,
        key=jnp.stack(keys()[:batch]),
        **options,
    ).ys


def alone(sigma, member):
    return solve_sdde(
        decay,
        dt=0.1,
        n_steps=40,
        history=np.full(2, np.linspace(0, 1, 3)[member]),
        sigma=sigma,
        key=keys()[member],
    ).ys


@pytest.mark.parametrize("batch", [1, 2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("as_function", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_matrix_is_a_matrix_whatever_the_size_of_the_batch(batch, as_function):
    """With as many members as variables it used to become the diagonals of the members."""
    matrix = np.array([[1.0, 0.0], [0.9, 0.1]])
    each = np.stack([matrix * (1 + i) for i in range(batch)])
    given = lambda value: (lambda t, x, lagged, args: value) if as_function else value  # noqa: E731
    shared, own = (np.asarray(in_a_batch(given(a), batch)) for a in (matrix, each))
    for i in range(batch):
        np.testing.assert_allclose(shared[:, i], alone(matrix, i), atol=1e-12)
        np.testing.assert_allclose(own[:, i], alone(each[i], i), atol=1e-12)


@pytest.mark.parametrize("batch", [2, 3])
@pytest.mark.parametrize("as_function", [False, True])
def test_diagonals_of_the_members_are_said_to_be_that(batch, as_function):
    each = 0.1 + np.arange(2.0 * batch).reshape(batch, 2)
    sigma = (lambda t, x, lagged, args: each) if as_function else each
    together = np.asarray(in_a_batch(sigma, batch, diagonal=True))
    for i in range(batch):
        np.testing.assert_allclose(together[:, i], alone(each[i], i), atol=1e-12)
    if batch != 2:
        with pytest.raises(ValueError, match="Use diagonal=True"):
            in_a_batch(sigma, batch)


def test_a_system_brings_what_it_is_made_of():
    system = ndde.systems.get("mackey_glass")
    given = dict(dt=system.dt, history=system.history, n_steps=300)
    for key, sigma in ((None, 0.0), (jr.key(0), system.sigma)):
        whole = solve_sdde(system, n_steps=300, key=key)
        parts = solve_sdde(system.drift, lags=system.lags, sigma=sigma, key=key, **given)
        np.testing.assert_array_equal(whole.ys, parts.ys)
    # Given arguments replace those of the system.
    other = solve_sdde(system, n_steps=300, delays=2.0, history=jnp.full(1, 0.3))
    parts = solve_sdde(system.drift, delays=2.0, **(given | dict(history=jnp.full(1, 0.3))))
    np.testing.assert_array_equal(other.ys, parts.ys)
    # An ordinary one has no delays.
    lorenz = ndde.systems.get("Lorenz")
    path = solve_sdde(lorenz, n_steps=10)
    np.testing.assert_array_equal(path.ys[0], lorenz.history)


def test_delays_have_two_names_and_one_meaning():
    given = {name: value for name, value in GOOD.items() if name != "lags"}
    old, new = (solve_sdde(langevin, **given, **{name: 0.4}) for name in ("lags", "delays"))
    np.testing.assert_array_equal(old.ys, new.ys)
    with pytest.raises(ValueError, match="got both"):
        solve_sdde(langevin, **given, lags=0.4, delays=0.4)
    with pytest.raises(ValueError, match="history is missing"):
        solve_sdde(langevin, n_steps=10, dt=0.1)


@pytest.mark.slow
def test_ten_million_steps():
    """Constant memory: one chunk of noise at a time."""
    path = solve_sdde(
        langevin,
        lags=1.0,
        dt=0.01,
        n_steps=10_000_000,
        history=jnp.zeros(1),
        sigma=0.1,
        key=jr.key(0),
        save_every=10_000,
        progress=True,
    )
    assert path.ys.shape == (1001, 1) and path.status == PathStatus.successful


@pytest.mark.parametrize(
    "n_steps, delays", [(1, None), (300, 40.0), (1100, None), (1100, 0.3)], ids=str
)
def test_no_steps_beyond_the_last_are_computed(n_steps, delays):
    """One step of thousands of paths used to cost as much as 256, or as the delay has steps."""
    calls = []

    def drift(t, x, lagged, args):
        jax.debug.callback(lambda: calls.append(1))
        return -x

    given = {} if delays is None else {"lags": delays}
    path = solve_sdde(
        drift, dt=0.1, n_steps=n_steps, history=jnp.ones(1), solver=diffrax.Heun(), **given
    )
    jax.block_until_ready(path.ys)
    jax.effects_barrier()
    assert n_steps <= len(calls) / 2 <= 1.01 * n_steps
    np.testing.assert_allclose(path.ys[-1], (1 - 0.1 + 0.1**2 / 2) ** n_steps, rtol=1e-9)


def test_a_learned_model_takes_shorter_steps_under_jit_too():
    t = np.arange(300) * 0.1
    windows = ndde.lagged_windows(np.stack([np.sin(t), np.cos(t)], 1), dt=0.1)
    family = ndde.models.Polynomials()
    model = ndde.fit_drift(windows, "full", family, flow=None, key=jax.random.key(0))

    def end(start, model=model):
        return ndde.solve_sdde(model, dt=0.025, n_steps=8, history=start).ys[-1]

    start = jnp.array([0.1, 0.9])
    np.testing.assert_allclose(jax.jit(end)(start), end(start), rtol=1e-12)
    with pytest.raises(ValueError, match="may be traced"):
        eqx.filter_jit(end)(start, model)
