"""The data arguments of the command `ndde-jax discover`: files, recordings and lags."""

import argparse
import dataclasses
from collections.abc import Callable
from typing import Any

from .samples._reading import from_table, joined, read_samples
from .samples._samples import Samples
from .samples._tables import read_table


def read_file(arguments: argparse.Namespace, note: Callable) -> Samples:
    """Return what a file holds, as the options say."""
    tables = [
        read_table(
            arguments.data,
            columns=arguments.columns,
            time_column=arguments.time_column,
            key=key,
            separator=arguments.separator,
            decimal=arguments.decimal,
            header=None if arguments.header is None else arguments.header == "yes",
            missing=arguments.missing,
            day_first=None if arguments.dates is None else arguments.dates == "day-first",
            time_zone=arguments.time_zone,
            variables=arguments.variables,
            trial=arguments.trial,
            only=arguments.only,
            months=arguments.months,
            kept=arguments.exogenous,
        )
        for key in arguments.key or [None]
    ]
    for notice in dict.fromkeys(notice for table in tables for notice in table.notices):
        note(arguments, notice)
    table = tables[0]
    if any(other.names != table.names for other in tables):
        raise ValueError("The arrays of --key must have the same columns; they differ.")
    parts = [part for each in tables for part in from_table(each, time=arguments.dt is None)]
    read = joined(parts)
    if arguments.dt is None and read.dt is None and read.t is None:
        raise ValueError(
            "The file has no time column: give the sampling interval with --dt, or name the "
            "column with --time-column."
        )
    if read.time_unit and arguments.time_unit not in (None, read.time_unit):
        raise ValueError(
            f"The time stamps are counted in {read.time_unit}s; give --dt together with "
            f"--time-unit {arguments.time_unit}."
        )
    if read.mask and not any(mask.any() for mask in read.mask):
        raise ValueError("--only and --months together leave no row.")
    mask = None if not read.mask else list(read.mask) if len(read.mask) > 1 else read.mask[0]
    unit = read.time_unit or arguments.time_unit or ""
    try:
        return read_samples(read, dt=arguments.dt, time_unit=unit, mask=mask)
    except ValueError as error:
        raise ValueError(f"{arguments.data}: {error}") from error


def read_example(arguments: argparse.Namespace) -> tuple[Samples, tuple[int, ...]]:
    """Return a shipped record, and its lags."""
    from .samples._examples import load_example

    example = load_example(arguments.example)
    chosen = arguments.columns or example.names
    if missing := [name for name in chosen if name not in example.names]:
        raise ValueError(
            f"The example has no column {missing[0]!r}; it has: {', '.join(example.names)}."
        )
    values = example.values[:, [example.names.index(name) for name in chosen]]
    example = dataclasses.replace(example, values=values, names=tuple(chosen))
    unit = arguments.time_unit or example.time_unit
    return read_samples(example, dt=arguments.dt, time_unit=unit), example.lags


def read_transforms(arguments: argparse.Namespace, names: tuple[str, ...]) -> dict[str, str]:
    """Return the variables of --log and --ranks, and how each is read."""
    found: dict[str, str] = {}
    for kind in ("log", "ranks"):
        asked = [name for part in getattr(arguments, kind) for name in part]
        for name in names if "all" in asked and "all" not in names else asked:
            if name not in names:
                raise ValueError(
                    f"--{kind} {name}: there is no such variable; there are {', '.join(names[:20])}"
                    ", or all."
                )
            if found.setdefault(name, kind) != kind:
                raise ValueError(f"--log and --ranks both name {name}; give one of them.")
    return found


def rate_lags(
    arguments: argparse.Namespace, samples: Samples, transform: Any, default: Any, note: Callable
) -> tuple[int, ...]:
    """Return candidate lags of the rate, in samples, as given or chosen from the data."""
    lags = arguments.lags
    if lags is not None and not isinstance(lags, str):
        return _of_rate(lags) if arguments.lags_of == "level" else lags
    if lags is None and default is not None:
        return default
    from .samples._prepare import EVERY, STEPS, prepare_samples
    from .windows._choose_lags import MANY, check_decidable, choose_lags

    try:
        if samples.dim > MANY:  # or the choice of lags alone would take long
            check_decidable(samples, (0,))
    except ValueError as error:
        raise ValueError(f"{arguments.data}: {error}") from error
    if lags is None:
        steps = EVERY if arguments.offsets else STEPS
        steps = () if arguments.no_treat else steps
        treated = prepare_samples(samples, steps, transform=transform)
        lags, reason = choose_lags(treated)
        if lags != (0,):
            note(arguments, reason)
        return lags
    from .samples._lag_times import lags_in_samples

    lags = lags_in_samples(lags, samples)
    return _of_rate(lags) if arguments.lags_of == "level" else lags


def _of_rate(lags: tuple[int, ...]) -> tuple[int, ...]:
    """Return lags of the rate from lags of the level, one sample more."""
    if min(lags) < 1:
        raise ValueError(
            f"--lags-of level: lags of levels begin with 1, the sample before; got {min(lags)}."
        )
    return tuple(lag - 1 for lag in lags)


def rate_edge(arguments: argparse.Namespace, edge: tuple) -> tuple:
    """Return an edge of the prior at the lag of the rate."""
    if arguments.lags_of == "level" and len(edge) == 3:
        return (*edge[:2], *_of_rate(edge[2:]))
    return edge
