"""Named systems: equations against formulas, graphs against derivatives, bounded trajectories."""

import functools
import inspect
import math
import re
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import ndde_jax as ndde
import ndde_jax.systems
from ndde_jax.systems import System, get, names

from .formulas import FORMULAS

NAMES = names("delay")
# These come to rest without noise.
NOISE_DRIVEN = ("linear_one_lag", "linear_several_lags", "minus_delay")
POINTS = 32
SHARES = np.array([0.0, 1e-6, -1e-6, 0.1])


class Facts(NamedTuple):
    path: np.ndarray  # [time dim]
    t: np.ndarray  # of the points below
    x: np.ndarray  # [point dim]
    lagged: np.ndarray  # [point delay dim]
    rates: np.ndarray  # [point dim]
    jacobian: np.ndarray  # [point lag target source]
    gradient: np.ndarray  # of the sum of rates as all parameters grow
    batch: np.ndarray  # drift at the first point for parameters larger by SHARES
    larger: np.ndarray  # the same of a system made with the largest of them


def grown(system, share):
    """Parameters larger by a share, by half of it, etc.: some systems depend on ratios only."""
    return {
        key: system.parameters[key] * (1 + share / n)
        for n, key in enumerate(sorted(system.parameters), start=1)
    }


@functools.cache
def facts(name):
    """Everything that needs the compiler, so that each system is compiled once."""
    system = get(name)
    counts = [round(float(lag) / system.dt) for lag in system.lags]
    size, dim = max(counts) + 1, system.dim
    n_steps = round(1.5 * system.transient / system.dt)
    rng = np.random.default_rng(0)
    noise = np.zeros((n_steps, dim))
    if name in NOISE_DRIVEN:
        noise = rng.normal(size=noise.shape) * np.asarray(system.sigma) * math.sqrt(system.dt)
    chosen = np.sort(rng.integers(n_steps // 2, n_steps, POINTS))
    shake = 1 + 0.05 * rng.normal(size=(POINTS, 1 + len(counts), dim))

    @eqx.filter_jit
    def run(system, noise, chosen, shake):
        def step(ring, inputs):
            k, increment = inputs
            x = ring[k % size]
            lagged = jnp.stack([ring[(k - count) % size] for count in counts])
            new = x + system.dt * system.drift(k.astype(float) * system.dt, x, lagged) + increment
            return ring.at[(k + 1) % size].set(new), new

        ring = jnp.tile(system.history, (size, 1))
        path = jax.lax.scan(step, ring, (jnp.arange(n_steps), noise))[1]
        steps = jnp.asarray([0, *counts])
        states = path[chosen[:, None] - steps[None, :]] * shake
        t, x, lagged = chosen.astype(float) * system.dt, states[:, 0], states[:, 1:]
        rates = jax.vmap(system.drift)(t, x, lagged)
        jacobian = jax.vmap(system.jacobian)(t, x, lagged)

        def drift(share):
            return system.drift(t[0], x[0], lagged[0], grown(system, share))

        def total(share):
            return jnp.sum(rate := drift(share)), rate

        # For all shares, as it is one program with the rates.
        (_, batch), gradient = jax.vmap(jax.value_and_grad(total, has_aux=True))(SHARES)
        larger = system.with_parameters(**grown(system, SHARES[3])).drift(t[0], x[0], lagged[0])
        return Facts(path, t, x, lagged, rates, jacobian, gradient[0], batch, larger)

    return jax.tree.map(np.asarray, run(system, noise, chosen, shake))


def test_every_system_has_a_formula():
    # The random network is checked below against the ring and the star, which share its code.
    assert set(FORMULAS) == set(NAMES) - {"mackey_glass_network"}
    assert len(NAMES) >= 28


@pytest.mark.parametrize("name", FORMULAS)
def test_drift_is_the_formula(name):
    found = facts(name)
    expected = [
        FORMULAS[name](t, x, late)
        for t, x, late in zip(found.t, found.x, found.lagged, strict=True)
    ]
    np.testing.assert_allclose(found.rates, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_graph_is_where_derivatives_do_not_vanish(name):
    # Exactly zero, and not merely small, where no edge is declared.
    found = np.abs(facts(name).jacobian).max(axis=0) > 0
    np.testing.assert_array_equal(get(name).graph, found.transpose(2, 1, 0))


@pytest.mark.parametrize("name", NAMES)
def test_trajectories_stay_bounded_and_move(name):
    path = facts(name).path
    assert np.isfinite(path).all()
    middle, last = np.array_split(path, 3)[1:]
    assert (last.std(axis=0) > 1e-2 * (np.abs(last).mean(axis=0) + 1e-6)).all()
    if name not in NOISE_DRIVEN:
        assert (last.std(axis=0) > 0.4 * middle.std(axis=0)).all()
    spread = middle.max(axis=0) - middle.min(axis=0)
    center = (middle.max(axis=0) + middle.min(axis=0)) / 2
    assert (np.abs(last - center[None]) < 1.5 * spread[None]).all()


@pytest.mark.parametrize("name", NAMES)
def test_shapes_lags_and_steps(name):
    system = get(name)
    dim, n_lags = system.dim, system.lags.shape[0]
    assert system.name == name
    assert system.history.shape == (dim,) == (len(set(system.variables)),)
    assert system.graph.shape == (dim, dim, 1 + n_lags)
    assert system.graph.dtype == bool
    assert system.graph[:, :, 1:].any(axis=(0, 1)).all(), "a lag that nothing uses"
    assert system.graph.any(axis=(0, 2)).all(), "a variable that nothing drives"
    assert system.sigma.shape in ((), (dim,))
    assert (system.sigma >= 0).all() and (system.sigma > 0).any()
    assert n_lags >= 1
    assert (np.diff([0.0, *np.asarray(system.lags)]) > 0).all()
    for whole in (*system.lags / system.dt, system.sampling_step / system.dt):
        assert whole == pytest.approx(round(float(whole)), abs=1e-6)
    samples = system.lags / system.sampling_step
    np.testing.assert_allclose(samples, np.round(samples), atol=1e-6)
    assert 2 <= round(float(samples[0])) <= 200
    assert system.transient > 5 * float(system.lags[-1])


@pytest.mark.parametrize("name", NAMES)
def test_words(name):
    system = get(name)
    first, *rest = system.description.splitlines()
    assert first.endswith(".")
    assert "=" in "".join(rest)
    assert re.search(r"(19|20)\d\d|made|linear theory", system.source)


@pytest.mark.parametrize("name", NAMES)
def test_parameters_can_be_batched_and_differentiated(name):
    system, found = get(name), facts(name)
    np.testing.assert_allclose(found.batch[0], found.rates[0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.batch[3], found.larger, rtol=1e-9, atol=1e-12)
    difference = np.sum(found.batch[1] - found.batch[2]) / 2e-6
    scale = np.abs(found.batch).sum()
    np.testing.assert_allclose(found.gradient, difference, rtol=1e-5, atol=1e-7 * scale)
    assert (np.abs(found.gradient) > 0) == bool(system.parameters)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mackey_glass_network", {"seed": 3, "size": 7, "probability": 0.4}),
        ("mackey_glass_ring", {"size": 3}),
        ("hopfield_ring", {"size": 5}),
        ("lorenz96_delayed", {"size": 5}),
        ("lorenz96_delayed", {"size": 9}),
    ],
)
def test_graph_follows_the_size(name, options, getkey):
    system = get(name, **options)
    x = system.history[None] + 0.3 * jr.normal(getkey(), (5, system.dim))
    lagged = 1 + 0.3 * np.random.default_rng(0).normal(size=(5, system.lags.size, system.dim))
    jacobian = jax.jit(jax.vmap(lambda x, lagged: system.jacobian(0.0, x, lagged)))(x, lagged)
    found = np.abs(jacobian).max(axis=0) > 0
    np.testing.assert_array_equal(system.graph, found.transpose(2, 1, 0))


def test_networks():
    ring, star = get("mackey_glass_ring", size=4), get("mackey_glass_star")
    links = np.asarray(ring.graph[:, :, 1])
    assert {(int(i), int(j)) for i, j in zip(*links.nonzero(), strict=True)} == {
        (0, 1),
        (1, 2),
        (2, 3),
        (3, 0),
    }
    assert star.graph[0, 1:, 1].all() and not star.graph[1:, :, 1].any()
    one, same, other = (get("mackey_glass_network", seed=seed).graph for seed in (1, 1, 2))
    assert (one == same).all() and (one != other).any()
    weights = get("mackey_glass_network", coupling=0.4).parameters["weights"]
    received = np.asarray(weights.sum(axis=0))
    assert np.isclose(received, 0.4).sum() + (received == 0).sum() == 6


def test_options_and_updates():
    system = get("mackey_glass", tau=23, beta=0.25)
    assert float(system.lags[0]) == 23
    assert float(system.parameters["beta"]) == 0.25
    assert round(23 / system.dt) * system.dt == pytest.approx(23)
    assert get("mackey_glass_23").lags == system.lags
    odd = get("mackey_glass", tau=16.73)
    assert 16.73 / odd.sampling_step == pytest.approx(round(16.73 / odd.sampling_step))
    changed = system.with_parameters(gamma=0.2).with_lags([20.0])
    assert isinstance(changed, System)
    assert float(changed.parameters["gamma"]) == 0.2 and float(changed.parameters["beta"]) == 0.25
    assert float(changed.lags[0]) == 20
    assert float(system.parameters["gamma"]) == pytest.approx(0.1)  # the original is unchanged


def test_systems_pass_through_transformations():
    system = get("mackey_glass")
    x, late = jnp.asarray([0.9]), jnp.asarray([[1.1]])

    def rate(beta, tau):
        changed = system.with_parameters(beta=beta).with_lags(tau[None])
        return changed.drift(0.0, x, late)[0] + 0 * changed.lags[0]

    beta, tau = jnp.asarray([0.2, 0.3]), jnp.asarray([17.0, 18.0])
    batch = jax.vmap(rate)(beta, tau)
    assert batch[0] < batch[1]
    expected = 1.1 / (1 + 1.1**10)
    np.testing.assert_allclose(jax.vmap(jax.grad(rate))(beta, tau), expected, rtol=1e-12)
    grads = eqx.filter_grad(lambda s: s.drift(0.0, x, late)[0])(system)
    assert float(grads.drift.parameters["beta"]) == pytest.approx(expected)
    # New numbers, same structure: nothing is compiled again.
    run = eqx.filter_jit(eqx.debug.assert_max_traces(lambda s: s.drift(0.0, x, late), max_traces=1))
    run(system)
    run(system.with_parameters(beta=0.3).with_lags([18.0]))


def test_single_precision():
    with jax.enable_x64(False):
        system = get("enso3_chain")
        assert {
            leaf.dtype for leaf in jax.tree.leaves(eqx.filter(system, eqx.is_inexact_array))
        } == {np.dtype("float32")}
        assert system.drift(0.0, system.history, jnp.ones((3, 3))).dtype == np.float32


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: get("mackey_glas"), "did you mean 'mackey_glass'"),
        (lambda: get("lorenz"), "'Lorenz'"),
        (lambda: get("MackeyGlass"), "here it is 'mackey_glass'"),
        (lambda: get("mackey_glass", bet=1.0), "no option 'bet'; did you mean 'beta'"),
        (lambda: get("mackey_glass", tau=-1.0), "positive and finite"),
        (lambda: get("mackey_glass", tau=np.nan), "positive and finite"),
        (lambda: get("mackey_glass_ring", delay=30.0), "ascending"),
        (lambda: get("mackey_glass_ring", size=1), "at least 2"),
        (lambda: get("mackey_glass_star", coupling=1.0), "between 0 and 1"),
        (lambda: get("mackey_glass_network", probability=2.0), "in \\[0, 1\\]"),
        (lambda: get("hopfield_ring", size=4), "odd"),
        (lambda: get("lorenz96_delayed", size=4), "at least 5"),
        (lambda: get("hes1").with_parameters(tau=3.0), "with_lags"),
        (lambda: get("hes1").with_parameters(n=[3.0]), "must have shape \\(\\)"),
        (lambda: get("hes1").with_lags([1.0, 2.0]), "must have shape \\(1,\\)"),
        (lambda: get("tziperman_enso").with_lags([2.0, 1.0]), "ascending"),
        (lambda: names("sde"), "one of 'delay' or 'dysts'; got 'sde'"),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_examples_in_the_documentation_run(capsys):
    documented = (ndde.systems, get, names, ndde.systems.Drift)
    for thing in documented:
        (code,) = re.findall(r"```python\n(.*?)```", inspect.getdoc(thing), flags=re.DOTALL)
        exec(code, {})
    assert capsys.readouterr().out
