"""Every public function under jit, vmap and, where it makes sense, grad, in one file."""

from functools import partial

import chex
import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax.fit._flow import correct_at_midpoints

from .agreement import check, check_compiled

FIT = ndde.FitConfig(max_steps=60, epoch_steps=20, newton_steps=6, batch_size=32, depth=1)
QUICK = dict(restarts=1, folds=2, resamples=20)
STRENGTH = ndde.fitting.StrengthConfig(steps=5, fold_steps=2, search=2, **QUICK)
METHOD = ndde.L0NDDE(path=(0.1,))


@partial(jax.jit, static_argnames="n")
def trajectory(key, n=120):
    phase = jr.uniform(key, (2,))
    t = 0.1 * jnp.arange(1.0 * n)
    y = jnp.sin(t + phase[0]) + 0.4 * jnp.sin(2.1 * t + phase[1])
    return jnp.stack([y, jnp.cos(t + phase[0]) + 0.2 * y**2], axis=1)


@pytest.fixture(scope="module")
def systems():
    keys = jr.split(jr.key(0), 3)
    return [ndde.lagged_windows(trajectory(k), dt=0.1, scheme="central") for k in keys]


@pytest.fixture(scope="module")
def batch(systems):
    return ndde.stack_windows(systems)


LOOSE = dict(rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_fit(systems, batch):
    keys = jr.split(jr.key(1), 3)

    def one(w, k):
        result = ndde.fit(METHOD, w, FIT, key=k)
        return result.scores, result.risk, result.model.mask, result.losses, result.steps

    check_compiled(one, (batch, keys), list(zip(systems, keys, strict=True)), **LOOSE)


@pytest.mark.slow
def test_fit_over_coefficients_and_configurations(systems):
    coefficients = jnp.array([0.01, 1.0, 30.0])
    rates = jnp.array([1e-3, 2e-3, 3e-3])

    def one(coefficient, rate):
        method = ndde.L0NDDE(coefficient=coefficient, path=())
        config = eqx.tree_at(
            lambda c: c.learning_rate, FIT, rate, is_leaf=lambda leaf: leaf is None
        )
        return ndde.fit(method, systems[0], config, key=jr.key(0)).scores

    check(one, (coefficients, rates), list(zip(coefficients, rates, strict=True)), **LOOSE)


def test_fit_does_not_compile_again_for_new_numbers(systems):
    from ndde_jax.fit import _fit

    traced = eqx.debug.assert_max_traces(_fit._fit, max_traces=1)
    run = eqx.filter_jit(traced)
    for coefficient, seed in ((0.01, 0), (0.5, 1), (jnp.asarray(2.0), 2)):
        method = ndde.L0NDDE(coefficient=coefficient, path=())
        config = ndde.FitConfig(
            learning_rate=1e-3 * (1 + seed),
            max_steps=40,
            epoch_steps=20,
            newton_steps=4,
            batch_size=16,
        )
        run.lower(method, systems[seed], config, jr.key(seed))


@pytest.mark.slow
def test_fit_is_differentiable_with_respect_to_data_and_hyperparameters(systems):
    """Reverse mode against central differences, for a score computed downstream of the fit."""
    config = ndde.FitConfig(
        max_steps=20,
        epoch_steps=10,
        newton_steps=4,
        batch_size=16,
        patience=None,
        learning_rate=1e-3,
        gate_learning_rate=0.01,
        refine="adam",
        refine_steps=10,
        width=3,
        depth=1,
    )
    w = systems[0]
    at = w.history[::10]

    def score(shift, log_coefficient, log_rate):
        moved = eqx.tree_at(
            lambda v: v.increment, w, w.increment + shift * jnp.sin(w.history[:, 0])
        )
        method = ndde.L0NDDE(coefficient=jnp.exp(log_coefficient), path=())
        faster = eqx.tree_at(lambda c: c.learning_rate, config, jnp.exp(log_rate))
        result = ndde.fit(method, moved, faster, key=jr.key(3))
        drift = jax.vmap(result.model)(at)
        return jnp.mean(drift**2) + jnp.sum(result.scores)

    run = jax.jit(jax.value_and_grad(score, argnums=(0, 1, 2)))
    point = (jnp.asarray(0.05), jnp.log(jnp.asarray(0.3)), jnp.log(jnp.asarray(1e-3)))
    gradient = run(*point)[1]
    for i, g in enumerate(gradient):
        step = 1e-5
        up, down = ([p + s * (i == j) for j, p in enumerate(point)] for s in (step, -step))
        slope = (run(*up)[0] - run(*down)[0]) / (2 * step)
        np.testing.assert_allclose(g, slope, rtol=1e-3, atol=1e-7)
        assert abs(float(g)) > 1e-6


@pytest.mark.slow
def test_signal_strengths_search_and_refit(systems, batch):
    keys = jr.split(jr.key(2), 3)
    graph = jnp.array([[True, True], [False, True]])[:, :, None]

    def strengths(w, k):
        return ndde.signal_strengths(w, graph=graph, key=k, config=STRENGTH, max_inputs=2)

    singles = list(zip(systems, keys, strict=True))
    check(strengths, (batch, keys), singles, rtol=1e-3, atol=1e-5)

    def search(w, k):
        strategy = ndde.select.Gates(starts=jnp.zeros_like(graph), refit=STRENGTH)
        found = ndde.recover(w, strategy, key=k).graph
        return found, jax.vmap(ndde.fitting.fit_graph(w, found, key=k, config=STRENGTH))(
            w.history[:3]
        )

    check(search, (batch, keys), singles, rtol=1e-3, atol=1e-5)


def test_constants_of_the_theorems():
    prices, strengths = jnp.linspace(0.01, 0.2, 5), jnp.linspace(0.3, 0.6, 5)

    def one(price, strength):
        window = ndde.theory.penalty_window(strength, 2)
        return window, ndde.theory.recovery_margin(price, strength, 2, window * 100)

    check(one, (prices, strengths), list(zip(prices, strengths, strict=True)), rtol=1e-6)
    bound = lambda rate: ndde.theory.occupation_bound(50.0, prefactor=1.0, rate=rate)  # noqa: E731
    check(bound, (prices,), [(price,) for price in prices], rtol=1e-6)
    assert float(jax.grad(bound)(0.5)) < 0


@pytest.mark.slow
def test_gates_that_are_improved(systems):
    strategy = ndde.select.Gates(penalty=METHOD, config=FIT, refit=STRENGTH)

    def one(k):
        return ndde.recover(systems[0], strategy, key=k).graph

    keys = jr.split(jr.key(3), 2)
    check(one, (keys,), [(k,) for k in keys])


@pytest.mark.slow
def test_search_among_lags():
    """`midpoint_windows`, `spline_graph` and `Moves` in one, from samples to a graph."""
    # With errors: without any, many graphs describe a record to the last digit, and which of them a
    # local search finds depends on the order of its moves, which differs under `jit`.
    x, keys = jnp.stack([trajectory(k) for k in jr.split(jr.key(5), 2)]), jr.split(jr.key(6), 2)
    x = x + 0.05 * jr.normal(jr.key(7), x.shape)
    config = ndde.fitting.StrengthConfig(**QUICK)

    def one(x, k):
        windows = ndde.select.midpoint_windows(x, dt=0.1, lags=(0, 4))
        found = ndde.recover(windows, ndde.select.Moves(3, config), key=k)
        return windows.history, found.details.rate, found.graph, found.scores

    singles, traced = list(zip(x, keys, strict=True)), eqx.filter_jit(one)
    check_compiled(traced, (x, keys), singles, rtol=1e-3, atol=1e-5)
    for single in singles:  # outside `jit` networks start with other weights, and decide alike
        chex.assert_trees_all_close(one(*single)[:3], traced(*single)[:3], rtol=1e-3, atol=1e-5)

    def risk(shift):
        moved = x[0] + shift * jnp.sin(3 * x[0][:, ::-1])
        windows = ndde.select.midpoint_windows(moved, dt=0.1, lags=(0, 4))
        return jnp.sum(ndde.select.spline_graph(windows, shortlist=2).risk)

    slope = (risk(0.01 + 1e-6) - risk(0.01 - 1e-6)) / 2e-6
    np.testing.assert_allclose(jax.jvp(risk, (0.01,), (1.0,))[1], slope, rtol=1e-3, atol=1e-6)


def test_graphs_of_results(systems):
    result = ndde.fit(METHOD, systems[0], FIT, key=jr.key(0))

    def one(r):
        return ndde.edge_scores(r), ndde.summary_graph(ndde.window_graph(r))

    batched = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), result)
    check(one, (batched,), [(result,), (result,)])


def test_models(systems):
    result = ndde.fit(METHOD, systems[0], FIT, key=jr.key(0))
    histories = jr.normal(jr.key(4), (6,)).reshape(3, 1, 2)
    check(result.model, (histories,), [(h,) for h in histories], rtol=1e-9)
    backward, forward = (jax.jit(d(result.model))(histories[0]) for d in (jax.jacrev, jax.jacfwd))
    np.testing.assert_allclose(backward, forward, rtol=1e-9)


def test_float32_stays_float32(systems):
    """Types only; `test_penalties` and `test_single_precision` test that values are finite."""
    w = jax.tree.map(
        lambda a: a.astype(jnp.float32) if jnp.issubdtype(a.dtype, jnp.floating) else a, systems[0]
    )

    def everything(w, key):
        result = ndde.fit(METHOD, w, FIT, key=key)
        return result, ndde.signal_strengths(w, graph="full", key=key, config=STRENGTH)

    leaves = jax.tree.leaves(eqx.filter_eval_shape(everything, w, jr.key(0)))
    assert len(leaves) > 20
    for leaf in leaves:
        assert leaf.dtype != jnp.float64


def oscillator(t, x, lagged, args):
    return jnp.tanh(2 * lagged[0]) * args - x + 0.3 * lagged[1][::-1]


def test_solve_sdde():
    """Over starts, keys, parameters, noise and delays at once; gradients are in test_simulate."""

    def one(start, key, gain, sigma, lags):
        path = ndde.solve_sdde(
            oscillator,
            lags=lags,
            lag_bounds=(0.2, 1.0),
            dt=0.1,
            n_steps=40,
            history=start,
            sigma=sigma,
            key=key,
            args=gain,
            save_every=4,
        )
        return path.ts, path.ys

    batched = (
        jnp.array([[0.1, 0.2], [1.0, -1.0]]),
        jr.split(jr.key(0), 2),
        jnp.array([-1.0, 1.5]),
        jnp.array([0.1, 0.3]),
        jnp.array([[0.2, 1.0], [0.33, 0.8]]),
    )
    check_compiled(one, batched, list(zip(*batched, strict=True)), rtol=1e-10, atol=1e-12)


def test_rollout_of_learned_models(systems):
    # The same program as in `test_fit`, one system after the other.
    keys = jr.split(jr.key(1), 3)
    fits = [ndde.fit(METHOD, w, FIT, key=k) for w, k in zip(systems, keys, strict=True)]
    models = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(fit.model for fit in fits))
    singles = [jax.tree.map(lambda leaf, i=i: leaf[i], models) for i in range(3)]
    start = jnp.array([0.3, 0.9])

    def one(model):
        confined = ndde.confine(model, radius=3.0, rate=1.0)
        return (
            ndde.simulate.rollout(model, history=start, n_steps=20).ys,
            ndde.solve_sdde(confined, history=start, n_steps=20).ys,
        )

    check_compiled(one, (models,), [(m,) for m in singles], rtol=1e-9, atol=1e-10)
    # The discrete rollout is the map itself.
    x, model = start, singles[0]
    step = jax.jit(lambda x: x + model.dt * model(x[None]))
    for _ in range(20):
        x = step(x)
    np.testing.assert_allclose(one(model)[0][-1], x, rtol=1e-9)


@pytest.mark.slow
def test_lyapunov_spectrum():
    def one(gain):
        spectrum = ndde.lyapunov_spectrum(
            oscillator,
            lags=(0.4, 1.0),
            dt=0.1,
            n_steps=200,
            history=jnp.array([0.1, 0.4]),
            args=gain,
            k=2,
        )
        return spectrum.exponents, ndde.kaplan_yorke_dimension(spectrum)

    gains = jnp.array([-2.0, 0.4])
    check_compiled(one, (gains,), [(g,) for g in gains], rtol=1e-7, atol=1e-9)


def test_named_systems():
    """A system is a value: its drift maps and differentiates over its parameters."""
    system = ndde.systems.get("mackey_glass")
    drift = lambda beta: system.drift(  # noqa: E731
        0.0, system.history, system.history[None], {"beta": beta}
    )
    betas = jnp.array([0.1, 0.2, 0.3])
    check(drift, (betas,), [(b,) for b in betas])
    slope = (drift(0.2 + 1e-6) - drift(0.2 - 1e-6)) / 2e-6
    np.testing.assert_allclose(jax.jacfwd(drift)(0.2), slope, rtol=1e-6)


@pytest.mark.parametrize("name", ["noise_share", "roll_off", "ringing"])
def test_noise_statistics(name):
    """`jit` and `vmap` agree; functions that need to see the data return NaN instead."""
    x = np.cumsum(np.random.default_rng(0).normal(size=(3, 100, 2)), axis=1)
    statistic = lambda x: getattr(ndde.lagged_windows(x, dt=1.0), name)  # noqa: E731
    traced = jax.jit(jax.vmap(statistic))(x)
    if name == "noise_share":
        np.testing.assert_allclose(traced, np.stack([statistic(one) for one in x]), rtol=1e-9)
    else:
        assert np.isnan(traced).all() and np.isfinite(statistic(x[0])).all()


@jax.jit
def waves(shift):
    t = 0.1 * jnp.arange(120.0)
    return jnp.stack([jnp.sin(t + shift), jnp.cos(1.7 * t)], axis=1)


@pytest.mark.slow
def test_forecast_and_attractor_metrics():
    """`jit` and `vmap` over forecasts; slopes of differentiable ones against differences."""
    truth = waves(0.0)
    smooth = {
        "nrmse": lambda p: ndde.metrics.nrmse(p, truth, dt=0.1),
        "lsd": lambda p: ndde.metrics.log_spectral_distance(p, truth),
        "divergence": lambda p: ndde.metrics.state_space_divergence(p, truth, n_samples=50),
    }

    def one(p):
        steps = ndde.metrics.valid_prediction_time(p, truth, dt=0.1, lyapunov=0.5, threshold=0.2)
        return steps, ndde.metrics.bounded(p, limit=0.9), *(f(p) for f in smooth.values())

    forecasts = jnp.stack([waves(s) for s in (0.0, 0.1, 0.8)])
    check(one, (forecasts,), [(p,) for p in forecasts], rtol=1e-9, atol=1e-12)

    @jax.jit
    def each(s):
        """The value and slope of every metric."""
        return {n: jax.value_and_grad(lambda s, m=m: m(waves(s)))(s) for n, m in smooth.items()}

    here, above, below = (each(0.3 + shift) for shift in (0.0, 1e-6, -1e-6))
    for name in smooth:
        expected = (above[name][0] - below[name][0]) / 2e-6
        np.testing.assert_allclose(here[name][1], expected, rtol=1e-5, err_msg=name)


@pytest.mark.slow
def test_flow():
    """Correction and fit over systems and keys; the slope of a correction against differences."""
    graph = jnp.array([[True, True], [False, True]])[:, :, None]
    euler = [ndde.lagged_windows(trajectory(k), dt=0.1) for k in jr.split(jr.key(0), 2)]
    config = ndde.fitting.StrengthConfig(steps=4, width=3, depth=1)

    def one(w, k):
        model = ndde.fitting.fit_flow(
            w, graph, key=k, members=2, rounds=1, config=config, max_inputs=2
        )
        return correct_at_midpoints(w, model).increment, jax.vmap(model)(w.history[:3])

    keys = jr.split(jr.key(1), 2)
    singles = list(zip(euler, keys, strict=True))
    check(one, (ndde.stack_windows(euler), keys), singles, rtol=1e-4, atol=1e-6)

    model = ndde.fitting.fit_flow(euler[0], key=keys[0], members=1, rounds=0, config=config)

    def score(stretch):
        scaling = eqx.tree_at(lambda s: s.rate_scale, model.scaling, stretch * jnp.ones(2))
        faster = eqx.tree_at(lambda m: m.scaling, model, scaling)
        return jnp.mean(correct_at_midpoints(euler[0], faster).increment ** 2)

    slope = (score(1.0 + 1e-5) - score(1.0 - 1e-5)) / 2e-5
    np.testing.assert_allclose(jax.grad(score)(1.0), slope, rtol=1e-5)


def test_known_windows_are_searched_inside_a_function_that_is_compiled(systems):
    """Only the key is traced, or nothing that the search reads."""
    windows, splines = systems[0], ndde.select.Splines()
    alone = ndde.recover(windows, splines, key=jr.key(0))
    inside = jax.jit(lambda key: ndde.recover(windows, splines, key=key))(jr.key(0))
    chex.assert_trees_all_equal(inside, alone)
    drift = ndde.select.fit_splines(windows, alone.graph)(jnp.ones((1, 2)))
    scaled = jax.jit(lambda s: s * ndde.select.fit_splines(windows, alone.graph)(jnp.ones((1, 2))))
    np.testing.assert_allclose(scaled(2.0), 2 * drift, rtol=1e-6)


@pytest.mark.slow
def test_known_samples_are_discovered_inside_a_function_that_is_compiled():
    key, recipe = jr.key(0), ndde.Recipe.fast()
    x = np.asarray(trajectory(key))

    def scores():
        return ndde.discover(x, dt=0.1, recipe=recipe, key=key).scores

    np.testing.assert_allclose(jax.jit(lambda s: s * scores())(1.0), scores(), rtol=1e-6)
