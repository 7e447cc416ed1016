"""The one file format of the library.

An NPZ archive that `numpy.load` opens without this library: every array under its dotted path, such
as `windows.history`, and `about.json`, which says what object they make up. The comment of the
archive names the version of the library and ends in a SHA-256 digest of every byte before it, so
that a file is either what was written, bit by bit, or refused. No pickle: a file holds numbers and
names of classes of this library, never code.

Objects are described by the names of their fields, so classes may change without a new format: a
field that is gone or new makes older files unreadable by name, with a sentence, never silently.
"""

import dataclasses
import functools
import hashlib
import io
import json
import os
import sys
import unicodedata
import warnings
import zipfile
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from ._archive import read_array
from ._atomic import write_bytes
from ._held import look
from ._types import to_jax
from ._version import version

FORMAT = 3
SUFFIX = ".npz"
ABOUT = "about.json"
# Where public classes are, beside the top of the package. Files name them without it.
NAMESPACES = (
    "samples", "windows", "models", "simulate", "fitting", "gates", "select", "measure", "check",
)  # fmt: skip
_DIGEST = 64
_MARK = b"ndde_jax "

Kind = TypeVar("Kind")


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
    about, arrays = _open(path, data)
    if about.get("format") != FORMAT:
        raise ValueError(
            f"{path} was written by ndde_jax {about.get('library')} in format "
            f"{about.get('format')!r}; this is ndde_jax {version()}, which reads format {FORMAT}. "
            "Compute it again, or read it with that version."
        )
    decode = _Decoder(arrays)
    try:
        value = decode(about["content"])
    except (
        *(KeyError, TypeError, ValueError, AttributeError, IndexError),
        *(RecursionError, zipfile.BadZipFile),
    ) as error:
        reason = " ".join(str(error).split())[:300]
        reason = f"{reason} is missing" if isinstance(error, KeyError) else reason
        raise ValueError(
            f"{path} was written by ndde_jax {about.get('library')} and does not fit this version, "
            f"{version()}: {reason}. Compute it again, or read it with that version."
        ) from error
    if not isinstance(value, kind):
        raise ValueError(f"{path} does not hold a {kind.__name__} but a {type(value).__name__}.")
    if decode.rounded:
        warnings.warn(
            f"{path} was saved in double precision and is rounded to single; switch "
            "jax_enable_x64 on to get it exactly.",
            stacklevel=stacklevel,
        )
    return value


def to_bytes(value: Any) -> bytes:
    """Return the content of the file; the same for equal objects."""
    arrays: dict[str, np.ndarray] = {}
    content = _encode(value, "", arrays)
    about = {"format": FORMAT, "library": version(), "content": content}
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


def _open(path: str | os.PathLike, data: bytes) -> tuple[dict, "_Arrays"]:
    """Return description and arrays of a file after a check of every byte."""
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
        arrays = _Arrays(archive, str(path))
    except Exception as error:  # whatever zipfile and JSON make of it
        raise ValueError(
            f"{path} is whole, but not as ndde_jax writes it ({error}). Restore it from a copy, or "
            "compute it again."
        ) from error
    return about, arrays


class _Arrays:
    """The arrays of a file, each read when it is asked for, and once."""

    def __init__(self, archive: zipfile.ZipFile, path: str):
        self.archive, self.path = archive, path
        self.left = {name.removesuffix(".npy") for name in archive.namelist()}

    def __getitem__(self, name: str) -> np.ndarray:
        # Asked for twice, a small file could fill the memory with copies.
        self.left.remove(name)
        array = read_array(self.archive, f"{name}.npy", self.path)
        if array is None:
            raise ValueError(f"{name} holds objects")
        return array


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
        if issubclass(kind, eqx.Enumeration):
            if isinstance(value, kind):
                (array,) = jax.tree.leaves(value)
                encoded = _encode_array(array, path, arrays)
                return {"enumeration": name, "items": list(kind._name_to_item), "value": encoded}
        elif type(value) is kind:
            fields = {
                field.name: _encode(look(value, field.name), _join(path, field.name), arrays)
                for field in dataclasses.fields(kind)
            }
            return {"class": name, "fields": fields}
    raise TypeError(f"a {type(value).__name__} cannot be saved ({path or 'the object itself'}).")


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


class _Decoder:
    """A decoder of what `_encode` described; `rounded` says that numbers lost digits on the way."""

    def __init__(self, arrays: _Arrays):
        self.arrays = arrays
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
        array = self.arrays[code["array"]]
        if "key" in code:
            return jr.wrap_key_data(jnp.asarray(array), impl=code["key"])
        if code["library"] == "numpy":
            return array
        value = to_jax(array)
        self.rounded |= array.dtype.kind in "fc" and value.dtype != array.dtype
        return value

    def _object(self, code: dict) -> Any:
        kind = _classes()[code["class"]]
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
    """Return the classes that can be saved: the public ones of the library, by name. Files name no
    others.
    """
    package = sys.modules[__package__]
    places = [package, *(getattr(package, name) for name in NAMESPACES)]
    return {
        name: kind
        for place in places
        for name, kind in vars(place).items()
        if isinstance(kind, type)
        and (dataclasses.is_dataclass(kind) or issubclass(kind, eqx.Enumeration))
    }


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
