"""Searches use one thread for linear algebra, and leave other settings unchanged."""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("threadpoolctl")

# threadpoolctl queries the library itself, by other means.
SCRIPT = """
import json, threading, numpy, scipy.linalg, threadpoolctl
from ndde_jax._blas import limit_blas_to_one_thread, one_blas_thread
def threads():
    return [pool["num_threads"] for pool in threadpoolctl.threadpool_info()
            if pool["internal_api"] == "openblas"]
entered, leave = threading.Event(), threading.Event()
def other():
    with one_blas_thread():
        entered.set()
        leave.wait()
seen = [threads()]
thread = threading.Thread(target=other)
with one_blas_thread():
    thread.start()
    entered.wait()
    seen.append(threads())
seen.append(threads())
leave.set()
thread.join()
seen.append(threads())
limit_blas_to_one_thread()
print(json.dumps([*seen, threads()]))
"""


@pytest.mark.parametrize("chosen", [None, pytest.param("2", marks=pytest.mark.slow)])
def test_openblas_gets_one_thread_unless_the_user_chose(chosen):
    environment = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    if chosen:
        environment["OPENBLAS_NUM_THREADS"] = chosen
    made = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
    )
    before, inside, other_inside, between, after = json.loads(made.stdout)
    if not before or os.cpu_count() == 1:
        pytest.skip("this NumPy has no OpenBLAS, or there is one core")
    assert set(before) == {min(2, os.cpu_count()) if chosen else os.cpu_count()}
    assert between == before and len(before) == 2
    one = [1, 1] if chosen is None else before
    assert inside == other_inside == after == one


# The number of threads of a search, queried where it decomposes matrices.
AFTER = """
import json, numpy, threadpoolctl
import ndde_jax as ndde
seen, eigh = [], numpy.linalg.eigh
def asked(*args):
    pools = threadpoolctl.threadpool_info()
    seen.extend(pool["num_threads"] for pool in pools if pool["internal_api"] == "openblas")
    return eigh(*args)
numpy.linalg.eigh = asked
windows = ndde.lagged_windows(numpy.random.default_rng(0).normal(size=(200, 2)), dt=1.0)
graph = numpy.eye(2, dtype=bool)[..., None]
ndde.assess.error_rates(windows, graph)
count = len(seen)
ndde.assess.relations(windows, graph)
print(json.dumps([seen, count]))
"""


@pytest.mark.slow
def test_what_follows_a_search_uses_one_thread_too():
    environment = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    made = subprocess.run(
        [sys.executable, "-c", AFTER], env=environment, capture_output=True, text=True, check=True
    )
    seen, count = json.loads(made.stdout)
    if not seen or os.cpu_count() == 1:
        pytest.skip("this NumPy has no OpenBLAS, or there is one core")
    assert 0 < count < len(seen) and set(seen) == {1}
