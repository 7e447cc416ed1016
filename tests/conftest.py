"""Strict JAX for every test: double precision on, silent promotion of ranks and types off.

Warnings are errors and jaxtyping annotations are checked by beartype (see `pyproject.toml`).
"""

import zlib

import hypothesis
import jax
import pytest

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_disable_most_optimizations", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")

# The first example of a property compiles and takes seconds, the next take milliseconds: a deadline
# would only report that. Derandomised, so that a red run is red for everybody.
hypothesis.settings.register_profile(
    "ndde_jax", deadline=None, derandomize=True, max_examples=50, print_blob=True
)
hypothesis.settings.load_profile("ndde_jax")


@pytest.fixture(autouse=True)
def compile_quickly(request):
    """Quick tests spend most of their time compiling, so they do without the optimisations; slow
    ones run what users run.
    """
    quick = request.node.get_closest_marker("slow") is None
    jax.config.update("jax_disable_most_optimizations", quick)


@pytest.fixture(autouse=True, scope="module")
def forget_compiled_programs():
    """Thousands of compiled programs exhaust the memory maps of a process, which then crashes."""
    yield
    jax.clear_caches()


@pytest.fixture
def getkey(request):
    """A function that returns a fresh PRNG key each time; the sequence is fixed per test."""
    # The node's name, not its position: reordering or selecting tests changes no test's numbers.
    root = jax.random.key(zlib.crc32(request.node.name.encode()))
    calls = 0

    def next_key():
        nonlocal calls
        calls += 1
        return jax.random.fold_in(root, calls)

    return next_key
