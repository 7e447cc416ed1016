"""The settings of users: JAX's default, single precision, with no silent promotion.

All other tests run in double precision. Deterministic results are compared with that here; trained
ones must be finite, of one type, and as good.
"""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import ndde_jax as ndde

LAGS, DT = (0, 5), 0.1
REFIT = ndde.fitting.StrengthConfig(
    restarts=1, steps=10, fold_steps=4, folds=2, blocks=8, resamples=20, search=2, width=4, depth=1
)
FIT = ndde.FitConfig(max_steps=100, newton_steps=8, batch_size=32, width=4, depth=1, refine="none")
SMALL = ndde.models.Best(ndde.models.Networks(members=2, width=4, depth=1, steps=10))


def driven(n=300):
    """The second variable follows the first, five samples later."""
    rng, x = np.random.default_rng(0), np.zeros((n, 2))
    for k in range(5, n - 1):
        drift = np.array([-x[k, 0], 3 * np.tanh(x[k - 5, 0]) - x[k, 1]])
        x[k + 1] = x[k] + DT * drift + np.sqrt(DT) * np.array([1.0, 0.2]) * rng.normal(size=2)
    return x


X = driven()


def in_precision(double, function):
    """The result of a function with double precision on or off; other programs are kept."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", double)
    try:
        return jax.block_until_ready(function())
    finally:
        jax.config.update("jax_enable_x64", before)


def floats(tree):
    leaves = [a for a in jax.tree.leaves(tree) if isinstance(a, jax.Array)]
    return [a for a in leaves if jnp.issubdtype(a.dtype, jnp.floating)]


def windows(**options):
    return ndde.lagged_windows(X, dt=DT, lags=LAGS, **options)


def system(**options):
    return ndde.solve_sdde(
        ndde.systems.get("mackey_glass"), dt=0.5, n_steps=200, save_every=20, **options
    ).ys


DETERMINISTIC = {
    "windows": (lambda: windows().increment, 1e-4),
    "central windows": (lambda: windows(scheme="central4").increment, 1e-4),
    "midpoints": (lambda: ndde.select.midpoint_windows(X, dt=DT, lags=LAGS).history, 2e-2),
    "noise": (lambda: windows().noise_share, 1e-4),
    "splines": (lambda: ndde.select.spline_graph(windows()).risk, 2e-2),
    "simulation": (system, 1e-3),
    "interpolated delays": (lambda: system(delays=16.7), 1e-3),
    "theory": (lambda: ndde.theory.recovery_margin(0.03, 0.12, 3), 1e-5),
    "metrics": (lambda: ndde.metrics.nrmse(X[None], X[None] + 0.1, dt=DT), 1e-4),
    "dimension": (lambda: ndde.kaplan_yorke_dimension(jnp.array([0.9, 0.0, -14.0])), 1e-5),
    "prices": (lambda: ndde.select.EBIC()(jnp.array(0.3), 1000, 12, 8), 1e-5),
}


@pytest.mark.parametrize("name", DETERMINISTIC)
def test_agrees_with_double_precision(name):
    function, tolerance = DETERMINISTIC[name]
    single, double = in_precision(False, function), in_precision(True, function)
    assert single.dtype == jnp.float32 and double.dtype == jnp.float64
    np.testing.assert_allclose(single, double, rtol=tolerance, atol=tolerance)


@pytest.fixture(scope="module")
def model():
    graph = np.ones((2, 2, 2), bool)
    return in_precision(
        False, lambda: ndde.fitting.fit_graph(windows(), graph, config=REFIT, key=jr.key(0))
    )


TRAINED = {
    "fit": lambda _: ndde.fit(ndde.L0NDDE(path=()), windows(), FIT, key=jr.key(0)).risk,
    "group lasso": lambda _: ndde.fit(ndde.AGL(), windows(), FIT, key=jr.key(0)).risk,
    "strengths": lambda _: (
        ndde.signal_strengths(windows(), graph="full", config=REFIT, key=jr.key(0)).value
    ),
    "moves": lambda _: (
        ndde.recover(windows(), ndde.select.Moves(shortlist=3, refit=REFIT), key=jr.key(0)).risk
    ),
    "risk": lambda model: ndde.risk(model, windows()),
    "flow": lambda _: ndde.risk(
        ndde.fit_drift(windows(), "full", SMALL, flow=ndde.fitting.Flow(1), key=jr.key(0)),
        windows(),
    ),
    "rollout": lambda model: ndde.simulate.rollout(model, history=X, n_steps=20).ys,
    "confined": lambda model: (
        ndde.simulate.rollout(ndde.confine(model, windows=windows()), history=X, n_steps=20).ys
    ),
    "spectrum": lambda model: (
        ndde.lyapunov_spectrum(model, history=X, n_steps=400, k=2, transient_steps=0).exponents
    ),
    "noise of a model": lambda model: ndde.check.noise_covariance(windows(), model),
}


SLOW = {"flow", "spectrum", "group lasso", "moves"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in TRAINED]
)
def test_what_is_trained_stays_in_single_precision(name, model):
    result = in_precision(False, lambda: TRAINED[name](model))
    assert result.dtype == jnp.float32 and bool(jnp.all(jnp.isfinite(result)))
    if name in ("fit", "group lasso", "moves", "risk", "flow"):
        assert float(jnp.min(result)) < 0.9  # something is explained


def test_a_discovery_holds_nothing_in_double_precision(model):
    found = in_precision(
        False,
        lambda: ndde.discover(
            X,
            dt=DT,
            lags=LAGS,
            scheme="euler",
            recipe=ndde.Recipe(strategy=ndde.select.Default(networks=REFIT)),
            key=jr.key(0),
        ),
    )
    parts = (found.windows, found.strengths, found.model)
    assert {a.dtype for a in floats(parts)} == {jnp.dtype("float32")}
    assert bool(found.graph[0, 1, 1])
    assert eqx.tree_equal(model.lags, found.model.lags)


def test_delays_of_a_map_are_decimals_in_single_precision():
    """0.1 in single precision is 0.10000000149: five samples were 0.5000000075, outside their own
    interval, and counted as estimated between the samples.
    """
    found = in_precision(
        False, lambda: ndde.discover(X, dt=DT, lags=(0, 5, 10), scheme="euler", key=jr.key(0))
    )
    edge = (0, 1, 1)
    assert found.graph[edge] and found.delays[edge] == 0.5
    assert found.delay_intervals[edge][0] <= 0.5 <= found.delay_intervals[edge][1]
    assert not found.delay_resolved.any()


def test_sums_of_large_arrays_are_added_right():
    """jaxlib 0.10.2 reads beyond a tile here without an error (jax-ml/jax#39103)."""
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=(1200, 42, *shape)).astype(np.float32) for shape in ((8, 6), (28,)))
    w, v = rng.normal(size=(42, 8, 6)), rng.normal(size=(42, 28))
    w, v = w.astype(np.float32), v.astype(np.float32)
    jax.config.update("jax_disable_most_optimizations", False)  # as users compile
    found = jax.jit(jax.vmap(lambda a, b: jnp.sum(w * a, axis=(1, 2)) + jnp.sum(v * b, axis=1)))(
        a, b
    )
    expected = np.einsum("njst,jst->nj", a, w) + np.einsum("njp,jp->nj", b, v)
    np.testing.assert_allclose(found, expected, atol=1e-4)


def solved(solver):
    history, rate = jnp.array([0.1, 0.2], jnp.float32), jnp.float32(0.5)
    options = dict(delays=1.0, dt=0.1, n_steps=20, history=history, args=rate, solver=solver)
    return ndde.solve_sdde(lambda t, x, lagged, a: -a * lagged[0], **options).ys


PLACES = np.zeros(3, np.float32)
IN_DOUBLE = {
    "Euler": lambda model: solved(None),
    "Heun": lambda model: solved(diffrax.Heun()),
    "Bosh3": lambda model: solved(diffrax.Bosh3()),
    "confine": lambda model: ndde.confine(model)(STATE),
    "damp": lambda model: ndde.models.damp(model, rate=1.0)(STATE),
    "sample_gate": lambda model: ndde.gates.sample_gate(PLACES, key=jr.key(0)),
    "expected_l0": lambda model: ndde.gates.expected_l0(PLACES),
    "deterministic_gate": lambda model: ndde.gates.deterministic_gate(PLACES),
}
STATE = X[: len(LAGS)].astype(np.float32)


@pytest.mark.parametrize("name", IN_DOUBLE)
def test_single_precision_stays_so_where_double_is_on(name, model):
    """Settings that are Python numbers take the type of the values they are used with."""
    assert IN_DOUBLE[name](model).dtype == jnp.float32
