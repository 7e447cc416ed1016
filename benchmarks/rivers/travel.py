"""Travel times of true edges, compared with the time between the peaks of one flood."""

import jax
import numpy as np
from jaxtyping import Float

import ndde_jax as ndde
from benchmarks import tables

from .data import Record
from .settings import settings


def peak(levels: Float[np.ndarray, "time"], share: float = 0.98) -> float:
    """The middle of the stretch around the highest level that rises above `share` of its height
    over the median: rounded records have flat tops.
    """
    height = levels - np.median(levels)
    above = np.flatnonzero(height >= share * height.max())
    runs = np.split(above, np.flatnonzero(np.diff(above) > 8) + 1)
    return float(next(run for run in runs if height.argmax() in run).mean())


def travel_table(record: Record, *, seed: int = 0) -> str:
    """Return one row per true edge whose two highest peaks belong to one flood: that of the target
    is within the settings' limits of the source's. Peaks are taken from the record, without delays.
    """
    chosen, x = settings()["travel"], record.filled
    samples = ndde.read_samples(x, dt=record.dt, names=record.names, time_unit="h")
    key, body, errors, inside, widths = jax.random.key(seed), [], [], [], []
    for source, target in zip(*np.nonzero(record.truth), strict=True):
        lag = (peak(x[:, target]) - peak(x[:, source])) * record.dt
        if not chosen["earliest_h"] <= lag <= chosen["latest_h"]:
            continue
        largest = round(chosen["latest_h"] / record.dt)
        found = ndde.measure.travel_time(samples, int(source), int(target), largest, key=key)
        errors.append(60 * abs(found.delay - lag))
        inside.append(found.lower <= lag <= found.upper)
        widths.append(found.upper - found.lower)
        numbers = (lag, found.delay, found.lower, found.upper, found.likeness)
        names = [record.names[source], record.names[target]]
        body.append([*names, *(tables.number(value, 2) for value in numbers)])
    header = ["source", "target", "peaks [h]", "delay [h]", "lower", "upper", "likeness"]
    if not body:
        return "No true edge has the peaks of one flood at both ends."
    return (
        f"{tables.markdown(header, body, text_columns=2)}\n\n{len(body)} of "
        f"{int(record.truth.sum())} edges: median |delay - peaks| {np.median(errors):.0f} min; "
        f"{100 * np.mean(inside):.0f} % of the 90 % intervals contain the time between peaks; "
        f"median width {np.median(widths):.1f} h."
    )
