"""The commands `effects`, `forecast`, `intervene`, and the data arguments of `discover`."""

import argparse
import contextlib
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ._files import Together
from ._output import csv_table, pictures_or_none
from ._spoken import parse_edge
from .samples._cells import to_float
from .samples._reading import from_table, joined, read_samples
from .samples._samples import Samples
from .samples._tables import read_table

# Options that the reader of tables takes as they are.
OF_TABLES = (
    *("columns", "time_column", "separator", "decimal", "missing", "time_zone"),
    *("variables", "trial", "only", "months"),
)
# Share of a rate's variance from which on what two sources do together is shown.
TOGETHER = 0.01
# Quantiles of what is printed: the median and a 90 % interval.
ENDS = np.array([0.5, 0.05, 0.95])


def argument(parse: Callable[[str], Any], expected: str = "") -> Callable[[str], Any]:
    """Return a parser for argparse, which shows the sentence of the `ValueError` that is raised, or
    what was `expected`.
    """

    def read(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            said = f"expected {expected}; got {text[:40]!r}." if expected else str(error)
            raise argparse.ArgumentTypeError(said) from None

    return read


def whole(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return a parser of whole numbers within bounds, both included."""

    def parse(text: str) -> int:
        number = int(text)
        if number < least or (most is not None and number > most):
            raise ValueError
        return number

    bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
    return argument(parse, f"a whole number {bounds}")


SEED = whole(0, 2**32 - 1)


def add_commands(commands: Any) -> None:
    """Register them with the subparsers of the command line."""
    text = "sign, slope and interval of every edge of a saved discovery"
    command = _command(commands, "effects", _effects, None, text)
    command.add_argument("--no-plot", action="store_true", help="write no picture")
    text = "formulas of the rates as well, where a few polynomial terms say as much"
    command.add_argument("--equations", action="store_true", help=text)

    text = "paths and intervals from the end of the record of a saved discovery"
    _future(_command(commands, "forecast", _forecast, "forecast", text))

    text = "what if a variable were held, shifted, or an edge cut"
    command = _command(commands, "intervene", _intervene, "intervention", text)
    _future(command)
    add = command.add_argument
    many = dict(action="append", default=[])
    text = "hold a variable at a value. May be repeated"
    add("--set", type=argument(_assignment), metavar="X=VALUE", help=text, **many)
    text = "what all others see of a variable is higher by this much. May be repeated"
    add("--shift", type=argument(_assignment), metavar="X=AMOUNT", help=text, **many)
    text = "B sees A at its mean; A>B@3: only at lag 3. May be repeated"
    add("--cut", type=argument(parse_edge), metavar="A>B", help=text, **many)
    add("--start", type=_span, default=0, help="sample, or time, of its begin (%(default)s)")
    add("--stop", type=_span, help="sample, or time, from which on it is over (default: never)")


def _command(commands, name: str, run, out: str | None, text: str) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    add = command.add_argument
    add("discovery", help="directory that `discover` wrote, or the `discovery` in it")
    default = "%(default)s" if out else "default: none"
    add("--out", default=out, metavar="DIR", help=f"directory for the results ({default})")
    add("--quiet", action="store_true", help="print nothing but errors")
    add_general(command)
    command.set_defaults(run=run)
    return command


def add_general(command: argparse.ArgumentParser) -> None:
    """Add the options that may stand before a command or behind it."""
    hidden = dict(action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    command.add_argument("--debug", **hidden)
    command.add_argument("--no-cache", **hidden)


def _future(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--horizon", type=_span, default=24, help='samples, or a time such as "6h" (%(default)s)')
    add("--paths", type=whole(1), default=200, help="number of paths (%(default)s)")
    add("--seed", type=SEED, default=0, help="seed of the random numbers (%(default)s)")
    add("--no-plot", action="store_true", help="write no picture")


# ---- words ----


def _span(text: str) -> int | str:
    return int(text) if text.strip().lstrip("+-").isdecimal() else text


def _assignment(text: str) -> tuple[str, float]:
    name, equals, number = text.rpartition("=")
    value = to_float(number)
    if not (equals and name.strip() and value is not None and np.isfinite(value)):
        raise ValueError(f"expected VARIABLE=NUMBER; got {text!r}.")
    return name.strip(), value


# ---- commands ----


def _load(arguments: argparse.Namespace) -> Any:
    import ndde_jax

    directory = Path(arguments.discovery)
    inner = directory / "discovery"
    return ndde_jax.Discovery.load(inner if inner.is_dir() else directory)


def _effects(arguments: argparse.Namespace) -> None:
    import jax

    found = _load(arguments)
    effects = found.effects()
    pairs = effects.interactions()
    contents = {
        "effects.csv": csv_table(effects.to_frame()),
        "curves.csv": csv_table(_curves(effects)),
        "interactions.csv": csv_table(pairs.to_frame()),
    }
    together = pairs.above(TOGETHER)
    if not arguments.no_plot and arguments.out:
        contents |= pictures_or_none(lambda: {"effects.png": effects.plot()})
        if together:
            contents |= pictures_or_none(lambda: {"interactions.png": pairs.plot()})
    said = f"{effects!r}\n{pairs!r}" if together else repr(effects)
    if arguments.equations:
        formulas = found.equations(key=jax.random.key(0))
        contents["equations.txt"] = "\n".join([*formulas, ""]).encode()
        said = "\n".join([said, *formulas])
    _finish(arguments, contents if arguments.out else {}, said)


def _curves(effects: Any) -> Any:
    """Return the curves of all edges in one frame."""
    import pandas as pd

    rows = []
    for source, target, lag, *_ in effects.rows():
        with contextlib.suppress(ValueError):  # too few different values: effects.csv has the slope
            points = zip(*effects.curve(source, target, lag), strict=True)
            rows += [(source, target, lag, *point) for point in points]
    return pd.DataFrame(rows, columns=("source", "target", "lag", "x", "y", "low", "high"))


def _forecast(arguments: argparse.Namespace) -> None:
    import jax

    found = _load(arguments)
    made = found.forecast(
        arguments.horizon, paths=arguments.paths, key=jax.random.key(arguments.seed)
    )
    _finish_future(arguments, made, "forecast", made.quantile(ENDS), "")


def _intervene(arguments: argparse.Namespace) -> None:
    import jax

    found = _load(arguments)
    made = found.intervene(
        dict(arguments.set) or None,
        shift=dict(arguments.shift) or None,
        cut=arguments.cut or None,
        horizon=arguments.horizon,
        start=arguments.start,
        stop=arguments.stop,
        paths=arguments.paths,
        key=jax.random.key(arguments.seed),
    )
    _finish_future(arguments, made, "intervention", made.effect(ENDS), "changes by ")


def _finish_future(
    arguments: argparse.Namespace, made: Any, name: str, ends: Any, verb: str
) -> None:
    """Write a forecast or an intervention, and print where each variable ends, by quantiles
    `[3 horizon dim]`.
    """
    from .use._forecast import said_of_time

    contents = {f"{name}.csv": csv_table(made.to_frame())}
    if not arguments.no_plot:
        contents |= pictures_or_none(lambda: {f"{name}.png": made.plot()})
    at = said_of_time(made, -1)
    lines = [
        f"  {variable} {verb}{middle:.4g} at {at}, 90 %: {low:.4g} to {high:.4g}"
        for variable, (middle, low, high) in zip(made.names, np.asarray(ends)[:, -1].T, strict=True)
    ]
    _finish(arguments, contents, "\n".join([repr(made), *lines, *made.notes]))


# ---- files ----


def _finish(arguments: argparse.Namespace, contents: dict[str, bytes], text: str) -> None:
    """Write all files or none, and say so."""
    if contents:
        directory = Path(arguments.out)
        if directory.exists() and not directory.is_dir():
            raise ValueError(f"--out must be a directory; {directory} is a file.")
        directory.mkdir(parents=True, exist_ok=True)
        with Together() as files:
            for name, content in contents.items():
                files.add(directory / name, content)
    if arguments.quiet:
        return
    print(text)
    for name in contents:
        print(f"wrote {Path(arguments.out) / name}")


def read_file(arguments: argparse.Namespace, note: Callable) -> Samples:
    """Return what a file holds, as the options say."""
    tables = [
        read_table(
            arguments.data,
            key=key,
            header=None if arguments.header is None else arguments.header == "yes",
            day_first=None if arguments.dates is None else arguments.dates == "day-first",
            kept=arguments.exogenous,
            **{name: getattr(arguments, name) for name in OF_TABLES},
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
