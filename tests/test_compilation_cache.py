"""Compiled programs are stored by the command, in the user's directory, and by nothing else."""

import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import jaxlib.version
import numpy as np
import pytest

from ndde_jax import _program
from ndde_jax._program import (
    FUSION,
    disable_wrong_sums,
    drop_oldest,
    enable_compilation_cache,
    user_directory,
)

REPOSITORY = Path(__file__).parents[1]
PROGRAM = "import sys; from ndde_jax import cli; sys.exit(cli.program())"


@pytest.fixture
def settings():
    """The settings of JAX, restored afterwards."""
    names = (
        "jax_compilation_cache_dir",
        "jax_persistent_cache_min_compile_time_secs",
        "jax_persistent_cache_min_entry_size_bytes",
    )
    before = {name: getattr(jax.config, name) for name in names}
    yield lambda: tuple(getattr(jax.config, name) for name in names)
    for name, value in before.items():
        jax.config.update(name, value)


def test_it_is_the_directory_of_the_user(tmp_path, settings):
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    directory = enable_compilation_cache(environment)
    assert directory.parent == tmp_path / "ndde_jax" / "xla" and directory.is_dir()
    assert settings() == (str(directory), 0.0, -1)
    # So that processes started from here do the same.
    assert environment["JAX_COMPILATION_CACHE_DIR"] == str(directory)
    assert environment["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] == "-1"


@pytest.mark.parametrize(
    "version, machine, given, flags",
    [
        ((0, 10, 1), "x86_64", None, "--xla_cpu_max_isa=AVX2"),
        ((0, 10, 1), "x86_64", "--xla_dump_to=x", "--xla_dump_to=x --xla_cpu_max_isa=AVX2"),
        ((0, 10, 1), "x86_64", "--xla_cpu_max_isa=SSE4_2", "--xla_cpu_max_isa=SSE4_2"),
        ((0, 10, 1), "arm64", None, None),
        ((0, 11, 0), "x86_64", None, None),
    ],
)
def test_what_is_kept_can_be_loaded(
    tmp_path, settings, monkeypatch, version, machine, given, flags
):
    monkeypatch.setattr(jaxlib.version, "__version_info__", version)
    monkeypatch.setattr(_program.platform, "machine", lambda: machine)
    environment = {"XDG_CACHE_HOME": str(tmp_path)} | ({"XLA_FLAGS": given} if given else {})
    enable_compilation_cache(environment)
    assert environment.get("XLA_FLAGS") == flags


def test_what_adds_wrongly_is_turned_off(monkeypatch):
    for version, flags in (((0, 10, 1), {}), ((0, 10, 2), {"XLA_FLAGS": f"{FUSION}="})):
        monkeypatch.setattr(jaxlib.version, "__version_info__", version)
        environment = {}
        disable_wrong_sums(environment)
        disable_wrong_sums(environment)
        assert environment == flags


def test_without_xdg_it_is_below_the_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for environment in ({}, {"XDG_CACHE_HOME": ""}, {"XDG_CACHE_HOME": "relative"}):
        assert user_directory(environment).parent == tmp_path / ".cache" / "ndde_jax" / "xla"


def test_unlike_processors_do_not_share(tmp_path, monkeypatch):
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    one = user_directory(environment)
    assert user_directory(environment) == one
    monkeypatch.setattr(_program.platform, "machine", lambda: "other")
    assert user_directory(environment) != one


def test_a_directory_that_the_user_chose_is_used_as_it_is(tmp_path, settings):
    _, seconds, size = settings()
    environment = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path), "XDG_CACHE_HOME": "/nowhere"}
    assert enable_compilation_cache(environment) == tmp_path
    assert settings() == (str(tmp_path), seconds, size)


def test_what_cannot_be_written_stops_nothing(tmp_path, settings):
    before = settings()
    (tmp_path / "file").write_text("")
    assert enable_compilation_cache({"XDG_CACHE_HOME": str(tmp_path / "file")}) is None
    assert settings() == before


def test_the_oldest_goes_first(tmp_path):
    for i in range(4):
        (tmp_path / str(i)).write_bytes(bytes(100))
        os.utime(tmp_path / str(i), (i, i))
    drop_oldest(tmp_path, 400)
    assert len(list(tmp_path.iterdir())) == 4
    drop_oldest(tmp_path, 250)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2", "3"]
    drop_oldest(tmp_path / "missing")


@pytest.mark.slow
def test_a_second_process_compiles_nothing(tmp_path):
    x = np.random.default_rng(0).normal(size=(80, 2)).cumsum(axis=0)
    np.savetxt(tmp_path / "data.csv", x, delimiter=",", header="a,b", comments="")
    command = [sys.executable, "-c", PROGRAM, "discover", str(tmp_path / "data.csv")]
    command += "--dt 1 --lags 0,1 --recipe fast --no-plot --quiet --out".split()
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}

    def run(name, *flags):
        subprocess.run(
            [*command, str(tmp_path / f"out{len(list(tmp_path.iterdir()))}"), *flags],
            env=environment | {"XDG_CACHE_HOME": str(tmp_path / name)},
            cwd=REPOSITORY,
            check=True,
        )
        return {p: p.stat().st_mtime_ns for p in (tmp_path / name).rglob("*") if p.is_file()}

    first = run("cache")
    assert len(first) > 10
    assert run("cache") == first
    assert run("none", "--no-cache") == {}


def test_the_flag_stands_before_a_command_or_behind_it(capsys, monkeypatch):
    from ndde_jax import cli

    kept = []
    monkeypatch.setattr(cli, "enable_compilation_cache", lambda: kept.append(1))
    monkeypatch.setattr(cli, "run_program", lambda work, farewell: 0)
    for arguments in (["--no-cache", "examples"], ["examples", "--no-cache"]):
        monkeypatch.setattr(sys, "argv", ["ndde-jax", *arguments])
        assert cli.program() == 0 and kept == []
    monkeypatch.setattr(sys, "argv", ["ndde-jax", "examples"])
    assert cli.program() == 0 and kept == [1]


def test_the_library_keeps_nothing():
    used = [
        path.name
        for path in (REPOSITORY / "ndde_jax").rglob("*.py")
        if re.search(
            r"enable_compilation_cache\(|compilation_cache_dir", path.read_text(), re.IGNORECASE
        )
    ]
    assert sorted(used) == ["_program.py", "cli.py"]
