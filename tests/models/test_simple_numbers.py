"""Coefficients of polynomials that are whole, or equal in size, within the precision of data."""

import itertools
import math

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax.models._polynomials import all_exponents, fit_polynomial, physical_units

EXPONENTS = all_exponents(2)  # ten terms in two inputs
SMALL = ndde.fitting.StrengthConfig(restarts=1, steps=20, width=4, depth=1)


def by_hand(columns, y, degree):
    """The rules one by one, with least squares by NumPy. Return the coefficients, the residual
    variance and the number of estimated values. A group of terms has one size: `{term: sign}`.
    """
    held = np.zeros(columns.shape[1])
    groups = [{j: 1.0} for j in range(columns.shape[1])]

    def normal(gap, error):
        return math.exp(-((gap / error) ** 2) / 2) / math.sqrt(2 * math.pi) / error

    while True:
        grouped = np.stack([sum(s * columns[:, j] for j, s in g.items()) for g in groups], axis=1)
        rest = y - columns @ held
        sizes, *_ = np.linalg.lstsq(grouped, rest, rcond=None)
        variance = np.mean((rest - grouped @ sizes) ** 2)
        covariance = variance * np.linalg.inv(grouped.T @ grouped)
        moves = []
        for i, c in enumerate(sizes):
            if whole := round(c):
                odds = normal(c - whole, math.sqrt(covariance[i, i])) / abs(whole)
                moves.append((odds, i, whole))
        pairs = [
            (i, j)
            for i, j in itertools.combinations(range(len(groups)), 2)
            if degree[min(groups[i])] == degree[min(groups[j])] > 0
        ]
        for i, j in pairs:
            sign = math.copysign(1, sizes[i] * sizes[j])
            at = np.zeros(len(groups))
            at[i], at[j] = 1, -sign
            odds = normal(at @ sizes, math.sqrt(at @ covariance @ at)) / len(pairs)
            moves.append((odds * min(abs(sizes[i]), abs(sizes[j])), i, (j, sign)))
        odds, i, what = max(moves, default=(0, 0, 0), key=lambda move: move[0])
        if odds <= 1:
            for g, size in zip(groups, sizes, strict=True):
                for j, s in g.items():
                    held[j] = s * size
            return held, variance, len(groups)
        if isinstance(what, tuple):
            j, sign = what
            groups[i] |= {term: sign * s for term, s in groups[j].items()}
            groups.pop(j)
        else:
            for term, s in groups.pop(i).items():
                held[term] = s * what
        if not groups:
            return held, np.mean((y - columns @ held) ** 2), 0


@pytest.mark.parametrize("seed", range(8))
def test_coefficients_are_those_of_a_loop(seed):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(400, 2)) @ np.array([[1.0, 0.9], [0.0, 0.4]])
    terms = [(1, 0), (0, 1), (2, 0), (1, 1), (0, 3)]
    # Sizes that are equal or nearly so, a whole number, a nearly whole one, and one that is none.
    true = np.array([-6.3, 6.3 + 0.1 * (seed % 2), -1.0, 1.04, 0.4 + rng.uniform(0, 0.2)])
    unit = np.exp(rng.normal(size=len(EXPONENTS)))
    at = [EXPONENTS.index(e) for e in terms]
    columns = np.stack([np.prod(z ** np.array(e), axis=1) for e in EXPONENTS], axis=1) / unit
    y = columns[:, at] @ true + 0.2 * rng.normal(size=400)
    scaled = jnp.asarray(unit)

    arrays = map(jnp.asarray, (z, [True, True], y, np.ones(400)))
    found = fit_polynomial(*arrays, EXPONENTS, scaled)
    kept = np.flatnonzero(found.coefficients)
    assert set(kept) >= set(at)  # sometimes with a term that is absent
    degree = np.array([sum(EXPONENTS[t]) for t in kept])
    values, variance, free = by_hand(columns[:, kept], y, degree)
    np.testing.assert_allclose((found.coefficients * scaled)[kept], values, rtol=1e-5)
    np.testing.assert_allclose(found.risk, variance, rtol=1e-5)
    assert found.count == free < len(kept)


def test_the_better_the_data_the_closer_a_number_must_be():
    """Rounding stays within a few standard errors, and stops if the data resolve the difference."""
    rng = np.random.default_rng(3)
    z, noise = rng.normal(size=(20000, 2)), rng.normal(size=20000)
    kept = {}
    for n in (200, 20000):
        y = 1.03 * z[:n, 0] + 0.3 * noise[:n]
        arrays = map(jnp.asarray, (z[:n], [True, False], y, np.ones(n)))
        found = fit_polynomial(*arrays, EXPONENTS, jnp.ones(len(EXPONENTS)))
        kept[n] = float(found.coefficients[EXPONENTS.index((1, 0))])
    assert kept[200] == pytest.approx(1.0, abs=1e-12)
    assert kept[20000] == pytest.approx(1.03, abs=0.01) and kept[20000] != 1.0


def test_imprecise_numbers_are_left_alone():
    """Where every number lies within an error of a whole one, being close to one is no evidence."""
    rng = np.random.default_rng(1)
    z = rng.normal(size=(100, 2))
    y = 10 * z[:, 0] + 4 * rng.normal(size=100)
    arrays = [jnp.asarray(a) for a in (z, [True, False], y, np.ones(100))]
    plain = fit_polynomial(*arrays, EXPONENTS)
    asked = fit_polynomial(*arrays, EXPONENTS, jnp.ones(len(EXPONENTS)))
    np.testing.assert_allclose(asked.coefficients, plain.coefficients)
    assert asked.count == plain.count == 1


def test_the_free_coefficients_have_derivatives():
    """The derivatives of least squares with the other coefficients held."""
    rng = np.random.default_rng(3)
    z = rng.normal(size=(300, 2))
    output = jnp.asarray(2 * z[:, 0] + 0.537 * z[:, 1] + 0.1 * rng.normal(size=300))
    at = jnp.array([EXPONENTS.index((1, 0)), EXPONENTS.index((0, 1))])

    def coefficients(output):
        arrays = (jnp.asarray(z), jnp.array([True, True]), output, jnp.ones(300))
        return fit_polynomial(*arrays, EXPONENTS, jnp.ones(len(EXPONENTS))).coefficients[at]

    assert coefficients(output)[0] == pytest.approx(2, abs=1e-9)
    held, free = jax.jit(jax.jacrev(coefficients))(output)
    np.testing.assert_allclose(held, 0, atol=1e-9)
    np.testing.assert_allclose(free, z[:, 1] / (z[:, 1] @ z[:, 1]), rtol=1e-4, atol=1e-8)


def pendulum(offset, n=4000, dt=0.05):
    """x'' = −x − 0.3 x' with noise, measured from another origin."""
    rng, h = np.random.default_rng(2), dt / 10
    state, path = np.array([1.0, 0.0]), []
    for k in range(10 * n):
        if k % 10 == 0:
            path.append(state)
        rate = np.array([state[1], -state[0] - 0.3 * state[1]])
        state = state + h * rate + math.sqrt(h) * np.array([0.1, 0.5]) * rng.normal(size=2)
    return np.array(path) + np.array([offset, 0.0])


@pytest.mark.slow
@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_a_velocity_is_a_velocity(offset):
    windows = ndde.lagged_windows(pendulum(offset), dt=0.05)
    options = dict(key=jr.key(0), rounds=3, family="polynomial")
    graph = jnp.array([[False, True], [True, True]])[:, :, None]
    plain = ndde.equations(ndde.fitting.fit_flow(windows, graph, **options), ("x", "v"))
    found = ndde.equations(
        ndde.fitting.fit_flow(windows, graph, simple_numbers=True, **options), ("x", "v")
    )
    assert found[0] == "dx/dt = v" != plain[0]
    if offset:
        # Zero is far from where x has been: what its coefficients are depends on the origin.
        assert found[1] == plain[1]
    else:
        assert found[1].startswith("dv/dt = -x - 0.") and plain[1] != found[1]


def test_units_turn_coefficients_into_those_of_the_equation():
    windows = ndde.lagged_windows(pendulum(1000.0), dt=0.05, lags=(0, 3))
    s = windows.scaling
    # Inputs are flat, lag by lag: the velocity now, and three samples ago.
    units = physical_units(s, jnp.array([1, 3]), jnp.asarray(1), EXPONENTS)
    for powers, unit in zip(EXPONENTS, units, strict=True):
        assert unit == pytest.approx(float(s.rate_scale[1] / s.scale[1] ** sum(powers)))
    units = physical_units(s, jnp.array([0, 1]), jnp.asarray(0), EXPONENTS)
    for powers, unit in zip(EXPONENTS, units, strict=True):
        assert (unit == 0) == (powers[0] > 0)


@pytest.mark.slow
def test_several_systems_at_once_find_what_each_finds_alone():
    both = [ndde.lagged_windows(pendulum(offset, n=500), dt=0.05) for offset in (0.0, 1000.0)]

    def drift(windows):
        options = dict(rounds=1, family="polynomial", simple_numbers=True, config=SMALL)
        return ndde.fitting.fit_flow(windows, key=jr.key(0), **options)(
            windows.scaling.center[None] + 0.5
        )

    stacked = jax.tree.map(lambda *a: jnp.stack(a), *both)
    together = jax.vmap(drift)(stacked)
    for one, windows in zip(together, both, strict=True):
        np.testing.assert_allclose(one, drift(windows), rtol=1e-6, atol=1e-9)
