"""Atomic writing of files: each is there entirely or not at all, whatever happens meanwhile."""

import os
import time
import uuid
from pathlib import Path

SUFFIX = ".partial"
# Seconds after which a partial file belongs to nobody: its process was killed. Writing takes
# seconds at most.
ABANDONED = 3600.0

# Partial files of this process. One that is left at once, without unwinding, removes them first.
_partial: set[Path] = set()


class Together:
    """A group of files that appear together: each is written beside its place, and all are renamed
    when the block `with Together() as files` ends. If anything fails before, none appears and what
    was there stays.
    """

    def __init__(self):
        self.renames: list[tuple[Path, Path]] = []

    def __enter__(self) -> "Together":
        return self

    def add(self, path: str | os.PathLike, content: bytes) -> None:
        """Write a file that appears at the end.

        **Raises:** `OSError`, with a sentence, if it cannot be written, for example on a full disk.
        """
        path = Path(path)
        # No other process or thread, on this machine or another, writes under this name.
        partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}{SUFFIX}")
        _partial.add(partial)
        self.renames.append((partial, path))
        try:
            with open(partial, "xb") as file:
                file.write(content)
                file.flush()
                # Else a power cut after the rename could leave an empty file under the final name.
                os.fsync(file.fileno())
        except OSError as error:
            reason = error.strerror or str(error)
            raise OSError(
                error.errno, f"{path} cannot be written ({reason}); what was there is as it was"
            ) from error

    def __exit__(self, kind, *_) -> None:
        try:
            if kind is None:
                for partial, path in self.renames:
                    os.replace(partial, path)
                for directory in {path.parent for _, path in self.renames}:
                    _sync_directory(directory)
        finally:
            for partial, _ in self.renames:
                partial.unlink(missing_ok=True)
                _partial.discard(partial)


def write_bytes(path: str | os.PathLike, content: bytes) -> None:
    """Write one file entirely or not at all; `OSError`, with a sentence, if it cannot be done."""
    with Together() as files:
        files.add(path, content)


def drop_partial() -> None:
    """Remove what this process is writing, for one that is about to leave without unwinding."""
    for partial in list(_partial):
        try:
            partial.unlink(missing_ok=True)
        except OSError:
            pass


def drop_abandoned(directory: Path) -> None:
    """Remove partial files that killed processes left behind."""
    for partial in directory.glob(f".*{SUFFIX}"):
        try:
            if time.time() - partial.stat().st_mtime > ABANDONED:
                partial.unlink()
        except OSError:
            pass  # another process was faster


def _sync_directory(directory: Path) -> None:
    """Sync a directory so that renames last; systems that cannot open directories need no such
    thing.
    """
    try:
        descriptor = os.open(directory, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)
