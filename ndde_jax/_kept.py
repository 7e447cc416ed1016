"""A cache of results in a directory, so that work can be interrupted and resumed."""

import os
import warnings
from pathlib import Path
from typing import Any

from ._atomic import drop_abandoned
from ._store import SUFFIX, read, write

# Of results before the format that `_store` reads.
OLD_SUFFIX = ".eqx"


class Kept:
    """A directory of results, one file each, under names that say what they were computed from.

    Neither damage nor a full disk stops the work: what cannot be read is computed again, what
    cannot be written stays in memory, and `warn` says so. Threads may share it.
    """

    def __init__(self, directory: str | os.PathLike):
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        drop_abandoned(self.directory)
        self.unread: list[str] = []
        self.unwritten: dict[str, str] = {}

    def load(self, name: str) -> Any:
        """Return a result, or None if there is none that can be read."""
        path = self.directory / f"{name}{SUFFIX}"
        try:
            return read(path, object)
        except FileNotFoundError:
            old = path.with_suffix(OLD_SUFFIX)
            if old.exists():
                self.unread.append(
                    f"{old} was written in a format of earlier versions; it is computed again and "
                    "kept in the present one."
                )
        except (ValueError, OSError) as error:
            self.unread.append(f"{path} cannot be read ({error}); it is computed again.")
        return None

    def save(self, name: str, value: Any, label: str) -> None:
        """Keep a result, which messages call `label`."""
        try:
            write(self.directory / f"{name}{SUFFIX}", value)
        except OSError as error:
            self.unwritten[label] = str(error)

    def touch(self, name: str) -> None:
        """Mark a result as used now."""
        try:
            os.utime(self.directory / f"{name}{SUFFIX}")
        except OSError:
            pass

    def warn(self, stacklevel: int = 2) -> None:
        """Warn once of a file that could not be read or written; in the thread that the user looks
        at.
        """
        unread, self.unread = self.unread, []
        for sentence in unread:
            warnings.warn(sentence, stacklevel=stacklevel + 1)
        unwritten, self.unwritten = self.unwritten, {}
        if unwritten:
            labels, reason = ", ".join(unwritten), next(iter(unwritten.values()))
            warnings.warn(
                f"Not stored in {self.directory}: {labels} ({reason}). The results are returned "
                "all the same; a later call computes these again.",
                stacklevel=stacklevel + 1,
            )

    def count(self) -> int:
        """Return how many results the directory holds."""
        return sum(1 for _ in self.directory.glob(f"*{SUFFIX}"))
