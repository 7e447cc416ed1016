"""The one file format of the library, and work that is kept in it, stage by stage, and resumed.

An NPZ archive that `numpy.load` opens without this library: every array under its dotted path, such
as `windows.history`, and `about.json`, which says what object they make up. The comment of the
archive names the version of the library and ends in a SHA-256 digest of every byte before it, so
that a file is either what was written, bit by bit, or refused. No pickle: a file holds numbers and
names of classes, never code; the classes are those of this library, and those that the running
program has derived from its abstract ones.

Objects are described by the names of their fields, so classes may change without a new format: a
field that is gone or new makes older files unreadable by name, with a sentence, never silently.

Where thousands of answers are kept, their small arrays stay in NumPy until they are asked for.
"""

import contextlib
import dataclasses
import functools
import hashlib
import importlib.metadata
import io
import json
import os
import sys
import unicodedata
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from ._checks import check_kind
from ._files import drop_abandoned, read_array, write_bytes
from ._types import Checked, to_jax

FORMAT = 3
SUFFIX = ".npz"
ABOUT = "about.json"
# Where public classes are, beside the top of the package. Files name them without it.
NAMESPACES = (
    "samples", "windows", "models", "simulate", "fitting", "gates", "select", "measure", "check",
)  # fmt: skip
# What decoding raises where a description does not fit the classes of this version.
MISFITS = LookupError, TypeError, ValueError, AttributeError, RecursionError, zipfile.BadZipFile
_DIGEST = 64
_MARK = b"ndde_jax "

Kind = TypeVar("Kind")


def version() -> str:
    """Return the version of the library, or `"unknown"` for a source tree that has not been
    installed.
    """
    try:
        return importlib.metadata.version("ndde_jax")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def write(path: str | os.PathLike, value: Any) -> None:
    """Save an object of the library, or nested tuples, lists and dictionaries of such.

    **Raises:** `OSError`, with a sentence, if the disk is full or the like; then the file is what
    it was before, or still missing. `TypeError` for what the format does not hold.
    """
    write_bytes(path, to_bytes(value))


def read(path: str | os.PathLike, kind: type[Kind]) -> Kind:
    """Return the object that `write` saved, of the type `kind`.

    **Raises:** `FileNotFoundError`; `ValueError`, with a sentence, for a file that is damaged, of
    another format or version, or that holds something else.
    """
    return from_bytes(Path(path).read_bytes(), kind, path, stacklevel=3)


def from_bytes(
    data: bytes,
    kind: type[Kind],
    path: str | os.PathLike = "what was received",
    *,
    stacklevel: int = 2,
) -> Kind:
    """Return the object that `to_bytes` stored, of the type `kind`; messages call it `path`.

    **Raises:** `ValueError`, as `read`.
    """
    about, archive = _open(path, data)
    origin = f"{path} was written by ndde_jax {about.get('library')}"
    remedy = "Compute it again, or read it with that version."
    if about.get("format") != FORMAT:
        this = f"this is ndde_jax {version()}, which reads format {FORMAT}"
        raise ValueError(f"{origin} in format {about.get('format')!r}; {this}. {remedy}")
    decode = _Decoder(archive, str(path))
    try:
        value = decode(about["content"])
    except _Undefined as error:
        raise ValueError(f"{path} {error}") from error
    except MISFITS as error:
        reason = " ".join(str(error).split())[:300]
        reason = f"{reason} is missing" if isinstance(error, KeyError) else reason
        misfit = f"does not fit this version, {version()}: {reason}"
        raise ValueError(f"{origin} and {misfit}. {remedy}") from error
    if not isinstance(value, kind):
        raise ValueError(f"{path} does not hold a {kind.__name__} but a {type(value).__name__}.")
    if decode.rounded:
        exact = "switch jax_enable_x64 on to get it exactly."
        said = f"{path} was saved in double precision and is rounded to single; {exact}"
        warnings.warn(said, stacklevel=stacklevel)
    return value


def to_bytes(value: Any) -> bytes:
    """Return the content of the file; the same for equal objects."""
    arrays: dict[str, np.ndarray] = {}
    about = {"format": FORMAT, "library": version(), "content": _encode(value, "", arrays)}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        # Without a date: equal objects give equal files.
        archive.writestr(zipfile.ZipInfo(ABOUT), json.dumps(about, indent=1, ensure_ascii=False))
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, array, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), member.getvalue())
        archive.comment = _MARK + f"{version()} format {FORMAT} sha256 ".encode() + b"0" * _DIGEST
    body = buffer.getvalue()[:-_DIGEST]
    return body + hashlib.sha256(body).hexdigest().encode()


def fingerprint(tree: Any) -> str:
    """Return a digest of all numbers and static settings of a pytree, and of the library's
    version.
    """
    digest = hashlib.sha256(version().encode())
    leaves, structure = jax.tree.flatten(tree)
    digest.update(str(structure).encode())
    for leaf in leaves:
        if jax.dtypes.issubdtype(getattr(leaf, "dtype", None), jax.dtypes.prng_key):
            leaf = jr.key_data(leaf)
        leaf = np.asarray(leaf)
        digest.update(f"{leaf.dtype}{leaf.shape}".encode())
        digest.update(leaf.tobytes())
    return digest.hexdigest()[:24]


# ---- the file ----


def _open(path: str | os.PathLike, data: bytes) -> tuple[dict, zipfile.ZipFile]:
    """Return description and archive of a file after a check of every byte."""
    body = data[:-_DIGEST]
    if hashlib.sha256(body).hexdigest().encode() != data[-_DIGEST:]:
        if not data:
            wrong = "is empty"
        elif _MARK not in body[-200:]:
            wrong = "is cut short, damaged, or was not saved by this version of ndde_jax"
        else:
            wrong = "is damaged: its checksum does not fit its content"
        raise ValueError(f"{path} {wrong}. Restore it from a copy, or compute it again.")
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
        members = archive.infolist()
        # Nothing is packed, so nothing can be larger than the file; and no member lies in another.
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise ValueError("a part of it is packed")
        if sum(member.file_size for member in members) > len(data):
            raise ValueError("its parts overlap")
        about = json.loads(archive.read(ABOUT))
        if not isinstance(about, dict):
            raise ValueError(f"{ABOUT} is no description")
    except Exception as error:  # whatever zipfile and JSON make of it
        raise ValueError(
            f"{path} is whole, but not as ndde_jax writes it ({error}). Restore it from a copy, or "
            "compute it again."
        ) from error
    return about, archive


# ---- objects ----


def _encode(value: Any, path: str, arrays: dict[str, np.ndarray]) -> Any:
    """Return JSON for a value; its arrays go to `arrays` under their dotted paths."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (jax.Array, np.ndarray, np.generic)):
        return _encode_array(value, path, arrays)
    if isinstance(value, (tuple, list)):
        items = [_encode(item, _join(path, str(i)), arrays) for i, item in enumerate(value)]
        return {"tuple" if isinstance(value, tuple) else "list": items}
    if isinstance(value, dict) and all(isinstance(name, str) for name in value):
        items = {name: _encode(item, _join(path, name), arrays) for name, item in value.items()}
        return {"dict": items}
    for name, kind in _classes().items():
        if issubclass(kind, eqx.Enumeration) and isinstance(value, kind):
            (array,) = jax.tree.leaves(value)
            member = _encode_array(array, path, arrays)
            return {"enumeration": name, "items": list(kind._name_to_item), "value": member}
    kind = type(value)
    code: dict[str, Any] = {"class": kind.__name__}
    if _classes().get(kind.__name__) is not kind:
        if kind not in _derived().values():
            raise TypeError(f"a {kind.__name__} cannot be saved ({path or 'the object itself'}).")
        code["of"] = kind.__module__
    names = [field.name for field in dataclasses.fields(kind)]
    fields = {name: _encode(look(value, name), _join(path, name), arrays) for name in names}
    return {**code, "fields": fields}


def _encode_array(value: Any, path: str, arrays: dict[str, np.ndarray]) -> dict[str, str]:
    name, library = path or "array", "jax" if isinstance(value, jax.Array) else "numpy"
    encoded = {"array": name, "library": library}
    if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        encoded = {"array": name, "key": str(jr.key_impl(value))}
        value = jr.key_data(value)
    array = np.asarray(value)
    if array.dtype.kind not in "biufc":
        raise TypeError(f"an array of {array.dtype} cannot be saved ({name}).")
    arrays[name] = array
    return encoded


class _Undefined(Exception):
    """A class that a user derived from one of the library is not defined in this process."""


class _Decoder:
    """A decoder of what `_encode` described; `rounded` says that numbers lost digits on the way."""

    def __init__(self, archive: zipfile.ZipFile, path: str):
        self.archive, self.path = archive, path
        self.unread = {name.removesuffix(".npy") for name in archive.namelist()}
        self.rounded = False

    def __call__(self, code: Any) -> Any:
        if isinstance(code, str):  # may be printed: nothing in it may steer a terminal
            return "".join(c for c in code if c in "\n\t" or unicodedata.category(c) != "Cc")
        if not isinstance(code, dict):
            return code
        if "array" in code:
            return self._array(code)
        if "tuple" in code:
            return tuple(self(item) for item in code["tuple"])
        if "list" in code:
            return [self(item) for item in code["list"]]
        if "dict" in code:
            return {name: self(item) for name, item in code["dict"].items()}
        if "enumeration" in code:
            kind: Any = _classes()[code["enumeration"]]
            if code["items"] != list(kind._name_to_item):
                raise ValueError(f"{code['enumeration']} has other items")
            member = next(iter(kind._name_to_item.values()))
            return jax.tree.unflatten(jax.tree.structure(member), [self(code["value"])])
        return self._object(code)

    def _array(self, code: dict) -> Any:
        name = code["array"]
        # Read twice, a small file could fill the memory with copies.
        self.unread.remove(name)
        array = read_array(self.archive, f"{name}.npy", self.path)
        if array is None:
            raise ValueError(f"{name} holds objects")
        if "key" in code:
            return jr.wrap_key_data(jnp.asarray(array), impl=code["key"])
        if code["library"] == "numpy":
            return array
        value = to_jax(array)
        self.rounded |= array.dtype.kind in "fc" and value.dtype != array.dtype
        return value

    def _object(self, code: dict) -> Any:
        kind = _derived().get(code["class"]) if "of" in code else _classes()[code["class"]]
        if kind is None:
            raise _Undefined(
                f"holds a {self(code['class'])}, which is not a class of the library but of "
                f"{self(code['of'])}. Import what defines it first."
            )
        names = [field.name for field in dataclasses.fields(kind)]
        if sorted(code["fields"]) != sorted(names):
            differing = sorted(set(code["fields"]) ^ set(names))
            raise ValueError(f"{code['class']} has other fields ({', '.join(differing)} differ)")
        # As a pytree is rebuilt: a constructor may convert and check what it is given by users.
        value: Any = object.__new__(kind)
        for name, part in code["fields"].items():
            object.__setattr__(value, name, self(part))
        return value


@functools.cache
def _classes() -> dict[str, type]:
    """Return the classes of the library that can be saved, the public ones, by name."""
    package = sys.modules[__package__]
    places = [package, *(getattr(package, name) for name in NAMESPACES)]
    return {
        name: kind
        for place in places
        for name, kind in vars(place).items()
        if isinstance(kind, type)
        and (dataclasses.is_dataclass(kind) or issubclass(kind, eqx.Enumeration))
    }


def _derived() -> dict[str, type]:
    """Return the classes that users have derived from abstract ones of the library, such as a
    strategy or a family of drifts, by name; the last one where a cell of a notebook was run again.

    They and those of the library are all that a file can name: it brings no code along.
    """
    derived: dict[str, type] = {}
    bases = [kind for name, kind in _classes().items() if name.startswith("Abstract")]
    while bases:
        below: list[type] = bases.pop().__subclasses__()
        bases += below
        others = (kind for kind in below if kind.__module__.partition(".")[0] != __package__)
        derived |= {kind.__name__: kind for kind in others}
    return derived


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


class Kept:
    """A directory of results, one file each, under names that say what they were computed from.

    Neither damage nor a full disk stops the work: what cannot be read is computed again, what
    cannot be written stays in memory, and `warn` says so. Threads may share it.
    """

    def __init__(self, directory: Checked[str | os.PathLike]):
        check_kind(directory, str | os.PathLike, "directory", "a path or None")
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
            pass
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
        with contextlib.suppress(OSError):
            os.utime(self.directory / f"{name}{SUFFIX}")

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
            then = "The results are returned all the same; a later call computes these again."
            said = f"Not stored in {self.directory}: {labels} ({reason}). {then}"
            warnings.warn(said, stacklevel=stacklevel + 1)

    def count(self) -> int:
        """Return how many results the directory holds."""
        return sum(1 for _ in self.directory.glob(f"*{SUFFIX}"))


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
        from tqdm import tqdm

        shown = "{desc} {bar} {n_fmt}/{total_fmt} {elapsed}"
        self.bar = tqdm(total=total, bar_format=shown, disable=not progress)
        self.kept = None if directory is None else Kept(directory)
        self.inputs = None if directory is None else fingerprint(inputs)

    def expect(self, seconds: float) -> None:
        """Announce the expected duration, where it is long."""
        if not self.bar.disable and seconds > LONG:
            minutes = seconds / 60
            about = f"{minutes:.0f} minutes" if minutes > 2 else f"{round(seconds, -1):.0f} seconds"
            said = f"This will take about {about}, and longer for variables that need networks."
            self.bar.write(said, file=sys.stderr)

    def __call__(self, name: str, function: Callable[[], Result]) -> Result:
        """Return the result of the function, now or from an earlier run; arrays are ready."""
        self.bar.set_description_str(name)
        kept, file = self.kept, f"{self.inputs}-{''.join(c if c.isalnum() else '-' for c in name)}"
        result = None if kept is None else kept.load(file)
        if kept is None:
            result = jax.block_until_ready(function())
        elif result is None:
            kept.warn(stacklevel=4)
            result = jax.block_until_ready(function())
            kept.save(file, result, f"“{name}”")
            kept.warn(stacklevel=4)
        else:
            kept.touch(file)
        self.bar.update()
        return result

    def __enter__(self) -> "Stages":
        return self

    def __exit__(self, *_) -> None:
        self.bar.close()


@dataclasses.dataclass(frozen=True)
class _Packed:
    """A pytree in parts: NumPy copies of its arrays of JAX, and all the rest."""

    tree: Any
    rest: Any

    def unpacked(self) -> Any:
        # Numbers are numbers in a function that is being traced, too.
        with jax.ensure_compile_time_eval():
            return eqx.combine(jax.tree.map(to_jax, self.tree), self.rest)


def _has_equal_in_numpy(leaf: Any) -> bool:
    """Return whether a leaf is an array of numbers of JAX, which keys and weak types are not."""
    if not isinstance(leaf, jax.Array) or isinstance(leaf, jax.core.Tracer):
        return False
    return not (jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key) or leaf.weak_type)


def _copied(array: jax.Array) -> np.ndarray:
    # A copy: what NumPy only looks at stays an array of JAX.
    copied = np.array(array)
    copied.flags.writeable = False
    return copied


class _Held:
    def __init__(self, name: str):
        self.name = name

    def __set__(self, instance: Any, value: Any) -> None:
        numbers, rest = eqx.partition(value, _has_equal_in_numpy)
        instance.__dict__[self.name] = _Packed(jax.tree.map(_copied, numbers), rest)

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            raise AttributeError(self.name)  # like any field without a default
        value = instance.__dict__[self.name]
        if isinstance(value, _Packed):
            value = instance.__dict__[self.name] = value.unpacked()
        return value


def held(*names: str) -> Callable[[type[Kind]], type[Kind]]:
    """Keep fields of a dataclass on the host, where they are pytrees with many small arrays.

    An array of JAX takes three kilobytes beside its numbers, and an answer has dozens: of a
    thousand small systems that is more than all their numbers.
    """

    def hold(kind: type[Kind]) -> type[Kind]:
        for name in names:
            setattr(kind, name, _Held(name))
        return kind

    return hold


def look(instance: Any, name: str) -> Any:
    """Return the field unpacked, without storing it unpacked in the instance."""
    value = vars(instance).get(name) if hasattr(instance, "__dict__") else None
    return value.unpacked() if isinstance(value, _Packed) else getattr(instance, name)
