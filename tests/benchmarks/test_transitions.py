"""Counting moves between files and folders, on a synthetic package with a known walk."""

import importlib.util
import json
import subprocess
import sys
import textwrap

import pytest

from benchmarks.speed import transitions
from benchmarks.speed.transitions import Count, Walk, count, follow

FILES = {
    "top.py": """
        def start(work, helper, leaf):
            for _ in range(50):
                work.middle(helper, leaf)
            return beside(leaf)

        def beside(leaf):
            return leaf.deep(3)
    """,
    "parts/work.py": """
        def middle(helper, leaf):
            # Through a function of another library, which is no room.
            inner = list(map(lambda one: helper.inner(one), [1, 2, 3]))
            return inner + sorted([2, 1], key=leaf.same)
    """,
    "parts/helper.py": """
        def inner(one):
            return one
    """,
    "end/leaf.py": """
        def same(one):
            return one

        def deep(n):
            return n if n == 0 else deep(n - 1)
    """,
}


@pytest.fixture
def package(tmp_path):
    modules = {}
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        modules[path.stem] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(modules[path.stem])
    return tmp_path, modules


def test_loops_and_recursion_count_once(package):
    root, m = package
    found = follow(lambda: m["top"].start(m["work"], m["helper"], m["leaf"]), root)
    # top work helper work leaf work top leaf top: the body of the loops is walked once.
    assert found["files, run"][:3] == Count(4, 8, 3, 0)[:3]
    # . parts end parts . end .
    assert found["folders, run"][:3] == Count(3, 6, 2, 0)[:3]
    # Every round: into work, three times helper and back, twice leaf and back, and home.
    assert found["files, run"].all_changes == 50 * (2 + 3 * 2 + 2 * 2) + 2
    assert found["folders, run"].all_changes == 50 * (2 + 2 * 2) + 2
    # The reader looks up `same` and `inner` once, as the loops do; `deep` is another function.
    assert found["files, reading"] == Count(4, 8, 3, 8)
    assert found["folders, reading"] == Count(3, 6, 2, 6)
    assert sys.getprofile() is None


def test_a_reader_follows_a_call_once(package):
    """Even with something else in between, although the run follows it again."""
    root, m = package

    def work():
        m["top"].beside(m["leaf"])
        m["work"].middle(m["helper"], m["leaf"])
        m["top"].beside(m["leaf"])

    found = follow(work, root)
    # top leaf top | work helper work leaf work | top leaf top
    assert found["files, run"].changes == 2 + 1 + 4 + 1 + 2
    # The second `beside` is not entered.
    assert found["files, reading"].changes == 2 + 1 + 4


def test_the_hook_goes_when_the_work_fails(package):
    root, m = package
    with pytest.raises(AttributeError):
        follow(lambda: m["top"].start(None, None, None), root)
    assert sys.getprofile() is None


@pytest.mark.parametrize(
    "rooms, walked",
    [
        ("AAAA", "A"),
        ("ABABAB", "AB"),
        ("ABCABCABCD", "ABCD"),
        ("ABACABACB", "ABACB"),
        ("ABCBA", "ABCBA"),
    ],
)
def test_repetitions_are_walked_once(rooms, walked):
    walk = Walk()
    for room in rooms:
        walk.enter(room)
    assert "".join(walk.rooms) == walked
    assert count(walk).changes == len(walked) - 1


def test_a_folder_without_the_package_is_refused(tmp_path):
    with pytest.raises(SystemExit, match="has no folder ndde_jax"):
        transitions.main(["--root", str(tmp_path)])


def test_another_checkout_is_counted_in_a_process_of_its_own(tmp_path, monkeypatch, capsys):
    """Its output is parsed; `discover` itself is run by hand, since it takes a minute."""
    (tmp_path / "ndde_jax").mkdir()
    (tmp_path / "ndde_jax" / "__init__.py").touch()
    seen = []

    def run(command, *, env, **_):
        seen.append((command[-1], env["PYTHONPATH"]))
        counts = {"files, run": [5, 10, 4, 99], "folders, run": [3, 4, 1, 20]}
        counts |= {"files, reading": [5, 8, 4, 20], "folders, reading": [3, 2, 1, 9]}
        return subprocess.CompletedProcess(command, 0, "a notice\n" + json.dumps(counts))

    monkeypatch.setattr(transitions.subprocess, "run", run)
    assert transitions.main(["--root", str(tmp_path), "--before", str(tmp_path)]) == 0
    assert seen == [("--here", str(tmp_path))] * 2
    out = capsys.readouterr().out
    assert f"| {tmp_path} | folders, run | 3 | 4 | 1 | 20 |" in out
    assert "- run: 40%" in out and "- reading: 25%" in out
