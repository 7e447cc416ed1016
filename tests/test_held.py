import dataclasses
import pickle

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from ndde_jax._store import _Packed, held, look
from ndde_jax._types import concretely


class Tree(eqx.Module):
    number: jax.Array
    table: jax.Array
    name: str = eqx.field(static=True, default="tree")


@held("tree", "rest")
@dataclasses.dataclass(frozen=True)
class Answer:
    title: str
    tree: Tree
    rest: object


def answer(rest=None):
    tree = Tree(jnp.float32(1.5), jnp.arange(6, dtype=jnp.int32).reshape(2, 3))
    return Answer("a", tree, rest)


def is_packed(one):
    return isinstance(vars(one)["tree"], _Packed)


def test_nothing_of_jax_is_held_until_it_is_asked_for():
    one = answer()
    assert not any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(vars(one)["tree"].tree))
    tree = one.tree
    assert isinstance(tree.table, jax.Array) and tree.table.dtype == jnp.int32
    assert tree.number.dtype == jnp.float32 and tree.number.shape == ()
    np.testing.assert_array_equal(tree.table, np.arange(6).reshape(2, 3))
    assert one.tree is tree


def test_what_is_no_array_of_jax_comes_back_as_it_is():
    rest = {"numpy": np.arange(3.0), "text": "b", "key": jr.key(3), "weak": jnp.asarray(2.0)}
    assert rest["weak"].weak_type
    back = answer(rest).rest
    assert type(back["numpy"]) is np.ndarray and back["text"] == "b"
    assert back["key"] is rest["key"] and back["weak"].weak_type


def test_a_copy_is_held_and_cannot_be_changed():
    table = np.arange(6, dtype=np.int32).reshape(2, 3)
    one = Answer("a", Tree(jnp.float32(0), jnp.asarray(table)), None)
    table[:] = -1
    assert not any(leaf.flags.writeable for leaf in jax.tree.leaves(vars(one)["tree"].tree))
    np.testing.assert_array_equal(one.tree.table, np.arange(6).reshape(2, 3))


def test_numbers_are_concrete_where_a_function_is_traced():
    one = answer()

    @jax.jit
    def f(x):
        return x * (float(one.tree.number) * 2)

    assert f(jnp.float32(2)) == 6
    assert not isinstance(one.tree.table, jax.core.Tracer)


def test_looking_leaves_it_packed():
    one = answer()
    assert isinstance(look(one, "tree").table, jax.Array) and look(one, "title") == "a"
    assert is_packed(one)


def test_pickled_replaced_and_compared_like_any_dataclass():
    one = answer()
    assert is_packed(pickle.loads(pickle.dumps(one)))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(one)).tree.table, one.tree.table)
    other = dataclasses.replace(one, title="b")
    assert other.title == "b" and is_packed(other)
    assert [field.default for field in dataclasses.fields(Answer)] == [dataclasses.MISSING] * 3


def test_numbers_are_numbers_in_a_trace_and_nothing_is_compiled_anew_outside():
    traces = []

    @jax.jit
    def kept(x):
        traces.append(x)
        return x + jnp.eye(2)

    kept(1.0)
    with concretely():
        kept(1.0)
    assert len(traces) == 1

    @jax.jit
    def traced(x):
        assert isinstance(jnp.zeros(2), jax.core.Tracer)
        with concretely():
            assert not isinstance(jnp.zeros(2), jax.core.Tracer)
        return x

    traced(1.0)
