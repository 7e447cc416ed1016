"""Training of one network against SciPy, ridge regression and its own definition.

Without a hidden layer a network is a linear model, for which the evidence is known in closed form.
Data have the same shapes throughout and fits run side by side, so that few functions are compiled.
"""

import inspect
import itertools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

from ndde_jax.fit._newton import (
    NetworkFit,
    fit_network,
    predict,
    predict_and_jacobian,
    select_inputs,
)

N, N_INPUTS, WIDTH = 60, 3, 3
BATCH = 6
SHAPES = [(8, 2), (5, 1), (4, 3), (1, 0)]  # width, depth


def random_network(rng, n_inputs=N_INPUTS, width=WIDTH, depth=1):
    sizes = (n_inputs, *(width,) * depth, 1)
    return tuple(
        (rng.normal(size=(o, i)), rng.normal(size=o)) for i, o in itertools.pairwise(sizes)
    )


def forward(network, inputs):
    """Output of one network, real or complex."""
    for weight, bias in network[:-1]:
        inputs = np.tanh(inputs @ weight.T + bias)
    weight, bias = network[-1]
    return (inputs @ weight.T + bias)[:, 0]


def flatten(network):
    return np.concatenate([np.ravel(leaf) for layer in network for leaf in layer])


def unflatten(theta, network):
    sizes = [leaf.shape for layer in network for leaf in layer]
    parts = np.split(theta, np.cumsum([np.prod(size) for size in sizes])[:-1])
    leaves = [part.reshape(size) for part, size in zip(parts, sizes, strict=True)]
    return tuple(zip(leaves[::2], leaves[1::2], strict=True))


def complex_jacobian(function, theta):
    """Derivatives by complex steps, which have no cancellation: exact to the last digits."""
    steps = 1e-30j * np.eye(len(theta))
    return np.stack([np.imag(function(theta + step)) / 1e-30 for step in steps], axis=1)


@jax.jit
def outputs_of(network, inputs):
    return predict(network, inputs), *predict_and_jacobian(network, inputs)


@pytest.mark.parametrize(("width", "depth"), SHAPES)
def test_predictions_and_jacobian_against_complex_steps(width, depth):
    rng = np.random.default_rng([width, depth])
    network, inputs = random_network(rng, 4, width, depth), rng.normal(size=(5, 4))
    theta = flatten(network)
    prediction, output, jacobian = outputs_of(network, inputs)
    np.testing.assert_allclose(prediction, forward(network, inputs), rtol=1e-11)
    np.testing.assert_allclose(output, forward(network, inputs), rtol=1e-11)
    expected = complex_jacobian(lambda t: forward(unflatten(t, network), inputs), theta)
    np.testing.assert_allclose(jacobian, expected, rtol=1e-10, atol=1e-12)


def regression(rng, noise=0.1):
    """A smooth function of two of three inputs with noise, and weights."""
    inputs = rng.normal(size=(N, N_INPUTS))
    output = np.sin(inputs[:, 0]) * inputs[:, 1] + noise * rng.normal(size=N)
    return inputs, output, rng.uniform(0.5, 1.5, size=N)


def risk(network, inputs, output, weight):
    return np.sum(weight * (forward(network, inputs) - output) ** 2) / np.sum(weight)


def stack(*trees):
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def unstack(tree, i):
    return jax.tree.map(lambda leaf: np.asarray(leaf[i]), tree)


@jax.jit
@jax.vmap
def fit_briefly(network, inputs, output, weight, decay):
    return fit_network(network, inputs, output, weight, n_iterations=4, decay=decay)


@jax.jit
@jax.vmap
def fit_long(network, inputs, output, weight, decay):
    return fit_network(network, inputs, output, weight, n_iterations=200, decay=decay)


def fits(function, *problems):
    """At most `BATCH` fits side by side, returned one by one as NumPy arrays."""
    together = function(*stack(*problems, *[problems[0]] * (BATCH - len(problems))))
    return [unstack(together, i) for i in range(len(problems))]


def assert_same(a, b, **tolerance):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(x, y, **tolerance)


def evidence_of_linear_model(inputs, output, weight):
    """Coefficients, risk, effective parameters and decay at the fixed point of MacKay's equations.

    decay = (γ / ‖θ‖²) · Σ w r² / (n − γ) with γ = Σ λ / (λ + decay) over the eigenvalues λ of the
    curvature, where θ is the ridge regression at that decay.
    """
    design = np.column_stack([inputs, np.ones(len(inputs))])
    curvature = design.T @ (weight[:, None] * design)
    moment, n = design.T @ (weight * output), np.sum(weight)
    eigenvalues = np.linalg.eigvalsh(curvature)

    def at(decay):
        theta = np.linalg.solve(curvature + decay * np.eye(len(curvature)), moment)
        error = np.sum(weight * (design @ theta - output) ** 2)
        gamma = np.sum(eigenvalues / (eigenvalues + decay))
        return theta, error / n, gamma, gamma / np.sum(theta**2) * error / (n - gamma)

    decay = np.exp(
        scipy.optimize.brentq(lambda log: np.log(at(np.exp(log))[3]) - log, -10, 10, xtol=1e-14)
    )
    return *at(decay)[:3], decay


@pytest.mark.parametrize("noise", [0.05, 1.0])
def test_linear_model_against_ridge_regression_at_the_evidence(noise):
    """From decays far below and far above."""
    rng = np.random.default_rng(1)
    inputs, _, weight = regression(rng)
    output = inputs @ [1.0, -0.5, 0.02] + 0.3 + noise * rng.normal(size=N)
    network = random_network(rng, depth=0)
    theta, expected_risk, gamma, decay = evidence_of_linear_model(inputs, output, weight)
    for result in fits(
        fit_long, *((network, inputs, output, weight, start) for start in (1e-3, 1e3))
    ):
        np.testing.assert_allclose(flatten(result.network), theta, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(result.risk, expected_risk, rtol=1e-6)
        np.testing.assert_allclose(result.n_effective, gamma, rtol=1e-4)
        np.testing.assert_allclose(result.decay, decay * 1000 / np.sum(weight), rtol=5e-4)


def test_fit_is_a_minimum_at_the_fixed_point_of_the_evidence():
    """SciPy finds nothing better nearby; the decay and γ solve MacKay's equations."""
    rng = np.random.default_rng(2)
    inputs, output, weight = regression(rng)
    starts = [random_network(rng) for _ in range(BATCH)]
    found = fits(fit_long, *((start, inputs, output, weight, 0.01) for start in starts))
    result = min(found, key=lambda result: result.risk)
    theta, n = flatten(result.network), np.sum(weight)
    np.testing.assert_allclose(result.risk, risk(result.network, inputs, output, weight))
    decay = result.decay * n / 1000  # kept per thousand windows

    def residuals(theta):
        misfit = forward(unflatten(theta, result.network), inputs) - output
        return np.concatenate([np.sqrt(weight) * misfit, np.sqrt(decay) * theta])

    best = scipy.optimize.least_squares(residuals, theta, jac="cs", xtol=1e-12, ftol=1e-12)
    assert 0.5 * np.sum(residuals(theta) ** 2) <= best.cost * (1 + 1e-3)
    assert result.risk < 0.1 * np.var(output)
    jacobian = complex_jacobian(residuals, theta)[:N]
    eigenvalues = np.linalg.eigvalsh(jacobian.T @ jacobian)
    gamma = np.sum(eigenvalues / (eigenvalues + decay))
    np.testing.assert_allclose(result.n_effective, gamma, rtol=0.1)
    fixed = gamma / np.sum(theta**2) * result.risk * n / (n - gamma)
    np.testing.assert_allclose(decay, fixed, rtol=0.1)


def test_fit_reaches_the_noise():
    """Data of a network of the same size.

    At a least-squares fit the noise splits, by Pythagoras, into residual and error of the fit.
    """
    rng = np.random.default_rng(3)
    truth, inputs = random_network(rng), rng.normal(size=(N, N_INPUTS))
    clean, noise = forward(truth, inputs), 0.01 * rng.normal(size=N)
    starts = [random_network(rng) for _ in range(BATCH)]
    problems = ((start, inputs, clean + noise, np.ones(N), 0.01) for start in starts)
    best = min(fits(fit_long, *problems), key=lambda result: result.risk)
    error = np.mean((forward(best.network, inputs) - clean) ** 2)
    assert error < 0.5 * np.mean(noise**2) < 0.01 * np.var(clean)
    np.testing.assert_allclose(best.risk + error, np.mean(noise**2), rtol=0.05)


def test_fit_is_never_worse_than_its_start():
    """From good and bad starts; the decay is so small that the squared error decides."""
    rng = np.random.default_rng(4)
    data, network = regression(rng), random_network(rng)
    starts = [jax.tree.map(lambda a, s=s: s * a, network) for s in (0.0, 0.1, 1.0, 30.0, 1e5)]
    found = fits(fit_briefly, *((start, *data, 1e-12) for start in starts))
    for start, result in zip(starts, found, strict=True):
        np.testing.assert_allclose(result.risk, risk(result.network, *data), rtol=1e-9)
        assert result.risk <= risk(start, *data) * (1 + 1e-9)
    # Most of them move, too.
    assert sum(r.risk < 0.9 * risk(s, *data) for s, r in zip(starts, found, strict=True)) >= 3


def test_no_steps_leave_the_start_as_it_is():
    rng = np.random.default_rng(5)
    data, start = regression(rng), random_network(rng)
    result = jax.jit(fit_network, static_argnames="n_iterations")(start, *data, n_iterations=0)
    assert_same(result.network, start, rtol=0)
    np.testing.assert_allclose(result.risk, risk(start, *data), rtol=1e-12)


def test_weights_count_rows():
    """Weight 0 means that the row is absent, weight 2 that it appears twice."""
    rng = np.random.default_rng(6)
    inputs, output, _ = regression(rng)
    half, start = N // 2, random_network(rng)
    twice = [np.concatenate([part[:half]] * 2) for part in (inputs, output)]
    weighted = [
        np.concatenate([part[:half], other])
        for part, other in [
            (inputs, 100 * rng.normal(size=(half, N_INPUTS))),
            (output, np.full(half, -77.0)),
            (np.full(half, 2.0), np.zeros(half)),
        ]
    ]
    problems = (start, *twice, np.ones(N), 0.01), (start, *weighted, 0.01)
    expected, result = fits(fit_briefly, *problems)
    assert_same(result, expected, rtol=1e-8)
    assert result.risk < 0.9 * risk(start, *twice, np.ones(N))


def test_no_windows_at_all():
    """Windows that are all invalid give numbers, not NaN, which would spread in a batch."""
    rng = np.random.default_rng(7)
    inputs, output, _ = regression(rng)
    (result,) = fits(fit_briefly, (random_network(rng), inputs, output, np.zeros(N), 0.01))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(result))
    assert result.risk == 0


def test_gradient_through_a_fit():
    """With respect to the data and the start, against central differences."""
    rng = np.random.default_rng(8)
    inputs, output, weight = regression(rng)
    network = random_network(rng)

    def problem(shift, scale):
        start = jax.tree.map(lambda leaf: scale * leaf, network)
        return start, inputs, output + shift * inputs[:, 0], weight, 0.01

    @jax.jit
    def risk_after_fit(point):
        start, *data = jax.tree.map(jnp.asarray, problem(*point)[:4])
        return fit_network(start, *data, n_iterations=4, decay=0.01).risk

    h = 1e-5
    points = [(0.1 + h, 1.0), (0.1 - h, 1.0), (0.1, 1.0 + h), (0.1, 1.0 - h)]
    a, b, c, d = (result.risk for result in fits(fit_briefly, *(problem(*p) for p in points)))
    expected = np.array([a - b, c - d]) / (2 * h)
    assert np.abs(expected).min() > 1e-4
    np.testing.assert_allclose(jax.grad(risk_after_fit)((0.1, 1.0)), expected, rtol=1e-4)


def test_fit_on_selected_columns_equals_one_on_the_open_columns():
    """The purpose of `select_inputs`: unused slots change nothing.

    The fits in three slots run side by side, the fit on two columns alone: `vmap` is tested, too.
    """
    rng = np.random.default_rng(9)
    inputs, weight = rng.normal(size=(N, 5)), rng.uniform(0.5, 1.5, size=N)
    output = inputs[:, 1] * inputs[:, 3]
    network = random_network(rng, 2)
    alone = jax.jit(fit_network, static_argnames="n_iterations")
    expected = alone(network, inputs[:, [1, 3]], output, weight, n_iterations=4)
    index, used = select_inputs(jnp.array([0.0, 1.0, 0.0, 1.0, 0.0]), 3)
    (first, bias), *rest = network
    wider = ((np.concatenate([first, np.zeros((WIDTH, 1))], axis=1), bias), *rest)
    columns = inputs[:, index] * np.asarray(used)
    other = (random_network(rng), *regression(rng), 0.01)
    _, result = fits(fit_briefly, other, (wider, columns, output, weight, 0.01))
    (first, bias), *rest = result.network
    np.testing.assert_array_equal(first[:, 2], 0)
    assert_same(((first[:, :2], bias), *rest), expected.network, rtol=1e-7)
    np.testing.assert_allclose(result.risk, expected.risk, rtol=1e-7)
    np.testing.assert_allclose(result.decay, expected.decay, rtol=1e-7)
    assert result.risk < 0.9 * risk(wider, columns, output, weight)


def test_fit_in_single_precision():
    rng = np.random.default_rng(10)
    double = (random_network(rng), *regression(rng), np.float64(0.01))
    single = jax.tree.map(lambda a: np.asarray(a, np.float32), double)
    (expected,) = fits(fit_briefly, double)
    together = fit_briefly(*stack(single))
    assert {leaf.dtype for leaf in jax.tree.leaves(together)} == {jnp.dtype("float32")}
    np.testing.assert_allclose(together.risk[0], expected.risk, rtol=1e-3)
    assert expected.risk < 0.9 * risk(*double[:4])


@pytest.mark.parametrize(
    ("n_effective", "n", "expected"),
    [(0, 20, 2.0), (5, 20, 2 / 0.75**2), (18, 20, 2 / 0.1**2), (100, 20, 2 / 0.1**2)],
)
def test_corrected_risk(n_effective, n, expected):
    """Risk / (1 − γ/n)², which would turn at γ = n, so the share is limited to 0.9."""
    fit = NetworkFit((), *(jnp.asarray(float(a)) for a in (2, n_effective, 1)))
    np.testing.assert_allclose(fit.corrected_risk(jnp.asarray(float(n))), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("mask", "width", "first", "used"),
    [
        ([0.0, 1.0, 0.0, 1.0, 1.0], 4, [1, 3, 4], [1, 1, 1, 0]),
        ([0.0, 0.5, 0.0, 1.0, 2.0], 3, [1, 3, 4], [1, 1, 1]),
        ([1.0, 1.0, 0.0, 1.0, 1.0], 2, [0, 1], [1, 1]),
        ([0.0, 0.0, 0.0, 0.0, 0.0], 2, [], [0, 0]),
    ],
)
def test_select_inputs(mask, width, first, used):
    index, slots = select_inputs(jnp.array(mask), width)
    np.testing.assert_array_equal(index[: len(first)], first)
    np.testing.assert_array_equal(slots, used)
    assert len(set(index.tolist())) == width


def test_one_program_serves_several_numbers_of_steps():
    rng = np.random.default_rng(5)
    network, inputs = jax.tree.map(jnp.asarray, (random_network(rng), rng.normal(size=(N, 3))))
    output, weight = jnp.sin(inputs[:, 0]), jnp.ones(N)

    @jax.jit
    @chex.assert_max_traces(n=1)
    def risk(n_iterations):
        return fit_network(network, inputs, output, weight, n_iterations=n_iterations).risk

    risks = [float(risk(jnp.asarray(n))) for n in (0, 2, 8)]
    assert risks[0] > risks[1] > risks[2]
    with pytest.raises(AssertionError, match="traced"):
        risk(jnp.asarray([3])[0].astype(jnp.int16))


@pytest.mark.slow
def test_refused_steps_need_no_new_curvature():
    """A given number of steps computes it at each, an array of steps only where weights moved."""
    rng = np.random.default_rng(6)
    network, inputs = jax.tree.map(jnp.asarray, (random_network(rng), rng.normal(size=(N, 3))))
    output, weight = jnp.sin(2 * inputs[:, 0]) * inputs[:, 1], jnp.ones(N)
    fit = jax.jit(fit_network, static_argnames="n_iterations")
    found, risks = jax.jit(fit_network), set()
    for steps in range(1, 13):
        every = fit(network, inputs, output, weight, n_iterations=steps)
        moved = found(network, inputs, output, weight, n_iterations=jnp.asarray(steps))
        for one, other in zip(*map(jax.tree.leaves, (every, moved)), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
        risks.add(float(moved.risk))
    assert 3 < len(risks) < 12  # some were accepted, some refused


@pytest.mark.parametrize("wrong", ["output", "weight"])
def test_a_column_for_a_vector_does_not_broadcast(wrong):
    """Where nothing checks the annotations, as for users of the library."""
    rng = np.random.default_rng(6)
    data = {"output": np.ones(N), "weight": np.ones(N)}
    data[wrong] = data[wrong][:, None]
    unchecked = inspect.unwrap(fit_network)
    with pytest.raises(AssertionError, match="rank"):
        unchecked(random_network(rng), rng.normal(size=(N, N_INPUTS)), **data, n_iterations=1)
