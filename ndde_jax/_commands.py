"""The commands that use a saved discovery: `effects`, `forecast`, `intervene`."""

import argparse
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ._atomic import Together
from ._output import csv_table, pictures_or_none
from ._spoken import parse_edge

# Share of a rate's variance from which on what two sources do together is shown.
TOGETHER = 0.01
# Quantiles of what is printed: the median and a 90 % interval.
ENDS = np.array([0.5, 0.05, 0.95])


def add_commands(commands: Any, seed: Callable[[str], int]) -> None:
    """Register them with the subparsers of the command line."""
    text = "sign, slope and interval of every edge of a saved discovery"
    command = _command(commands, "effects", _effects, None, text)
    command.add_argument("--no-plot", action="store_true", help="write no picture")
    text = "formulas of the rates as well, where a few polynomial terms say as much"
    command.add_argument("--equations", action="store_true", help=text)

    text = "paths and intervals from the end of the record of a saved discovery"
    _future(_command(commands, "forecast", _forecast, "forecast", text), seed)

    text = "what if a variable were held, shifted, or an edge cut"
    command = _command(commands, "intervene", _intervene, "intervention", text)
    _future(command, seed)
    add = command.add_argument
    many = dict(action="append", default=[])
    text = "hold a variable at a value. May be repeated"
    add("--set", type=_assignment, metavar="X=VALUE", help=text, **many)
    text = "what all others see of a variable is higher by this much. May be repeated"
    add("--shift", type=_assignment, metavar="X=AMOUNT", help=text, **many)
    text = "B sees A at its mean; A>B@3: only at lag 3. May be repeated"
    add("--cut", type=_edge, metavar="A>B", help=text, **many)
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


def _future(command: argparse.ArgumentParser, seed) -> None:
    add = command.add_argument
    add("--horizon", type=_span, default=24, help='samples, or a time such as "6h" (%(default)s)')
    add("--paths", type=_count, default=200, help="number of paths (%(default)s)")
    add("--seed", type=seed, default=0, help="seed of the random numbers (%(default)s)")
    add("--no-plot", action="store_true", help="write no picture")


# ---- words ----


def _span(text: str) -> int | str:
    return int(text) if text.strip().lstrip("+-").isdecimal() else text


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number above 0; got {text!r}.")
    return int(text)


def _assignment(text: str) -> tuple[str, float]:
    name, equals, number = text.rpartition("=")
    try:
        value = float(number)
    except ValueError:
        value = np.nan
    if not (equals and name.strip() and np.isfinite(value)):
        raise argparse.ArgumentTypeError(f"expected VARIABLE=NUMBER; got {text!r}.")
    return name.strip(), value


def _edge(text: str) -> tuple:
    try:
        return parse_edge(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


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
