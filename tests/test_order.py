"""No two batches of factorisations wait for threads at the same time, see `after`."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator

import equinox as eqx
import jax
import jax.extend
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax._memory import after

# Primitives of JAX that become calls of LAPACK, and under `vmap` batches of them.
FACTORISATIONS = {
    "cholesky",
    "eigh",
    "geqrf",
    "householder_product",
    "lu",
    "qr",
    "svd",
    "triangular_solve",
}
# Calls that XLA treats as if their contents were inlined.
INLINED = {"jit", "pjit", "closed_call", "custom_jvp_call", "custom_vjp_call", "core_call"}


def _inner(equation) -> list:
    """The programs inside an equation."""
    found = []
    for value in equation.params.values():
        for part in value if isinstance(value, tuple | list) else (value,):
            if isinstance(part, jax.extend.core.ClosedJaxpr):
                found.append(part.jaxpr)
            elif isinstance(part, jax.extend.core.Jaxpr):
                found.append(part)
    return found


def _factorises(equation) -> bool:
    inside = any(_factorises(e) for jaxpr in _inner(equation) for e in jaxpr.eqns)
    return equation.primitive.name in FACTORISATIONS or inside


def _outputs(equation, waits: frozenset) -> list[frozenset]:
    """Calls that users of its outputs wait for."""
    if equation.primitive.name == "qr":
        # Two calls: Q is made from R's factorisation by another one.
        first, second = (id(equation), "R"), (id(equation), "Q")
        return [waits | {first, second}, waits | {first}]
    own = {(id(equation), "")} if _factorises(equation) else set()
    return [waits | own] * len(equation.outvars)


def _flat(jaxpr, before: dict) -> Iterator[tuple]:
    """Equations and all factorisations that each waits for; `before` has those of variables."""

    def of(variable):
        return before.get(variable, frozenset()) if not hasattr(variable, "val") else frozenset()

    for equation in jaxpr.eqns:
        waits = frozenset().union(*(of(v) for v in equation.invars))
        if equation.primitive.name in INLINED:
            (body,) = _inner(equation)
            inside = dict(zip(body.invars, map(of, equation.invars), strict=True))
            yield from _flat(body, inside)
            ends = [
                frozenset() if hasattr(v, "val") else inside.get(v, frozenset())
                for v in body.outvars
            ]
        else:
            ends = _outputs(equation, waits)
            yield equation, waits, frozenset().union(*ends) - waits
        before.update(zip(equation.outvars, ends, strict=True))


def side_by_side(jaxpr) -> list[str]:
    """Pairs of factorisations, or of loops with some, neither of which waits for the other."""
    equations = list(_flat(jaxpr, {}))
    names = {call: e.primitive.name + call[1] for e, _, calls in equations for call in calls}
    # If only R is used, Q is never computed.
    used = {call for _, waits, _ in equations for call in waits}
    found, seen = [], []
    for equation, waits, calls in equations:
        found += [f"{names[a]} and {names[b]}" for a in seen for b in calls if a not in waits]
        seen += [call for call in calls if call[1] != "Q" or call in used]
        for body in _inner(equation) if calls else ():
            found += side_by_side(body)
    return found


def test_the_check_sees_what_runs_side_by_side():
    solve = jax.scipy.linalg.solve_triangular

    def both(a):
        return jnp.linalg.cholesky(a) + jnp.linalg.inv(a)

    def triangles(a):
        q, r = jnp.linalg.qr(a)
        return q @ solve(r, jnp.eye(2))

    def ordered(a):
        q, r = jnp.linalg.qr(a)
        return q @ solve(r, after(jnp.eye(2), q))

    def only_r(a):
        return solve(jnp.linalg.qr(a, mode="r"), jnp.eye(2))

    def repeated(a):
        return jax.lax.fori_loop(0, 3, lambda _, b: triangles(b), a)

    found = {f.__name__: side_by_side(jax.make_jaxpr(f)(jnp.eye(2)).jaxpr) for f in (
        both, triangles, ordered, only_r, repeated
    )}  # fmt: skip
    assert found["both"] and not found["ordered"] and not found["only_r"]
    assert found["triangles"] == ["qrQ and triangular_solve"] == found["repeated"]


@pytest.mark.parametrize("value", [0.0, -0.0, 3.5, -2.0, np.inf])
def test_waiting_changes_no_number(value):
    number = jnp.asarray([value, 1.0], jnp.float32)
    waited = jax.jit(after)(number, jnp.asarray([-np.inf, np.nan]))
    np.testing.assert_array_equal(waited, number)
    assert waited.dtype == number.dtype


def _gates(windows, key):
    gates = ndde.select.Gates(config=ndde.FitConfig(max_steps=20), improve=False)
    return ndde.recover(windows, gates, key=key)


VERBS = {
    "splines": lambda w, key: ndde.recover(w, ndde.select.Splines(), key=key),
    "gates": _gates,
    "moves": lambda w, key: ndde.recover(w, ndde.select.Moves(), key=key),
    "polynomials": lambda w, key: ndde.fit_drift(w, "full", ndde.models.Polynomials(), key=key),
    "networks": lambda w, key: ndde.fit_drift(w, "full", ndde.models.Networks(), key=key),
}


def some_windows(seed: int, length: int = 60) -> ndde.Windows:
    x = np.cumsum(np.random.default_rng(seed).normal(size=(length, 2)), axis=0) / 5
    return ndde.lagged_windows(x.astype(np.float32), dt=1.0, lags=(0, 1))


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
def test_of_many_systems_no_two_factorisations_run_side_by_side(verb):
    systems = ndde.stack_windows([some_windows(seed) for seed in range(2)])
    arrays, static = eqx.partition(systems, eqx.is_array)

    def mapped(arrays, keys):
        found = eqx.filter_vmap(VERBS[verb])(eqx.combine(arrays, static), keys)
        return eqx.filter(found, eqx.is_array)

    program = jax.make_jaxpr(mapped)(arrays, jr.split(jr.key(0), 2)).jaxpr
    assert any(_factorises(equation) for equation in program.eqns)
    assert side_by_side(program) == []


@pytest.mark.slow
def test_a_batch_of_many_systems_ends_where_xla_has_two_threads():
    program = """
        import equinox as eqx, jax, jax.random as jr, numpy as np
        import ndde_jax as ndde

        def windows(seed):
            x = np.cumsum(np.random.default_rng(seed).normal(size=(500, 3)), axis=0)
            return ndde.lagged_windows(x.astype(np.float32), dt=1.0, lags=(0, 1, 2))

        family = ndde.models.Polynomials()
        fit = lambda w, key: ndde.fit_drift(w, "full", family, flow=None, key=key)
        systems = ndde.stack_windows([windows(seed) for seed in range(64)])
        run = eqx.filter_jit(eqx.filter_vmap(fit))
        for _ in range(3):
            jax.block_until_ready(run(systems, jr.split(jr.key(0), 64)))
    """
    environment = {**os.environ, "NPROC": "2"}
    command = [sys.executable, "-c", textwrap.dedent(program)]
    subprocess.run(command, env=environment, check=True, timeout=300)
