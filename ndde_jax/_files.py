"""Safe files: written entirely or not at all, and unpacked only after a check of their sizes."""

import math
import os
import time
import uuid
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

SUFFIX = ".partial"
# Seconds after which a partial file is abandoned: its process was killed, since writing takes
# seconds at most.
ABANDONED = 3600.0

# Partial files of this process, which it removes if it exits without unwinding.
_partial: set[Path] = set()


@contextmanager
def together(contents: Mapping[Path, bytes]) -> Iterator[None]:
    """Write files that appear together: each is written under a temporary name next to its place,
    and all are renamed when the block ends. If anything fails before, no file changes.

    **Raises:** `OSError`, with a message, if one cannot be written, for example on a full disk.
    """
    renames: dict[Path, Path] = {}
    try:
        for path, content in contents.items():
            # A name that no other process or thread, on this machine or another, uses.
            partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}{SUFFIX}")
            _partial.add(partial)
            renames[partial] = path
            try:
                with open(partial, "xb") as file:
                    file.write(content)
                    file.flush()
                    # Otherwise a power cut after the rename could leave an empty file.
                    os.fsync(file.fileno())
            except OSError as error:
                said = f"{path} cannot be written ({error.strerror or error})"
                raise OSError(error.errno, f"{said}; earlier files are unchanged") from error
        yield
        for partial, path in renames.items():
            os.replace(partial, path)
        for directory in {path.parent for path in contents}:
            _sync_directory(directory)
    finally:
        for partial in renames:
            partial.unlink(missing_ok=True)
            _partial.discard(partial)


def write_bytes(path: str | os.PathLike, content: bytes) -> None:
    """Write one file entirely or not at all; raise `OSError`, with a message, if that fails."""
    with together({Path(path): content}):
        pass


def drop_partial() -> None:
    """Remove the partial files of this process, before it exits without unwinding."""
    for partial in list(_partial):
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def drop_abandoned(directory: Path) -> None:
    """Remove partial files that killed processes left behind."""
    for partial in directory.glob(f".*{SUFFIX}"):
        with suppress(OSError):  # another process was faster
            if time.time() - partial.stat().st_mtime > ABANDONED:
                partial.unlink()


def _sync_directory(directory: Path) -> None:
    """Sync a directory so that renames last; not needed on systems that cannot open directories."""
    with suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# A file may unpack to this many bytes more than this multiple of its size: measurements are seldom
# packed to less than a tenth, files meant to fill the memory to a thousandth.
FREE, RATIO = 2**25, 20


def check_size(what: str, announced: int, packed: int) -> None:
    """Raise an error for a size out of proportion to the file it comes in.

    **Raises:** `ValueError` that names both sizes.
    """
    if announced > FREE + RATIO * packed:
        times = announced // max(packed, 1)
        raise ValueError(
            f"{what} would take {announced / 2**20:,.0f} MiB of memory, {times} times its packed "
            "size. This is refused, since measurements do not pack so well."
        )


@contextmanager
def opened(file: Path | Any, name: str) -> Iterator[zipfile.ZipFile]:
    """Open a zip archive; errors while it is open are reported as errors of the file.

    **Raises:** `ValueError` for a file that is no archive, or a damaged one.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            yield archive
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, KeyError) as error:
        raise ValueError(f"{name} is damaged: {_short(error)}.") from error
    except (NotImplementedError, RuntimeError) as error:
        raise ValueError(f"{name} cannot be unpacked: {_short(error)}.") from error


def _short(error: Exception) -> str:
    """Return the message of an error, which may quote any bytes of a file, as one short line."""
    return "".join(c if c.isprintable() else "?" for c in str(error)[:150])


def read_member(archive: zipfile.ZipFile, member: str, name: str) -> bytes:
    """Return the bytes of one member, after a check of its size."""
    info = archive.getinfo(member)
    check_size(f"{name}[{member}]", info.file_size, info.compress_size)
    return archive.read(info)


def read_array(archive: zipfile.ZipFile, member: str, name: str) -> np.ndarray | None:
    """Return the NumPy array that a member holds; None for Python objects, which are never loaded.

    **Raises:** `ValueError` for a member that is no array, or is shorter than its header says.
    """
    info = archive.getinfo(member)
    check_size(_part_of(name, member), info.file_size, info.compress_size)
    with _errors_as_damage(_part_of(name, member)):
        with archive.open(info) as stream:
            shape, _, dtype = _header(stream)
            if dtype.hasobject:
                return None
            # Python's integers, which no header can make overflow.
            size = dtype.itemsize * math.prod(map(int, shape))
            if size > info.file_size:
                raise ValueError(f"its header says {size} bytes, it holds {info.file_size}")
        with archive.open(info) as stream:
            return np.lib.format.read_array(stream, allow_pickle=False)


def array_shape(archive: zipfile.ZipFile, member: str, name: str) -> tuple[int, ...]:
    """Return the shape in the header of a member's array.

    **Raises:** `ValueError` for a member that is no array.
    """
    with _errors_as_damage(_part_of(name, member)), archive.open(member) as stream:
        return tuple(_header(stream)[0])


def _part_of(name: str, member: str) -> str:
    return f"{name}[{member.removesuffix('.npy')!r}]"


@contextmanager
def _errors_as_damage(what: str) -> Iterator[None]:
    """Report NumPy's errors in reading an array as damage of the array."""
    try:
        yield
    except (ValueError, TypeError, SyntaxError, UnicodeDecodeError) as error:
        raise ValueError(f"{what} is damaged: {error}.") from error


def _header(stream: Any) -> Any:
    """Return shape, order and type from the header of an array."""
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(stream)
    if version == (2, 0):
        return np.lib.format.read_array_header_2_0(stream)
    raise ValueError(f"it has format version {version}, which is not for numbers")
