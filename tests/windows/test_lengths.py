"""Memory of a process after many records of different lengths.

`python -m tests.windows.test_lengths` prints the figures of a thousand lengths.
"""

import subprocess
import sys

import pytest

PROGRAM = """
import numpy as np
import ndde_jax as ndde


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 1e6


rng, windows = np.random.default_rng(0), None
for i in range({lengths}):
    x = rng.normal(size=(60 + i, 2)).cumsum(axis=0)
    new = ndde.lagged_windows(x, dt=1.0, lags=(0, 1))
    windows = new if windows is None else windows
    int(new.n_valid), ndde.stack_windows([windows, new])
    ndde.windows.unstack_windows(ndde.stack_windows([new]))
    if i + 1 in (50, {lengths}):
        print(resident())
"""


def resident_after(lengths: int) -> tuple[float, float]:
    """Megabytes after 50 lengths and after all of them, in a separate process."""
    run = [sys.executable, "-c", PROGRAM.format(lengths=lengths)]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    first, last = map(float, done.stdout.split())
    return first, last


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_new_length_of_data_costs_no_memory():
    """Every new length used to cost seven megabytes permanently: 3.5 times as much after 300."""
    first, last = resident_after(300)
    assert last < 1.15 * first


if __name__ == "__main__":
    first, last = resident_after(1000)
    print(f"resident after 50 lengths {first:.0f} MB, after 1000 {last:.0f} MB: {last / first:.2f}")
