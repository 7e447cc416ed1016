"""Records that are read in chunks because they do not fit into memory."""

import dataclasses
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from .._checks import argument_error, check_names, check_whole, is_real
from .._types import Checked
from ._samples import Samples

# Default size of a chunk, in numbers.
NUMBERS = 2**20
# Maximum number of stretches held in memory, and minimum length of each, in longest lags: shorter
# parts have fewer stretches.
STRETCHES, ROOM = 8, 50
EXPECTED = (
    "an array that is read by slices, such as np.load(path, mmap_mode='r') or one of Zarr or Dask; "
    "the path of an NPY or Zarr array or of Parquet files; or a function that returns an iterator "
    "of arrays [time dim]"
)


@dataclasses.dataclass(frozen=True, eq=False)
class Chunks:
    """A record read chunk by chunk, for [`discover`][ndde_jax.discover].

    One recording of equally spaced samples, in order. NumPy memory maps, Zarr arrays and Dask
    arrays need no wrapping. Use this class for other sources, or to set how much is read at a time.

    - `source`: an array read by slices, `[time dim]`; the path of an `.npy` file, of a `.zarr`
        array, or of a Parquet file or a folder of Parquet files, read by row groups in the order
        of the file names; a pyarrow `Dataset`; or a function that returns an iterator of arrays
        `[time dim]` of any lengths. The function is called several times and must return the same
        data each time. A sample of NaN separates what comes before it from what comes after, as
        between two recordings.
    - `columns`: which columns of Parquet files to read; all by default. They must hold numbers.
    - `rows`: number of samples read at a time; by default about a million numbers. A Dask array is
        read in its own chunks.
    - `in_memory`: number of samples held in memory for computations that need windows and not only
        their sums; by default as many as give four million spline terms at all lags. A record that
        is no longer than this is read whole and treated like an array.

    **Raises:** `ValueError` for an unsupported source, and for numbers that are not whole or not
    positive.

    ```python
    import numpy as np
    import ndde_jax as ndde

    def chunks():
        rng = np.random.default_rng(0)
        return (rng.normal(size=(1000, 2)) for _ in range(100))

    record = ndde.Chunks(chunks, in_memory=10_000)
    print(record.length)  # 100000
    ```
    """

    source: Any
    columns: Checked[Sequence[str] | None] = None
    rows: Checked[int | None] = None
    in_memory: Checked[int | None] = None

    def __post_init__(self):
        for name in ("rows", "in_memory"):
            if getattr(self, name) is not None:
                check_whole(getattr(self, name), name)
        if self.columns is not None:
            object.__setattr__(self, "columns", check_names(self.columns, None, "columns"))
        source = _opened(self.source)
        if not (_sliced(source) or callable(source) or hasattr(source, "to_batches")):
            raise argument_error("source", EXPECTED, self.source)
        if _sliced(source) and (source.ndim not in (1, 2) or not is_real(source.dtype)):
            expected = "real numbers [time dim]"
            raise argument_error("source", expected, f"shape {source.shape} of {source.dtype}")
        if _sliced(source) and np.isnan(source.shape[0]):
            remedy = "call compute_chunk_sizes() on the Dask array first."
            raise ValueError(f"source must have a known length; {remedy}")
        object.__setattr__(self, "source", source)

    @property
    def length(self) -> int:
        """The number of samples, counted if the source does not state it."""
        if _sliced(self.source):
            return int(self.source.shape[0])
        if hasattr(self.source, "count_rows"):
            return int(self.source.count_rows())
        return sum(len(block) for block in self.blocks())

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the variables; None where the source has none.

        **Raises:** `ValueError` for columns that do not exist or do not hold numbers.
        """
        if not hasattr(self.source, "to_batches"):
            return None
        from pyarrow.types import is_floating, is_integer

        schema = self.source.schema
        names = tuple(schema.names if self.columns is None else self.columns)
        for name in names:
            if name not in schema.names:
                raise argument_error("columns", f"some of {', '.join(schema.names)}", name)
            kind = schema.field(name).type
            if not (is_floating(kind) or is_integer(kind)):
                remedy = "list the other columns: columns=(...)."
                raise ValueError(f"column {name!r} holds {kind}, not numbers; {remedy}")
        return names

    @property
    def dask(self) -> Any:
        """The Dask array `[time dim]` that is read; None for other sources."""
        if type(self.source).__module__.partition(".")[0] != "dask":
            return None
        return self.source if self.source.ndim == 2 else self.source[:, None]

    def blocks(self) -> Iterator[Float[np.ndarray, "time dim"]]:
        """Yield the samples in order, in blocks `[time dim]`.

        **Raises:** `ValueError` for blocks of different width, and for infinite values.
        """
        first = None
        for block in map(as_block, self._raw()):
            first = block.shape[1] if first is None else first
            if block.shape[1] != first:
                said = f"the first has {first} columns, a later one {block.shape[1]}."
                raise ValueError(f"all chunks must have the same variables; {said}")
            yield block

    def stretches(self, starts: Iterable[int], length: int) -> list[np.ndarray]:
        """Return stretches of one length, given the positions of their first samples, ascending."""
        if _sliced(self.source):
            return [as_block(self.source[start : start + length]) for start in starts]
        found: dict[int, list[np.ndarray]] = {start: [] for start in starts}
        at = 0
        for block in self.blocks():
            for start, parts in found.items():
                if start < at + len(block) and at < start + length:
                    parts.append(block[max(start - at, 0) : start + length - at].copy())
            at += len(block)
        return [np.concatenate(parts) for parts in found.values()]

    def _raw(self) -> Iterator[Any]:
        """Yield the chunks as the source gives them."""
        source, names = self.source, self.names or ()
        width = source.shape[-1] if _sliced(source) and source.ndim == 2 else len(names)
        rows = self.rows or max(NUMBERS // max(width, 1), 1)
        if _sliced(source):
            yield from (source[k : k + rows] for k in range(0, source.shape[0], rows))
        elif callable(source):
            yield from source()
        else:
            # Reading ahead would hold more in memory.
            options = dict(batch_readahead=1, fragment_readahead=1, use_threads=False)
            for batch in source.to_batches(columns=list(names), batch_size=rows, **options):
                columns = [c.to_numpy(zero_copy_only=False) for c in batch.columns]
                yield np.stack([c.astype(float) for c in columns], axis=1)


def as_chunks(x: Any) -> Chunks | None:
    """Return `Chunks`, a memory map, or an array of Zarr or Dask as `Chunks`; None for anything
    else.
    """
    if isinstance(x, Chunks):
        return x
    lazy = type(x).__module__.partition(".")[0] in ("dask", "zarr") and _sliced(x)
    return Chunks(x) if lazy or isinstance(x, np.memmap) else None


def as_block(block: Any) -> Float[np.ndarray, "time dim"]:
    """Return one chunk as an array `[time dim]`.

    **Raises:** `ValueError` for anything but real numbers, and for infinite values.
    """
    block = np.asarray(block)
    block = block[:, None] if block.ndim == 1 else block
    if block.ndim != 2 or not is_real(block.dtype):
        got = f"shape {block.shape} of {block.dtype}"
        raise argument_error("every chunk", "an array of real numbers [time dim]", got)
    if np.isinf(block).any():
        raise ValueError("x must be finite, or NaN for missing values; it holds infinite values.")
    return block


class Part(NamedTuple):
    """A part of a record that is held in memory.

    - `values`: its stretches, spread evenly from the first to the last sample of the record.
    - `starts`: the positions of their first samples.
    - `length`: number of samples of the whole record.
    """

    values: list[np.ndarray]
    starts: tuple[int, ...]
    length: int

    @property
    def whole(self) -> bool:
        """Whether the part is all of the record."""
        return sum(map(len, self.values)) == self.length

    def on_clock(self, samples: Samples) -> Samples:
        """Return the samples of the stretches at their times in the record."""
        times = tuple(t + k * samples.dt for t, k in zip(samples.times, self.starts, strict=True))
        return dataclasses.replace(samples, times=times)


def part_of(chunks: Chunks, most: int, reach: int) -> Part:
    """Return a part of at most `most` samples of a record, in stretches much longer than the
    `reach` of a window; all of the record if it is no longer.
    """
    length = chunks.length
    if length <= most:
        blocks = [block.copy() for block in chunks.blocks()]
        if not blocks:
            raise ValueError(
                "x is empty: it holds no samples. A function that returns blocks must restart at "
                "every call."
            )
        return Part([np.concatenate(blocks)], (0,), length)
    count = int(np.clip(most // (ROOM * reach), 1, STRETCHES))
    each = most // count
    starts = np.linspace(0, length - each, count).round().astype(int).tolist()
    return Part(chunks.stretches(starts, each), tuple(starts), length)


def _sliced(source: Any) -> bool:
    """Return whether a source is an array or can be read like one."""
    return hasattr(source, "shape") and hasattr(source, "dtype") and hasattr(source, "__getitem__")


def _opened(source: Any) -> Any:
    """Return the contents at a path, not yet read; anything else unchanged."""
    if not isinstance(source, os.PathLike):
        return source
    path = Path(source)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    if path.suffix == ".npy":
        return np.load(path, mmap_mode="r")
    if path.suffix == ".zarr":
        import zarr

        return zarr.open_array(path, mode="r")
    from pyarrow.dataset import dataset

    files = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
    return dataset(files, format="parquet")
