"""The number of changes between files and folders from a trajectory's CSV file to its report.

    python -m benchmarks.speed.transitions [--root CHECKOUT] [--before OLDER_CHECKOUT]

`ndde-jax discover` runs on a small table under a profile hook (`sys.setprofile`). A *room* is a
file of the package, or one of its folders (files at the top level share a room, and subfolders
belong to their folder). Control is in the room of the innermost running function of the package,
regardless of functions of other libraries in between. It changes rooms when a function in another
room is called or returned to. Repetitions count once: a stretch of up to `LONGEST` rooms directly
after an equal one is dropped, so that neither loops nor recursion dominate the count. Imports do
not count, since all is imported before, nor do other threads.

`run` follows the run in this way. `reading` follows a reader, who looks up each call once: a call
from one function to another that was followed before is not followed again, nor anything inside.

With `--before`, the last lines compare the layouts: changes of folder in this checkout over changes
of file in the other.
"""

import argparse
import importlib
import json
import os
import pkgutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

# Longest stretch of rooms that counts once if it repeats: a loop of a dozen calls and returns.
LONGEST = 24


class Walk:
    """Rooms in the order in which they are entered, without repetitions."""

    def __init__(self):
        self.rooms, self.changes = [], 0

    def enter(self, room: str) -> None:
        """Enter a room; do nothing if it is the current one."""
        if self.rooms and self.rooms[-1] == room:
            return
        self.changes += 1
        rooms = self.rooms
        rooms.append(room)
        for length in range(2, min(LONGEST, len(rooms) // 2) + 1):
            if rooms[-1] == rooms[-1 - length] and rooms[-length:] == rooms[-2 * length : -length]:
                del rooms[-length:]
                return


class Count(NamedTuple):
    """The counts of one walk.

    - `rooms`: number of different rooms.
    - `changes`: changes of room, counting repetitions once.
    - `back`: those that return to the previous room.
    - `all_changes`: changes of room including repetitions.
    """

    rooms: int
    changes: int
    back: int
    all_changes: int


def count(walk: Walk) -> Count:
    """The first room is entered from outside, which is no change."""
    rooms = walk.rooms
    back = sum(a == b for a, b in zip(rooms, rooms[2:], strict=False))
    return Count(len(set(rooms)), max(len(rooms) - 1, 0), back, max(walk.changes - 1, 0))


def follow(work: Callable[[], object], package: Path) -> dict[str, Count]:
    """Follow the moves between the files and between the folders of a package while `work` runs."""
    base = f"{package.resolve()}{os.sep}"
    walks = {
        f"{kind}, {who}": Walk() for who in ("run", "reading") for kind in ("files", "folders")
    }
    inside, calls = [], set()

    def hook(frame, event, _):
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(base):
            return
        if event == "return":
            inside.pop()
        else:
            caller, _, read = inside[-1] if inside else (None, "", True)
            read = read and (caller, code) not in calls
            calls.add((caller, code))
            inside.append((code, code.co_filename.removeprefix(base), read))
        if inside:
            _, file, read = inside[-1]
            folder = file.partition(os.sep)[0] if os.sep in file else "."
            for who in ("run", "reading") if read else ("run",):
                walks[f"files, {who}"].enter(file)
                walks[f"folders, {who}"].enter(folder)

    before = sys.getprofile()
    sys.setprofile(hook)
    try:
        work()
    finally:
        sys.setprofile(before)
    return {kind: count(walk) for kind, walk in walks.items()}


def discover_table() -> dict[str, Count]:
    """Run `ndde-jax discover` on 200 rows of two variables, one of which drives the other."""
    import numpy as np

    import ndde_jax
    from ndde_jax import cli

    for module in pkgutil.walk_packages(ndde_jax.__path__, "ndde_jax."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    kick, x = np.random.default_rng(0).normal(size=(200, 2)), np.zeros((200, 2))
    for k in range(1, 199):
        x[k + 1] = 0.5 * x[k] + [0, 0.8] * np.tanh(x[k - 1, :1]) + 0.5 * kick[k]
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table.csv"
        np.savetxt(table, x, delimiter=",", header="a,b", comments="")
        options = ["--dt=1", "--lags=0:1", "--no-plot", "--quiet", f"--out={folder}/result"]

        def work():
            code = cli.main(["discover", str(table), *options])
            if code:
                raise SystemExit(f"ndde-jax discover ended with {code}")

        return follow(work, Path(ndde_jax.__file__).parent)


def count_in(root: Path) -> dict[str, Count]:
    """Return the counts from a separate process, with the package of a checkout."""
    if not (root / "ndde_jax" / "__init__.py").exists():
        raise SystemExit(f"{root} has no folder ndde_jax; give the root of a checkout.")
    with tempfile.TemporaryDirectory() as cache:
        # Without compiled programs, and without a network query for the version.
        environment = {**os.environ, "PYTHONPATH": str(root.resolve()), "XDG_CACHE_HOME": cache}
        command = [sys.executable, str(Path(__file__).resolve()), "--here"]
        done = subprocess.run(
            command, env=environment, cwd=cache, stdout=subprocess.PIPE, text=True
        )
    if done.returncode:
        raise SystemExit(f"counting in {root} failed; see above.")
    return {
        kind: Count(*counted) for kind, counted in json.loads(done.stdout.splitlines()[-1]).items()
    }


def table(counted: dict[str, dict[str, Count]]) -> str:
    """Return Markdown: a row per checkout and kind of room."""
    lines = [
        "| checkout | rooms | different | changes | of these back | with repetitions |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for root, kinds in counted.items():
        lines += [
            f"| {root} | {kind} | " + " | ".join(map(str, c)) + " |" for kind, c in kinds.items()
        ]
    return "\n".join(lines)


def main(argv=None) -> int:
    """Count, print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speed.transitions",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    here = Path(__file__).resolve().parents[2]
    parser.add_argument("--root", type=Path, default=here, help="a checkout; by default this one")
    parser.add_argument("--before", type=Path, help="an older checkout to compare with")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.here:
        print(json.dumps(discover_table()))
        return 0
    roots = [root for root in (arguments.before, arguments.root) if root is not None]
    counted = {str(root): count_in(root) for root in roots}
    print(table(counted))
    if arguments.before is not None:
        now, before = counted[str(arguments.root)], counted[str(arguments.before)]
        print("\nChanges of folder now over changes of file before:")
        for who in ("run", "reading"):
            share = now[f"folders, {who}"].changes / before[f"files, {who}"].changes
            print(f"- {who}: {share:.0%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
