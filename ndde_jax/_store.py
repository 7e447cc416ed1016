"""The file format of the library, and stages of work that are stored in it and resumed.

A file is an NPZ archive that `numpy.load` opens without this library. It holds every array under
its dotted path, such as `windows.history`, and `about.json`, which describes the object they form.
The comment of the archive names the version of the library and ends in a SHA-256 digest of every
byte before it, so a file is read exactly as it was written, or refused. There is no pickle: a file
holds numbers and names of classes, never code. The classes are those of this library, and those
that the running program derived from its abstract ones.

Objects are described by the names of their fields, so classes may change without a new format. If a
field was added or removed, older files are refused with a message that names it, never misread.

Where thousands of results are kept, their small arrays stay in NumPy until they are used.
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
# Namespaces with public classes, in addition to the top of the package. Files omit the namespace.
NAMESPACES = (
    "samples", "windows", "models", "simulate", "fitting", "gates", "select", "measure", "check",
)  # fmt: skip
# Errors of decoding if a description does not fit the classes of this version.
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
    """Save an object of the library, or nested tuples, lists and dictionaries of them.

    **Raises:** `OSError`, with a message, for a full disk and similar problems; the file is then
    unchanged, or still missing. `TypeError` for values that the format cannot hold.
    """
    write_bytes(path, to_bytes(value))


def read(path: str | os.PathLike, kind: type[Kind]) -> Kind:
    """Return the object that `write` saved, of the type `kind`.

    **Raises:** `FileNotFoundError`; `ValueError`, with a message, for a file that is damaged, has
    another format or version, or holds another type.
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
    """Return the description and the archive of a file, after a check of every byte."""
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
        # Nothing is packed, so nothing can be larger than the file, and members must not overlap.
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise ValueError("a part of it is packed")
        if sum(member.file_size for member in members) > len(data):
            raise ValueError("its parts overlap")
        about = json.loads(archive.read(ABOUT))
        if not isinstance(about, dict):
            raise ValueError(f"{ABOUT} is no description")
    except Exception as error:  # any error of zipfile and JSON
        raise ValueError(
            f"{path} is complete, but not as ndde_jax writes it ({error}). Restore it from a copy, "
            "or compute it again."
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
    """An error: a class that a user derived from the library's is not defined in this process."""


class _Decoder:
    """A decoder of descriptions from `_encode`; `rounded` says whether numbers lost digits."""

    def __init__(self, archive: zipfile.ZipFile, path: str):
        self.archive, self.path = archive, path
        self.unread = {name.removesuffix(".npy") for name in archive.namelist()}
        self.rounded = False

    def __call__(self, code: Any) -> Any:
        if isinstance(code, str):  # may be printed: remove characters that control a terminal
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
        # If arrays could be read twice, a small file could fill the memory with copies.
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
        # Rebuilt like a pytree: a constructor may convert and check arguments from users.
        value: Any = object.__new__(kind)
        for name, part in code["fields"].items():
            object.__setattr__(value, name, self(part))
        return value


@functools.cache
def _classes() -> dict[str, type]:
    """Return the classes of the library that can be saved (the public ones) by name."""
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
    """Return the classes that users derived from abstract ones of the library, such as a strategy
    or a family of drifts, by name; the last one if a cell of a notebook was run again.

    A file can name only these and the classes of the library; it contains no code.
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
    """A directory of results, one file each, under names derived from their inputs.

    Neither damage nor a full disk stops the work: results that cannot be read are computed again,
    those that cannot be written stay in memory, and `warn` says so. Threads may share it.
    """

    def __init__(self, directory: Checked[str | os.PathLike]):
        check_kind(directory, str | os.PathLike, "directory", "a path or None")
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        drop_abandoned(self.directory)
        self.unread: list[str] = []
        self.unwritten: dict[str, str] = {}

    def load(self, name: str) -> Any:
        """Return a result, or None if it cannot be read."""
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
        """Warn once of files that could not be read or written; called in the user's thread."""
        unread, self.unread = self.unread, []
        for sentence in unread:
            warnings.warn(sentence, stacklevel=stacklevel + 1)
        unwritten, self.unwritten = self.unwritten, {}
        if unwritten:
            labels, reason = ", ".join(unwritten), next(iter(unwritten.values()))
            then = "The results are still returned; a later call computes these again."
            said = f"Not stored in {self.directory}: {labels} ({reason}). {then}"
            warnings.warn(said, stacklevel=stacklevel + 1)

    def count(self) -> int:
        """Return the number of results in the directory."""
        return sum(1 for _ in self.directory.glob(f"*{SUFFIX}"))


Result = TypeVar("Result")

# Expected seconds from which the duration is announced.
LONG = 20.0


class Stages:
    """A runner of the stages of one piece of work; a context manager.

    **Arguments:**

    - `total`: number of stages.
    - `progress`: show a progress bar.
    - `directory`: where to store the results of finished stages; another run with equal `inputs`
        reads them and runs only the other stages. By default nothing is stored.
    - `inputs`: a pytree of everything that determines the results: data, settings, key.
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
        """Announce the expected duration if it is long."""
        if not self.bar.disable and seconds > LONG:
            minutes = seconds / 60
            about = f"{minutes:.0f} minutes" if minutes > 2 else f"{round(seconds, -1):.0f} seconds"
            said = f"This will take about {about}, and longer for variables that need networks."
            self.bar.write(said, file=sys.stderr)

    def __call__(self, name: str, function: Callable[[], Result]) -> Result:
        """Return the result of the function, or that of an earlier run; arrays are ready."""
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
    """A pytree in two parts: NumPy copies of its JAX arrays, and everything else."""

    tree: Any
    rest: Any

    def unpacked(self) -> Any:
        # Numbers stay concrete, also in a function that is being traced.
        with jax.ensure_compile_time_eval():
            return eqx.combine(jax.tree.map(to_jax, self.tree), self.rest)


def _has_equal_in_numpy(leaf: Any) -> bool:
    """Return whether a leaf is a JAX array of numbers; not for keys and weak types."""
    if not isinstance(leaf, jax.Array) or isinstance(leaf, jax.core.Tracer):
        return False
    return not (jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key) or leaf.weak_type)


def _copied(array: jax.Array) -> np.ndarray:
    # A copy: a NumPy view would keep the JAX array alive.
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
    """Keep fields of a dataclass in NumPy, for pytrees with many small arrays.

    A JAX array takes three kilobytes in addition to its numbers, and a result has dozens of arrays.
    For a thousand small systems that is more than all their numbers.
    """

    def hold(kind: type[Kind]) -> type[Kind]:
        for name in names:
            setattr(kind, name, _Held(name))
        return kind

    return hold


def look(instance: Any, name: str) -> Any:
    """Return the unpacked field, without storing it unpacked in the instance."""
    value = vars(instance).get(name) if hasattr(instance, "__dict__") else None
    return value.unpacked() if isinstance(value, _Packed) else getattr(instance, name)
