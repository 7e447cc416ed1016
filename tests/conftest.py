"""Strict JAX for every test: double precision on, silent promotion of ranks and types off.

Warnings are errors and jaxtyping annotations are checked by beartype (see `pyproject.toml`).
"""

import gc
import mmap
import os
import platform
import shutil
import zlib
from pathlib import Path

import hypothesis
import jax
import jaxlib
import jaxlib.version
import pytest

# Matrices are small and both cores are taken by workers, which inherit this setting: threads of
# BLAS would spin for a third of the time. (NumPy reads it once, so it reaches workers and not this
# process.)
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_disable_most_optimizations", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")
# Where every operation was written helps profilers only, and costs a sixth of the time of tracing.
jax.config.update("jax_traceback_in_locations_limit", 0)

# The first example of a property compiles for seconds, the next take milliseconds: a deadline would
# only report that. Derandomised, so that a failing run fails for everybody.
hypothesis.settings.register_profile(
    "ndde_jax", deadline=None, derandomize=True, max_examples=50, print_blob=True
)
hypothesis.settings.load_profile("ndde_jax")


VERSION = jaxlib.version.__version_info__
QUICK_COMPILER = (
    # XLA generates fused loops through MLIR, which takes more than half of the compilation time.
    # Without that, its older emitters generate them, in releases that still have these.
    *(["--xla_cpu_use_fusion_emitters=false"] if VERSION < (0, 11, 1) else []),
    # A program is split into 32 modules for as many threads, and each is copied and set up again;
    # the cores are busy with the other worker anyway.
    "--xla_cpu_parallel_codegen_split_count=1",
    # Some releases refuse to load code for AVX-512 that they saved, see _program.py.
    *(
        ["--xla_cpu_max_isa=AVX2"]
        if VERSION < (0, 10, 2) and platform.machine() == "x86_64"
        else []
    ),
)
# Out of 65530 memory maps that Linux grants a process: a program takes about eleven, and a module
# makes at most some five hundred programs. Discarding them takes seconds, and discarded programs
# compile again.
MEMORY_MAPS = 50_000
# More compiled programs than that are discarded.
CACHE_BYTES = 2**30


def pytest_configure(config):
    """For the quick tests; the slow ones run the settings of users."""
    # Tracing makes so much garbage that collecting it took a twentieth of the time.
    gc.set_threshold(50_000, 20, 20)
    if config.option.markexpr != "not slow":
        return
    # XLA reads its flags once, before the first program, and aborts a process at an unknown one.
    known = filter(_known_to_xla, QUICK_COMPILER)
    os.environ["XLA_FLAGS"] = " ".join((os.environ.get("XLA_FLAGS", ""), *known))
    _reuse_compiled_programs(config)


def pytest_collection():
    """With its first property Hypothesis searches all objects for owners of NumPy's generator.
    While objects are few, that takes less than a second.
    """

    @hypothesis.given(hypothesis.strategies.none())
    def any_property(_):
        pass

    any_property()


def _reuse_compiled_programs(config):
    """Use programs of the other worker and of the last run in this checkout, which saves half of
    the time.

    `pytest --cache-clear` deletes them. Processes that tests start do not take part.
    """
    if not hasattr(config, "cache") or "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    directory = config.cache.mkdir("xla")
    if not hasattr(config, "workerinput"):  # once, before there are workers
        if sum(entry.stat().st_size for entry in os.scandir(directory)) > CACHE_BYTES:
            shutil.rmtree(directory)
        directory = config.cache.mkdir("xla")
    jax.config.update("jax_compilation_cache_dir", str(directory))
    # Writing one takes a twentieth of a second, and six of ten seconds are spent on programs that
    # take longer.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def _known_to_xla(flag):
    name = flag.lstrip("-").partition("=")[0].encode()
    for library in Path(jaxlib.__file__).parent.glob("libjax_common*"):
        with open(library, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as m:
            return m.find(name) >= 0
    return False


@pytest.fixture(autouse=True)
def compile_quickly(request):
    """Quick tests spend most of their time compiling, so they omit the optimisations; slow ones run
    the settings of users.
    """
    quick = request.node.get_closest_marker("slow") is None
    jax.config.update("jax_disable_most_optimizations", quick)


@pytest.fixture(autouse=True, scope="module")
def forget_compiled_programs():
    """Thousands of compiled programs exhaust the memory maps of a process, which then crashes. But
    programs of one module often serve the next.
    """
    yield
    maps = Path("/proc/self/maps")
    if not maps.exists() or maps.read_bytes().count(b"\n") > MEMORY_MAPS:
        jax.clear_caches()


@pytest.fixture(autouse=True, scope="session")
def forget_here_only():
    """The library discards compiled programs earlier than the fixture above, for users' loops,
    which takes seconds each time.
    """
    from ndde_jax import _memory  # not before its types are checked

    _memory.MOST_MAPS = MEMORY_MAPS


def pytest_sessionfinish():
    """Nothing is left to collect among compiled programs, and searching them takes seconds."""
    gc.freeze()


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
