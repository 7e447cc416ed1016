"""The speed benchmark counts and solves what it states; seconds are never asserted."""

import math
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ndde_jax as ndde
from benchmarks.speed import (
    __main__ as speed,
    _timing,
    batches,
    discovery,
    fits,
    peers,
    simulator,
    systems,
)
from ndde_jax.fit._fit import empirical_risk
from ndde_jax.models._networks import init_layers

REPOSITORY = Path(__file__).parents[2]
TINY = simulator.Sizes(
    steps=300,
    batch_steps=200,
    batch=3,
    duration=34,
    linear_steps=200,
    mackey_glass_steps=200,
    lyapunov_duration=400,
    repeats=1,
)


@pytest.mark.parametrize(("n_targets", "n_inputs"), [(3, 3), (10, 20)])
def test_operations_of_a_step_against_the_compiler(n_targets, n_inputs):
    """XLA's own count for the gradient exceeds the matrix products only by the elementwise rest."""
    layers = init_layers(n_targets, n_inputs, width=8, depth=2, key=jax.random.key(0))
    shapes = ((n_inputs, fits.BATCH), (n_targets, fits.BATCH), (fits.BATCH,))
    data = [jnp.ones(shape) for shape in shapes]
    gates = jnp.ones((n_targets, fits.DRAWS, n_inputs))

    def loss(layers, inputs, outputs, weight):
        return jnp.sum(empirical_risk(layers, inputs, outputs, weight, gates))

    cost = jax.jit(jax.grad(loss)).lower(layers, *data).compile().cost_analysis()
    ours = fits.step_flops(n_targets, n_inputs)
    assert ours <= cost["flops"] <= 1.6 * ours


@pytest.mark.slow
def test_times_are_measured():
    compiling, per_step = fits.step_time(fits.windows(2, 2, key=jax.random.key(0), n=100), 50, 1)
    assert compiling > 0 and per_step != 0
    assert _timing.matmul_peak(64) > 0
    assert fits.torch_time("/no/such/python", 2, 2, 1) is None


def test_the_hand_written_loops_solve_the_same_equation():
    noise = np.random.default_rng(0).normal(size=(500, 4))
    with jax.enable_x64(True):
        ours = np.stack(
            [simulator.linear_path(n_steps=500, increments=w[:, None])[1:, 0] for w in noise.T], 1
        )
    loop = np.stack([peers.euler_path(w) for w in noise.T], 1)
    np.testing.assert_allclose(loop, ours, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(peers.euler_batch(noise, 100), loop[99::100])
    np.random.seed(0)  # noqa: NPY002
    drawn = peers.euler_path_drawn(200_000)
    # Küchler and Mensch (1992) for dX = (-X + X(t-1)/2) dt + 0.1 dW.
    rate = math.sqrt(0.75)
    variance = 0.01 * (0.5 * math.sinh(rate) - rate) / (2 * rate * (0.5 * math.cosh(rate) - 1))
    assert drawn[1000:].var() == pytest.approx(variance, rel=0.25)


@pytest.mark.slow
def test_every_row_of_the_simulator_is_there_without_the_peers():
    with jax.enable_x64(False):
        rows = simulator.rows(TINY, "/no/such/python")
        assert jnp.zeros(()).dtype == jnp.float32
    assert {len(row) for row in rows} == {len(simulator.HEADER)}
    ours = [float(row[1]) for row in rows]
    assert len(rows) == 9 and all(value > 0 for value in ours)
    assert ours[5] < 1e-8  # the error of Tsit5
    peer = [row[2] for row in rows]
    assert peer.count("not installed") == 7
    assert all(float(row[2]) > 0 for row in rows[6:8])


def test_one_part_is_printed(monkeypatch, capsys):
    monkeypatch.setattr(simulator, "report", lambda **options: f"table {options}")
    assert speed.main(["--only", "simulator", "--quick", "--peer-python", "python3"]) == 0
    assert capsys.readouterr().out == "table {'quick': True, 'peer_python': 'python3'}\n"


def test_a_peer_that_breaks_is_not_called_missing(capsys):
    assert simulator.ask_peer("/bin/false", "euler") == "failed"


@pytest.mark.slow
def test_time_to_a_graph_is_tabled_for_what_is_installed(capsys):
    assert speed.main(["--only", "discovery", "--quick"]) == 0
    first, second, third = capsys.readouterr().out.split("\n\n")[1::2]
    rows = [line.split("|")[1:-1] for line in first.splitlines()[2:]]
    assert [row[0].split(",")[0].strip() for row in rows][:2] == ["`ndde.discover`"] * 2
    assert all(float(cell) >= 0 or "not installed" in row[0] for row in rows for cell in row[1:3])
    sizes = [tuple(map(int, line.split("|")[1:4])) for line in second.splitlines()[2:]]
    assert sizes == [(2, 2, 200), (4, 2, 200), (2, 4, 200), (2, 2, 400)]
    assert [line.split("|")[1].strip() for line in third.splitlines()[2:]] == [*discovery.AXES]


def test_the_power_of_a_cost_is_that_of_its_sizes(monkeypatch):
    def costs(methods, size):
        return [size[0] ** 2 * size[1] * size[2] ** 0.5, math.nan]

    monkeypatch.setattr(discovery, "_costs", costs)
    monkeypatch.setattr(discovery, "_methods", lambda *, quick: {"fast": None, "PCMCI+": None})
    powers = discovery.growth((5, 5, 1000), 2).split("\n\n")[-1].splitlines()[2:]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in powers]
    assert rows == [["variables", "2.0", "-"], ["lags", "1.0", "-"], ["samples", "0.5", "-"]]


def test_what_a_process_used_is_its_own():
    held = "x = bytearray(300_000_000); sum(range(10**7))"
    cpu, wall, peak = discovery._process([sys.executable, "-c", held])
    assert 0 < cpu <= 1.5 * wall
    assert math.isnan(peak) or 3e8 < peak < 6e8
    with pytest.raises(subprocess.CalledProcessError):
        discovery._process([sys.executable, "-c", "raise SystemExit(3)"])


@pytest.mark.slow
def test_many_systems_are_timed(capsys):
    assert speed.main(["--only", "systems", "--quick"]) == 0
    rows = [line.split("|") for line in capsys.readouterr().out.splitlines() if line[:3] == "| 1"]
    (one,) = rows
    assert [cell.strip() for cell in one[1:3]] == ["1", "1"] and float(one[4]) >= 0


@pytest.mark.slow
def test_pinned_processes_are_compared():
    sentence = systems.gain(2, ndde.Recipe.fast())
    seconds = [float(word) for word in sentence.split() if word[0].isdigit() and "." in word]
    one, two, ratio = seconds
    # Seconds are rounded to a tenth, and few here.
    assert (one - 0.05) / (two + 0.05) - 0.01 < ratio < (one + 0.05) / (two - 0.05) + 0.01


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores cannot be chosen here")
def test_every_process_has_a_core_of_its_own():
    mine = os.sched_getaffinity(0)
    cores = systems._cores(3)
    assert set(cores) <= mine and len(set(cores[: len(mine)])) == min(3, len(mine))


@pytest.mark.slow
def test_ways_to_do_many_systems_are_timed(capsys):
    assert speed.main(["--only", "batches", "--quick"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if "`" in line]
    assert [row[:2] for row in rows] == [[batches.QUICK[0], "1"], [batches.QUICK[0], "2"]]
    for row in rows:
        done = [cell for cell in row[2:6] if cell != "-"]
        assert all(float(part) >= 0 for cell in done for part in cell.split(" / "))
    assert [row[2:6].count("-") for row in rows] == [2, 1]


@pytest.mark.slow
def test_a_record_on_disk_is_discovered_within_a_gigabyte():
    # In its own process: the peak is over everything that the process ever did.
    command = [sys.executable, "-m", "benchmarks.speed", "--only", "chunks", "--quick"]
    said = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=REPOSITORY
    ).stdout
    (row,) = [line for line in said.splitlines() if "memory map |" in line]
    cpu, seconds, peak, exact = (cell.strip() for cell in row.split("|")[3:-1])
    assert float(cpu) > 0 < float(seconds) and 100 < float(peak) < 1000 and exact == "yes"


@pytest.mark.slow
def test_a_batch_finds_what_a_loop_finds():
    """Every array of the batch holds those of the single calls, one after the other."""
    (name,) = batches.QUICK
    systems = [batches.windows(i, 60) for i in range(2)]
    together = jax.tree.leaves(batches.batch(name)(systems))
    alone = [jax.tree.leaves(batches.one(name, i, w)) for i, w in enumerate(systems)]
    assert len(together) == len(alone[0]) == len(alone[1]) > 2
    for both, *each in zip(together, *alone, strict=True):
        np.testing.assert_allclose(both, np.stack(each), rtol=1e-6, atol=1e-8)


@pytest.mark.slow
def test_spawned_processes_are_timed():
    (name,) = batches.QUICK
    system = batches.windows(0, 60)
    with batches._processes(name, system) as pool:
        cost = batches._elsewhere(pool, name, [system, system])
    assert cost.cpu > 0 and cost.wall > 0


def test_networks_follow_what_drives_them():
    x = discovery.network(4, 3000, seed=1)
    rng = np.random.default_rng(1)
    rng.normal(size=(3100, 4))
    sources, delays = rng.integers(4, size=(2, 4)), rng.integers(1, 4, size=(2, 4))
    k = np.arange(10, 2999)
    for j in range(4):
        drive = sum(np.tanh(x[k - d, s]) for s, d in zip(sources[:, j], delays[:, j], strict=True))
        slope = np.polyfit(drive, x[k + 1, j] - 0.7 * x[k, j], 1)[0]
        assert slope == pytest.approx(0.1, abs=0.04)
