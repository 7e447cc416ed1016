"""Real series that ship with the package, each with its provenance and its documented links.

The CSV files in `ndde_jax/data/` hold the numbers as published, and `examples.json` describes them.
What `load_example` does to the numbers is documented here and in `ndde_jax/data/README.md`.
"""

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Shaped

from .._types import Checked


class KnownLink(NamedTuple):
    """A driver documented in the literature.

    `delay` is the documented range in samples, both ends included, or None if it is not documented.
    `effect` is the sign of the influence, "+" or "-".
    """

    source: str
    target: str
    delay: tuple[int, int] | None
    effect: str
    mechanism: str
    reference: str


@dataclass(frozen=True, eq=False)
class Example:
    """A real trajectory with everything needed to analyse it and to cite it.

    Pass it to [`discover`][ndde_jax.discover]: `discover(example, lags=example.lags, ...)`.

    - `values`: float64 `[time dim]`, in `units`, without missing values
    - `names`, `units`: one per variable
    - `dt`, `time_unit`: sampling interval and its unit
    - `lags`: candidate lags in samples that suit the series, ascending
    - `time`: time stamps `[time]`, `datetime64`, for plots
    - `description`, `source`, `licence`: what it is, where it comes from, who may redistribute it
    - `known`: drivers documented in the literature. They are not a ground truth: the list is
      incomplete, and a pair that is missing from it may still be coupled
    """

    name: str
    values: Float[np.ndarray, "time dim"]
    names: tuple[str, ...]
    units: tuple[str, ...]
    dt: float
    time_unit: str
    lags: tuple[int, ...]
    time: Shaped[np.ndarray, "time"]
    description: str
    source: str
    licence: str
    known: tuple[KnownLink, ...]


_DATA = Path(__file__).parents[1] / "data"
# The example that does not ship with the package, and the digest of its file.
BLOWFLIES = "blowflies"
_DIGEST = "be3b4dffae2486ad2f4d37bfbf53103829a197caed1da7c367d7c212d1b6f70a"


def example_names() -> tuple[str, ...]:
    """Return the names that `load_example` accepts, in alphabetical order.

    >>> example_names()
    ('elbe_flood', 'enso', 'tropical_pacific')
    """
    return tuple(sorted(set(_described()) - {BLOWFLIES}))


def load_example(name: Checked[str], path: str | os.PathLike | None = None) -> Example:
    """Load a real series that ships with the package; only NumPy is needed.

    - `"elbe_flood"`: levels at five gauges of two small rivers in Saxony, Müglitz and Gottleuba,
      during the flood of September 2024, every 15 minutes, `[3010 5]`. Water moves downstream, so
      the true network is known, but not the travel times.
    - `"enso"`: monthly sea-surface temperature anomaly off Peru (Niño 1+2), 1950-2010. One
      variable `[732 1]`, an example of the delayed feedback of a variable on itself.
    - `"tropical_pacific"`: Niño 1+2 and Niño 3.4 temperature anomalies and the Southern
      Oscillation Index, 1951-2010, `[720 3]`. Couplings between ocean and atmosphere, and a
      delayed driver: wind over the central Pacific reaches South America as a Kelvin wave.

    One more does not ship, because no right to redistribute it is documented:

    - `"blowflies"`: Nicholson's experiment I, adult blowflies day by day, `[276 1]`. Give the file
      `blowflies.csv` (columns day, count and set, separated by semicolons) as `path`. It is checked
      against a digest, so that everyone uses the same numbers.

    Temperatures are anomalies: the mean of each calendar month over the whole record is removed,
    because a drift that does not depend on time cannot represent seasonal forcing. Anomalies are in
    °C, neither detrended nor scaled.

    Raises ValueError for an unknown name, and for `"blowflies"` without its file.

    >>> example = load_example("enso")
    >>> example.values.shape, example.dt, example.time_unit
    ((732, 1), 1.0, 'month')
    >>> str(example.time[example.values[:, 0].argmax()])
    '1983-06'
    """
    if path is not None and name != BLOWFLIES:
        raise ValueError("path is only for 'blowflies', the one example that does not ship.")
    if not isinstance(name, str) or name not in (*example_names(), BLOWFLIES):
        known = ", ".join(example_names())
        raise ValueError(f"name must be an example, one of: {known}; got {name!r}.")
    about = _described()[name]
    if name == BLOWFLIES:
        time, values = _blowflies(path)
    else:
        header, *rows = np.loadtxt(next(_DATA.glob(f"{name}.csv*")), str, delimiter=",")
        places = {column: k for k, column in enumerate(header.tolist())}
        columns = [places[column] for column in about.get("columns", header[1:])]
        unit = "M" if about["time_unit"] == "month" else "m"
        time = np.array([row[0] for row in rows], dtype=f"datetime64[{unit}]")
        values = np.array([row[columns] for row in rows], dtype=np.float64)
    # The published index of pressure is a standardised anomaly already.
    if warm := [j for j, unit in enumerate(about["units"]) if unit == "°C"]:
        month, x = time.astype("datetime64[M]").astype(int) % 12, values[:, warm]
        climatology = np.stack([x[month == m].mean(axis=0) for m in range(12)])
        values[:, warm] = x - climatology[month]
    links = about["known"]
    known = tuple(KnownLink(a, b, delay and tuple(delay), *rest) for a, b, delay, *rest in links)
    texts = {key: about[key] for key in ("dt", "time_unit", "description", "source", "licence")}
    lists = {key: tuple(about[key]) for key in ("names", "units", "lags")}
    return Example(name=name, values=values, time=time, known=known, **texts, **lists)


def _described() -> dict[str, Any]:
    return json.loads((_DATA / "examples.json").read_text(encoding="utf-8"))


def _blowflies(path: str | os.PathLike | None) -> tuple[np.ndarray, np.ndarray]:
    if path is None:
        raise ValueError(
            "the blowflies do not ship, because no right to redistribute them is documented. They "
            "are in the R package pomp (`blowflies`). Write its columns day, count and set to a "
            "file with semicolons, and pass it: load_example('blowflies', path='blowflies.csv')."
        )
    raw = Path(path).read_bytes()
    if (digest := hashlib.sha256(raw).hexdigest()) != _DIGEST:
        got = f"its SHA-256 is {digest}, expected {_DIGEST}"
        raise ValueError(f"{path} is not the expected file of blowflies: {got}.")
    table = np.genfromtxt(raw.decode().splitlines(), delimiter=";", names=True, dtype=None)
    days, counts = (table[name][table["set"] == 1].astype(float) for name in ("day", "count"))
    regular = np.arange(days[0], days[-1] + 0.5)
    return regular.astype("datetime64[D]"), np.interp(regular, days, counts)[:, None]
