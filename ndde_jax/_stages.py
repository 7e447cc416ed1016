"""Work in stages: each is shown, and kept on disk as soon as it is finished."""

import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import jax

from ._kept import Kept
from ._store import fingerprint

Result = TypeVar("Result")

# Seconds from which on a user is told beforehand.
LONG = 20.0


class Stages:
    """A runner of the stages of one piece of work; a context manager.

    **Arguments:**

    - `total`: how many stages there will be.
    - `progress`: show a bar.
    - `directory`: where to keep what finished stages returned; another run with equal `inputs`
        reads it there and runs only the others. By default nothing is kept.
    - `inputs`: a pytree of all that determines the results: data, settings, key.
    """

    def __init__(
        self,
        total: int,
        *,
        progress: bool = False,
        directory: str | os.PathLike | None = None,
        inputs: Any = None,
    ):
        self.bar = None
        if progress:
            from tqdm import tqdm

            self.bar = tqdm(total=total, bar_format="{desc} {bar} {n_fmt}/{total_fmt} {elapsed}")
        self.kept = None
        if directory is not None:
            self.kept, self.inputs = Kept(directory), fingerprint(inputs)

    def expect(self, seconds: float) -> None:
        """Announce the expected duration, where it is long."""
        if self.bar is not None and seconds > LONG:
            minutes = seconds / 60
            about = f"{minutes:.0f} minutes" if minutes > 2 else f"{round(seconds, -1):.0f} seconds"
            self.bar.write(
                f"This will take about {about}, and longer for variables that need networks.",
                file=sys.stderr,
            )

    def __call__(self, name: str, function: Callable[[], Result]) -> Result:
        """Return the result of the function, now or from an earlier run; arrays are ready."""
        if self.bar is not None:
            self.bar.set_description_str(name)
        result = self._kept_or_new(name, function)
        if self.bar is not None:
            self.bar.update()
        return result

    def _kept_or_new(self, name: str, function: Callable[[], Result]) -> Result:
        if self.kept is None:
            return jax.block_until_ready(function())
        file = f"{self.inputs}-{''.join(c if c.isalnum() else '-' for c in name)}"
        result = self.kept.load(file)
        if result is None:
            self.kept.warn(stacklevel=5)
            result = jax.block_until_ready(function())
            self.kept.save(file, result, f"“{name}”")
            self.kept.warn(stacklevel=5)
        else:
            self.kept.touch(file)
        return result

    def __enter__(self) -> "Stages":
        return self

    def __exit__(self, *_) -> None:
        if self.bar is not None:
            self.bar.close()
