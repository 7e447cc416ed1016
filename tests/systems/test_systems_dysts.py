"""Systems of dysts: the same numbers as dysts, traced by JAX, with graphs found by derivatives."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ndde_jax.systems import __main__ as command, _dysts, get, names

# Every kind: a vector of parameters, `rhs` instead of `_rhs`, helper methods, forcing by a phase or
# by time, a drift with kinks, published Jacobians.
SOME = (
    "CellularNeuralNetwork",
    "Chua",
    "Duffing",
    "HyperRossler",
    "Lorenz",
    "Lorenz84",
    "MultiChua",
    "RikitakeDynamo",
    "Torus",
)


def check(name):
    """Drift, Jacobian and graph against dysts' own, on and around the attractor."""
    system, record = get(name), _dysts._records()[name]
    parameters = {key: np.asarray(value) for key, value in record["parameters"].items()}
    times, states = _dysts._attractor(name, parameters)
    original = _dysts.in_numpy(name, parameters).rhs
    t, x = times[::20], states[::20]
    no_lags = jnp.zeros((0, system.dim))

    def evaluate(t, x):
        return system.drift(t, x, no_lags), system.jacobian(t, x)[0]

    rates, jacobians = jax.jit(jax.vmap(evaluate))(jnp.asarray(t), jnp.asarray(x))
    expected = np.array([np.asarray(original(*point), float) for point in zip(x, t, strict=True)])
    scale = np.abs(expected).max(axis=0)
    np.testing.assert_allclose(rates, expected, rtol=1e-9, atol=1e-12 * scale.max())
    edges = np.asarray(system.graph[:, :, 0])
    assert not (np.abs(jacobians).max(axis=0).T[~edges] > 1e-8 * np.abs(jacobians).max()).any()

    cls = getattr(_dysts._modules()[1], name)
    dysts_system = _dysts.in_numpy(name, parameters)
    if "_jac" in vars(cls):
        every = np.array(
            [dysts_system.jac(a, b) for a, b in zip(states, times, strict=True)], float
        )
        np.testing.assert_allclose(
            jacobians, every[::20], rtol=1e-8, atol=1e-9 * np.abs(every).max()
        )
        np.testing.assert_array_equal(edges, (np.abs(every).max(axis=0) > 0).T)


@pytest.mark.parametrize(
    "name", [*SOME[:4], *(pytest.param(name, marks=pytest.mark.slow) for name in SOME[4:])]
)
def test_some_systems_are_those_of_dysts(name):
    check(name)


@pytest.mark.slow
def test_all_systems_are_those_of_dysts():
    for name in names("dysts"):
        check(name)


@pytest.mark.parametrize("name", SOME)
def test_fields(name):
    system, record = get(name), _dysts._records()[name]
    assert (system.name, system.dim) == (name, len(record["initial_conditions"]))
    assert system.lags.shape == (0,) and float(system.sigma) == 0
    assert system.history.tolist() == record["initial_conditions"]
    assert system.graph.shape == (system.dim, system.dim, 1)
    assert system.sampling_step == pytest.approx(record["period"] / 100)
    assert system.dt == pytest.approx(record["dt"], rel=1e-3)
    assert system.sampling_step / system.dt == pytest.approx(50)
    assert record["citation"] in system.source


def test_known_graphs():
    lorenz = [[1, 1, 1], [1, 1, 1], [0, 1, 1]]  # [source target]: x' lacks z
    np.testing.assert_array_equal(get("Lorenz").graph[:, :, 0], lorenz)
    assert get("Lorenz84").graph.all()
    assert not get("Torus").graph.any()  # a function of time alone


def test_graph_follows_parameters_given_on_lookup():
    # x' = σ y − σ x: nothing drives x once σ is zero.
    assert not get("Lorenz", sigma=0.0).graph[:, 0].any()


def test_names_are_those_that_trace():
    found = names("dysts")
    assert len(found) >= 120 and set(SOME) <= set(found)
    failures = {"BelousovZhabotinsky", "InteriorSquirmer", "Lorenz96"}
    assert set(_dysts.ode_names()) - set(found) == failures
    assert names() == tuple(sorted((*found, *names("delay"))))
    with pytest.raises(ValueError, match=r"cannot trace Lorenz96 of dysts: TypeError.*in-place"):
        get("Lorenz96")


def test_errors():
    with pytest.raises(ValueError, match="no option 'rhoo'; did you mean 'rho'"):
        get("Lorenz", rhoo=28.0)
    with pytest.raises(ValueError, match="rho must have shape"):
        get("Lorenz", rho=[28.0])


def test_parameters_are_leaves():
    system = get("Lorenz", rho=30)
    x, no_lags = jnp.asarray([1.0, 2.0, 3.0]), jnp.zeros((0, 3))

    def rate(rho):
        return system.with_parameters(rho=rho).drift(0.0, x, no_lags)[1]

    rho = jnp.asarray([28.0, 30.0])
    np.testing.assert_allclose(jax.vmap(rate)(rho), [23.0, 25.0])
    np.testing.assert_allclose(jax.vmap(jax.grad(rate))(rho), 1.0)
    np.testing.assert_allclose(system.drift(0.0, x, no_lags)[1], 25.0)


def test_delay_systems_of_dysts_are_written_out():
    base, flows = _dysts._modules()
    assert set(_dysts.COUNTERPARTS) == {
        name
        for name, cls in vars(flows).items()
        if isinstance(cls, type) and base.DynSysDelay in cls.__bases__
    }
    rng = np.random.default_rng(0)
    for original, name in _dysts.COUNTERPARTS.items():
        parameters = {
            **{key: float(value) for key, value in get(name).parameters.items()},
            "tau": float(get(name).lags[0]),
        }
        values = [parameters[key] for key in sorted(parameters)]
        x, late = rng.uniform(0.1, 1.5, (2, 5))
        rhs = getattr(flows, original)._rhs
        rhs = getattr(rhs, "py_func", rhs)  # compiled by Numba, if it is installed
        expected = rhs(x, late, 0.0, *values)
        drift = get(name).drift
        points = zip(jnp.asarray(x)[:, None], jnp.asarray(late)[:, None, None], strict=True)
        found = [float(drift(0.0, *point)[0]) for point in points]
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_dysts_and_the_process_stay_as_they_are():
    _, flows = _dysts._modules()
    np.random.seed(3)  # noqa: NPY002
    expected = np.random.RandomState(3).uniform()
    get("Rossler")
    assert np.random.uniform() == expected  # noqa: NPY002
    assert flows.np is np
    assert flows.Rossler._rhs(1.0, 2.0, 3.0, 0.0, 0.2, 0.2, 5.7)[0] == -5.0


@pytest.mark.slow
def test_dysts_is_imported_on_first_use():
    code = (
        "import sys, ndde_jax.systems as s; s.get('hes1'); s.names('delay');"
        "assert not {'dysts', 'dysts.flows'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_command(capsys):
    command.main(["--kind", "delay"])
    table = capsys.readouterr().out.splitlines()
    assert len(table) == 1 + len(names("delay"))
    assert table[1].split()[:4] == ["cheyne_stokes", "1", "2", "0.25"]
