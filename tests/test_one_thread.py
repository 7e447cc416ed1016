"""Command lines use one thread for linear algebra, and leave other choices alone."""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("threadpoolctl")

# threadpoolctl asks the library itself, by other means.
SCRIPT = """
import json, numpy, threadpoolctl
from ndde_jax._program import one_blas_thread
def threads():
    return [pool["num_threads"] for pool in threadpoolctl.threadpool_info()
            if pool["internal_api"] == "openblas"]
before = threads()
one_blas_thread()
import scipy.linalg
print(json.dumps([before, threads()]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("chosen", [None, "2"])
def test_openblas_gets_one_thread_unless_the_user_chose(chosen):
    environment = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    if chosen:
        environment["OPENBLAS_NUM_THREADS"] = chosen
    made = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
    )
    before, after = json.loads(made.stdout)
    if not before or os.cpu_count() == 1:
        pytest.skip("this NumPy has no OpenBLAS, or there is one core")
    assert set(before) == {min(2, os.cpu_count()) if chosen else os.cpu_count()}
    assert set(after) == ({1} if chosen is None else set(before))
    assert len(after) > len(before)
