"""Sparse polynomials: selection of terms, drifts made of them, and their equations."""

import itertools
import math
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax.models._polynomials import (
    FLOOR,
    all_exponents,
    fit_polynomial,
    monomials,
    natural_origin,
)

EXPONENTS = all_exponents(2)  # ten terms in two inputs
SMALL = ndde.fitting.StrengthConfig(restarts=1, steps=20, width=4, depth=1)
LORENZ = np.array([[True, True, False], [True, True, True], [True, True, True]])


def lorenz(n=3000, dt=0.01, noise=1.0, seed=0):
    """Euler–Maruyama with twenty substeps a sample."""
    h, (x, y, z), path = dt / 20, (1.0, 1.0, 20.0), []
    kicks = noise * math.sqrt(h) * np.random.default_rng(seed).normal(size=(20 * n, 3))
    # Python numbers are faster than arrays of three.
    for k, (a, b, c) in enumerate(kicks.tolist()):
        if k % 20 == 0:
            path.append((x, y, z))
        dx, dy, dz = 10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z
        x, y, z = x + h * dx + a, y + h * dy + b, z + h * dz + c
    return np.array(path)


@pytest.fixture(scope="module")
def windows():
    return ndde.lagged_windows(lorenz(), dt=0.01)


@pytest.fixture(scope="module")
def model(windows):
    return ndde.fitting.fit_flow(
        windows, LORENZ.T[:, :, None], key=jr.key(0), members=1, rounds=3, config=SMALL
    )


def test_monomials_are_all_products_of_powers():
    z = np.random.default_rng(0).normal(size=(5, 3))
    exponents = all_exponents(3)
    assert len(set(exponents)) == len(exponents) == math.comb(6, 3)
    assert max(map(sum, exponents)) == 3
    expected = [[math.prod(row**e) for e in exponents] for row in z]
    np.testing.assert_allclose(monomials(jnp.asarray(z), exponents), expected)


@pytest.mark.parametrize("n_slots,degree", [(1, 3), (6, 3), (7, 2), (12, 2), (13, 1), (120, 1)])
def test_the_degree_falls_with_the_number_of_inputs(n_slots, degree):
    exponents = all_exponents(n_slots)
    assert max(map(sum, exponents)) == degree
    assert len(exponents) == math.comb(n_slots + degree, degree)


@pytest.mark.parametrize("seed", [0, 1, 8, 33])  # in the last two, BIC keeps a term more
def test_terms_are_those_that_a_search_over_all_subsets_finds(seed):
    rng = np.random.default_rng(seed)
    z, weight = rng.normal(size=(300, 2)), rng.uniform(0.5, 1, size=300)
    output = 0.5 + z[:, 0] * z[:, 1] - 0.4 * z[:, 1] ** 3 + 0.5 * rng.normal(size=300)
    found = fit_polynomial(*map(jnp.asarray, (z, [True, True], output, weight)), EXPONENTS)

    columns = np.stack([np.prod(z**e, axis=1) for e in np.array(EXPONENTS)], axis=1)
    root, total, p = np.sqrt(weight), np.sum(weight * output**2), len(EXPONENTS)

    def fitted(terms):
        c, *_ = np.linalg.lstsq(columns[:, terms] * root[:, None], output * root, rcond=None)
        return c, np.sum(weight * (output - columns[:, terms] @ c) ** 2)

    def cost(terms):
        n, k = weight.sum(), len(terms)
        risk = fitted(terms)[1] / total
        return n * np.log(risk + FLOOR) + k * np.log(n) + 2 * np.log(math.comb(p, k))

    subsets = [s for k in range(p + 1) for s in itertools.combinations(range(p), k)]
    best = list(min(subsets, key=lambda s: cost(list(s))))
    np.testing.assert_array_equal(np.flatnonzero(found.coefficients), best)
    c, error = fitted(best)
    np.testing.assert_allclose(found.coefficients[np.array(best)], c, rtol=1e-6)
    np.testing.assert_allclose(found.risk, error / weight.sum(), rtol=1e-6)
    assert found.count == len(best)


def test_inputs_out_of_use_and_rows_without_weight_have_no_part():
    rng = np.random.default_rng(0)
    z, weight = rng.normal(size=(200, 2)), np.arange(200) < 150
    output = z[:, 1] ** 2 + 0.1 * rng.normal(size=200)

    def fit(z, output):
        used = jnp.array([False, True])
        return fit_polynomial(
            jnp.asarray(z), used, jnp.asarray(output), jnp.asarray(weight, float), EXPONENTS
        ).coefficients

    expected = fit(z, output)
    assert [EXPONENTS[i] for i in np.flatnonzero(expected)] == [(0, 2)]
    z[:, 0], z[150:], output[150:] = 1e3, 77.0, -50.0
    np.testing.assert_allclose(fit(z, output), expected, rtol=1e-9)


def test_single_precision_chooses_the_same_terms():
    rng = np.random.default_rng(3)
    z = rng.normal(4.0, 1.0, size=(2000, 2))  # four standard deviations from the origin
    output = z[:, 0] * z[:, 1] - 2 * z[:, 0] + 0.3 * rng.normal(size=2000)
    arrays = (z, [True, True], output, np.ones(2000))
    with jax.enable_x64(False):
        single = fit_polynomial(*map(jnp.asarray, arrays), EXPONENTS)
        assert single.coefficients.dtype == jnp.float32
    double = fit_polynomial(*map(jnp.asarray, arrays), EXPONENTS)
    np.testing.assert_allclose(single.coefficients, double.coefficients, rtol=2e-3)
    assert [EXPONENTS[i] for i in np.flatnonzero(double.coefficients)] == [(1, 0), (1, 1)]


@pytest.mark.slow
def test_the_lorenz_equations_are_found_with_their_coefficients(model):
    assert isinstance(model.drift, ndde.models.PolynomialDrift)
    drift, s = model.drift, model.scaling
    np.testing.assert_allclose(drift.origin, s.center / s.scale)
    physical = np.array(s.rate_scale[:, None] * drift.coefficients)
    physical[:, 0] += s.rate_center  # which a drift in standardised units omits
    terms = [{}, {}, {}]
    for j, t in np.argwhere(np.abs(physical) > 1e-3 * np.asarray(s.rate_scale)[:, None]):
        powers = np.zeros(3, int)
        powers[np.asarray(drift.index)[j]] = drift.exponents[t]
        terms[j][tuple(powers)] = physical[j, t] / np.prod(np.asarray(s.scale) ** powers)
    x, y, z = np.eye(3, dtype=int)
    expected = [
        {tuple(x): -10, tuple(y): 10},
        {tuple(x): 28, tuple(y): -1, tuple(x + z): -1},
        {tuple(z): -8 / 3, tuple(x + y): 1},
    ]
    for found, true in zip(terms, expected, strict=True):
        assert found.keys() == true.keys()
        for powers, value in true.items():
            np.testing.assert_allclose(found[powers], value, rtol=0.15)


@pytest.mark.slow
def test_networks_remain_where_no_polynomial_will_do():
    """A washboard, which no cubic can follow, beside a linear law."""
    rng, n, dt = np.random.default_rng(1), 3000, 0.05
    x = np.zeros((n, 2))
    for k in range(n - 1):
        rate = [4 * math.sin(3 * x[k, 0]) - x[k, 0], x[k, 0] - x[k, 1]]
        noise = math.sqrt(dt) * np.array([1.5, 0.2]) * rng.normal(size=2)
        x[k + 1] = x[k] + dt * np.array(rate) + noise
    graph = np.array([[True, True], [False, True]])[:, :, None]
    options = dict(
        key=jr.key(0),
        members=1,
        rounds=0,
        config=ndde.fitting.StrengthConfig(restarts=1, steps=60, width=8, depth=1),
    )
    windows = ndde.lagged_windows(x, dt=dt)
    model = ndde.fitting.fit_flow(windows, graph, **options)
    weights, coefficients = model.drift.networks.layers[-1][0], model.drift.coefficients
    assert np.any(weights[0]) and not np.any(coefficients[0])
    assert not np.any(weights[1]) and np.any(coefficients[1])
    washboard, linear = ndde.equations(model, ["a", "b"])
    assert washboard == "da/dt = f(a)"
    assert linear.startswith("db/dt = ") and " b" in linear and " a" in linear
    # Without polynomials the network is unchanged.
    alone = ndde.fitting.fit_flow(windows, graph, family="network", **options)
    assert isinstance(alone.drift, ndde.models.MaskedDrift)
    point = jnp.array([[1.3, 0.2]])
    np.testing.assert_allclose(model(point)[0], alone(point)[0], rtol=1e-6)


def test_a_delayed_law_is_found(getkey):
    rng, n, dt = np.random.default_rng(2), 4000, 0.1
    x = np.zeros((n, 1))
    for k in range(10, n - 1):
        rate = -2 * x[k] + 1.5 * x[k - 10] - 0.5 * x[k - 10] ** 3
        x[k + 1] = x[k] + dt * rate + 0.8 * np.sqrt(dt) * rng.normal(size=1)
    windows = ndde.lagged_windows(x, dt=dt, lags=(0, 10))
    model = ndde.fitting.fit_flow(windows, key=getkey(), rounds=0, family="polynomial")
    assert model.drift.networks is None
    (text,) = ndde.equations(model, ["x"])
    number = r"([+-]? ?[0-9.]+)"
    found = re.fullmatch(rf"dx/dt = {number} x {number} x\[t-1\] {number} x\[t-1\]\^3", text)
    assert found, text
    values = [float(value.replace(" ", "")) for value in found.groups()]
    np.testing.assert_allclose(values, [-2, 1.5, -0.5], atol=0.2)


def test_terms_find_the_graph(windows, model):
    """On the graph, and with all inputs open."""
    full = ndde.fitting.fit_flow(windows, key=jr.key(0), rounds=3, family="polynomial")
    for found in (model, full):
        jacobian = jax.vmap(jax.jacfwd(found))(lorenz(20)[:, None])[:, :, 0]
        np.testing.assert_array_equal(jnp.any(jacobian != 0, axis=0), LORENZ)


def test_closed_inputs_have_no_influence(model):
    z = jnp.array([[0.3, -0.4, 0.5]])
    open_ = jnp.ones((3, 1, 3))
    full = model.drift(z, open_)
    np.testing.assert_allclose(model.drift(z), full)
    closed = open_.at[1, 0, 2].set(0)
    jacobian = jax.jit(jax.jacfwd(lambda z: model.drift(z, closed)))(z)[:, 0]
    assert jacobian[1, 2] == 0 and jacobian[1, 0] != 0 and jacobian[2, 2] != 0
    np.testing.assert_allclose(model.drift(z, closed)[jnp.array([0, 2])], full[jnp.array([0, 2])])


def test_polynomials_are_bounded_and_can_be_confined(model, windows):
    middle, spread = model.drift.output_range()
    far = 50 * jr.normal(jr.key(0), (1500,)).reshape(500, 1, 3)
    outputs = jax.jit(jax.vmap(lambda z: model.drift(z)))(far)
    assert jnp.all(jnp.abs(outputs - middle[None]) <= spread[None])
    bound = ndde.models.drift_bound(model)
    s = model.scaling
    rates = jax.jit(jax.vmap(lambda x: model(x)))(s.center[None, None] + far * s.scale[None, None])
    assert jnp.all(jnp.abs(rates) <= bound[None])
    certificate = ndde.confine(model, windows=windows).certificate()
    assert jnp.isfinite(certificate.absorbing_radius)


def test_the_origin_is_zero_unless_that_is_far_away():
    x = np.random.default_rng(0).normal([0.0, 3.0, 300.0], 1.0, size=(500, 3))
    origin = natural_origin(ndde.lagged_windows(x, dt=1.0).scaling)
    np.testing.assert_allclose(origin[:2], x.mean(axis=0)[:2] / x.std(axis=0)[:2], rtol=0.02)
    assert origin[2] == 0


def test_equations_are_in_physical_units(model):
    texts = ndde.equations(model, ["x", "y", "z"], digits=2)
    assert texts[0].startswith("dx/dt = -") and texts[0].endswith(" y") and " x + " in texts[0]
    assert "x z" in texts[1] and "x y" in texts[2]
    # Parsed and evaluated, they are the drift.
    point = {"x": 3.0, "y": -5.0, "z": 20.0}
    for text, rate in zip(
        ndde.equations(model, ["x", "y", "z"], digits=7),
        model(jnp.array([list(point.values())])),
        strict=True,
    ):
        formula = text.split(" = ")[1].replace("^", "**").replace("- ", "-").replace("+ ", "+")
        terms = [term.replace(" ", "*") for term in formula.split(" +")]
        terms = [t for term in terms for t in term.replace("*-", "|-").split("|")]
        assert sum(eval(term, {}, point) for term in terms) == pytest.approx(float(rate), rel=1e-4)


def test_a_law_without_terms_is_zero(windows):
    nothing = jnp.zeros((3, 3, 1), bool).at[0, 0].set(True)
    model = ndde.fitting.fit_flow(windows, nothing, key=jr.key(0), rounds=0, family="polynomial")
    assert ndde.equations(model, tuple("xyz"))[1] == "dy/dt = 0"


@pytest.mark.slow
def test_far_origins_are_written_out():
    x = 300 + np.stack([np.sin(0.1 * np.arange(800)), np.cos(0.1 * np.arange(800))], axis=1)
    windows = ndde.lagged_windows(x, dt=0.1)
    model = ndde.fitting.fit_flow(windows, key=jr.key(0), rounds=4, family="polynomial")
    # The origin is the mean, which need not be the centre of the circle.
    assert re.fullmatch(
        r"dx/dt = \(y - 300\)( [+-] 0\.0\d+)?", ndde.equations(model, tuple("xy"))[0]
    )
    np.testing.assert_allclose(model(jnp.array([[300.0, 301.0]])), [1, 0], atol=0.02)


def test_unusable_input_is_refused(windows, model):
    with pytest.raises(ValueError, match="'spline'"):
        ndde.fitting.fit_flow(windows, key=jr.key(0), family="spline")
    with pytest.raises(
        ValueError, match=r"names must be 3 different names, one per variable; got .*1 for 3"
    ):
        ndde.equations(model, ["x"])
    with pytest.raises(ValueError, match="one system"):
        ndde.equations(jax.tree.map(lambda a: jnp.stack([a, a]), model))
    many = ndde.lagged_windows(lorenz(200), dt=0.01, lags=range(40))
    with pytest.raises(ValueError, match="room for 120"):
        ndde.fitting.fit_flow(many, key=jr.key(0), family="polynomial")


# ---- other forms ----


@pytest.fixture(scope="module")
def delayed_cubic():
    """A model whose numbers are set by hand: x' = 0.5 x - 2 x(t-1)^3 y + 3, y' = f(x)."""
    rng = np.random.default_rng(0)
    windows = ndde.lagged_windows(rng.normal(size=(60, 2)), dt=0.25, lags=(0, 4))
    graph = np.ones((2, 2, 2), bool)
    model = ndde.fitting.fit_flow(windows, graph, key=jr.key(0), rounds=0, family="polynomial")
    drift, s = model.drift, model.scaling
    place = {tuple(p): k for k, p in enumerate(drift.exponents)}
    slots = [np.asarray(drift.index)[0].tolist().index(i) for i in (0, 1, 2)]  # x, y, x(t-1)

    def power(*of):
        powers = np.zeros(len(drift.exponents[0]), int)
        for slot, k in of:
            powers[slots[slot]] = k
        return place[tuple(powers)]

    coefficients = np.zeros(np.shape(drift.coefficients))
    x, y, rate = float(s.scale[0]), float(s.scale[1]), float(s.rate_scale[0])
    coefficients[0, power((0, 1))] = 0.5 * x / rate
    coefficients[0, power((2, 2), (1, 1))] = -0.002 * x**2 * y / rate
    coefficients[0, power()] = (3.0 - float(s.rate_center[0])) / rate
    zero = np.asarray(s.center / s.scale)
    return eqx.tree_at(
        lambda m: (m.drift.coefficients, m.drift.origin),
        model,
        (jnp.asarray(coefficients), jnp.asarray(np.tile(zero, 2))),
    )


def test_latex_has_delays_in_time_and_escapes_names(delayed_cubic):
    first, second = ndde.equations(delayed_cubic, ["x", "sea_level"], form="latex")
    sea = r"\mathrm{sea\_level}"
    assert first == r"\dot{x} = 0.5\,x - 0.002\," + sea + r"\,x(t - 1)^{2} + 3"
    assert second.startswith(r"\dot{" + sea + "} = ")


def test_text_has_delays_in_time(delayed_cubic):
    first, _ = ndde.equations(delayed_cubic, ["x", "sea"])
    assert first == "dx/dt = 0.5 x - 0.002 sea x[t-1]^2 + 3"


def test_latex_keeps_the_blanks_and_hyphens_of_names(delayed_cubic):
    first, second = ndde.equations(delayed_cubic, ["rain sum", "level-2"], form="latex")
    assert second.startswith(r"\dot{\text{level-2}} = ")
    assert r"\text{level-2}\,\text{rain sum}(t - 1)^{2}" in first


def test_sympy_gives_the_drift(delayed_cubic):
    sympy = pytest.importorskip("sympy")
    first, _ = ndde.equations(delayed_cubic, ["x", "y"], form="sympy")
    t = sympy.Symbol("t", real=True)
    x, y = sympy.Function("x"), sympy.Function("y")
    assert first.lhs == sympy.Derivative(x(t), t)
    history = np.array([[0.3, -0.7], [1.1, 0.2]])
    value = first.rhs.subs({x(t): 0.3, y(t): -0.7, x(t - 1): 1.1, y(t - 1): 0.2})
    assert float(value) == pytest.approx(float(delayed_cubic(history)[0]), rel=1e-6)
    with pytest.raises(ValueError, match="form must be"):
        ndde.equations(delayed_cubic, form="html")
