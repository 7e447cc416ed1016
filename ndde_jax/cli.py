"""The command `ndde-jax`: from a file of measurements to a graph, a table, pictures and a model.

Matplotlib, pandas and xarray are imported by the commands that need them.
"""

import argparse
import contextlib
import dataclasses
import functools
import os
import re
import shlex
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import jax
import numpy as np

import ndde_jax

from ._blas import limit_blas_to_one_thread
from ._checks import check_positive, check_whole
from ._files import together
from ._output import (
    Pictures,
    csv_table,
    forget_stages,
    pictures_of,
    pictures_or_none,
    write_results,
)
from ._program import INTERRUPTED, disable_wrong_sums, enable_compilation_cache, run_program
from ._store import version
from ._wording import amount
from .samples._cells import check_there, to_float
from .samples._clock_inputs import is_clock
from .samples._examples import example_names, load_example
from .samples._lag_times import lags_in_samples, written_lags
from .samples._prepare import EVERY, STEPS, prepare_samples
from .samples._reading import from_table, joined, read_samples
from .samples._samples import Samples
from .samples._tables import Table, read_table
from .windows._choose_lags import MANY, check_decidable, choose_lags

# Finished stages of a discovery, in the directory of its results.
UNFINISHED = "unfinished"
# Options that are passed to the reader of tables unchanged.
OF_TABLES = (
    *("columns", "time_column", "separator", "decimal", "missing", "time_zone"),
    *("variables", "trial", "only", "months"),
)
# Share of a rate's variance from which the interaction of two sources is shown.
TOGETHER = 0.01


def main(argv: Sequence[str] | None = None) -> int:
    """Run `ndde-jax` with the arguments `argv` (default: those of the process).

    Returns the exit code: 0; 2 after a user's error, which is reported in one line on the standard
    error stream; 1 after an error of the library itself, also in one line; or 130 after Ctrl-C.
    `--debug` shows where an error came from. Argument errors and `--help` raise SystemExit, as in
    argparse.

    >>> main(["examples", "--quiet"])
    elbe_flood
    enso
    tropical_pacific
    0
    """
    return _run(_parse(argv))


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    words = sys.argv[1:] if argv is None else list(argv)
    given = argparse.Namespace(started=time.time(), command=shlex.join(["ndde-jax", *words]))
    return _parser().parse_args(words, given)


def program() -> int:
    """Run `main` as the process `ndde-jax`: Ctrl-C and SIGTERM end it at once, with code 130 and a
    message that says which files are kept. Compiled programs are kept for the next run.
    """
    arguments = _parse(None)
    disable_wrong_sums()
    limit_blas_to_one_thread()
    if not arguments.no_cache:
        enable_compilation_cache()
    return run_program(lambda: _run(arguments), lambda: _interrupt_message(arguments))


def _run(arguments: argparse.Namespace) -> int:
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            arguments.run(arguments)
            sys.stdout.flush()
        except BrokenPipeError:  # the reader, such as `head`, has left; files were written before
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except Exception as error:
            if arguments.debug:
                traceback.print_exc()
            message, code = _explained(error)
            print(f"ndde-jax: error: {message}", file=sys.stderr)
            return code
        except KeyboardInterrupt:
            print(_interrupt_message(arguments), file=sys.stderr)
            return INTERRUPTED
    return 0


def _one_line(error: Any) -> str:
    if isinstance(error, OSError) and error.strerror and not error.filename:
        error = error.strerror  # without "[Errno 28]"
    return " ".join(str(error).split())


def _show_warning(message, *_, **__) -> None:
    """Print a warning without its location in the source, which is of no use to users."""
    print(f"ndde-jax: warning: {_one_line(message)}", file=sys.stderr)


def _interrupt_message(arguments: argparse.Namespace) -> str:
    """Return a message on the files that an interrupted command leaves."""
    out = getattr(arguments, "out", ".")
    stages = (Path(out) / UNFINISHED).rglob("*.npz")
    # Stages of other commands are older: this one touches those that it uses.
    finished = sum(file.stat().st_mtime >= arguments.started for file in stages)
    if getattr(arguments, "written", None):
        kept = f"{', '.join(arguments.written)} are complete in {out}, without the check"
    elif finished:
        stages = "stage is" if finished == 1 else "stages are"
        kept = f"{finished} finished {stages} kept in {Path(out) / UNFINISHED}"
    else:
        return "\nndde-jax: interrupted before any stage was finished; nothing is kept."
    return f"\nndde-jax: interrupted; {kept}, and the same command resumes from there."


def _explained(error: Exception) -> tuple[str, int]:
    """Return an error in one line, and the exit code for its kind."""
    text = _one_line(error)
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in text:
        what = f"not enough memory{text and ': ' + text}"
        return f"{what}. Use fewer variables (--columns) or lags (--lags).", 2
    if isinstance(error, ValueError | OSError | ImportError):
        return text, 2
    kind = f"{type(error).__name__}: {text}".rstrip(": ")
    return f"{kind}. This is a bug in ndde-jax, not in your data; --debug shows where.", 1


def _note(arguments: argparse.Namespace, text: str) -> None:
    """Print a note, on something that the user should know although nothing is wrong."""
    if not arguments.quiet:
        print(f"ndde-jax: note: {text}", file=sys.stderr)


# ---- words ----


def _argument(parse: Callable[[str], Any], expected: str = "") -> Callable[[str], Any]:
    """Return a parser for argparse, which shows the message of the `ValueError`, or what was
    `expected`.
    """

    def read(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            said = f"expected {expected}; got {text[:40]!r}." if expected else str(error)
            raise argparse.ArgumentTypeError(said) from None

    return read


def _whole(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return a parser of whole numbers within inclusive bounds."""

    def parse(text: str) -> int:
        check_whole(number := int(text), "it", least, most)
        return number

    bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
    return _argument(parse, f"a whole number {bounds}")


def parse_edge(text: str) -> tuple:
    """Return an edge as the user writes it, for `prior_knowledge`: "a>b" or "a>b@3".

    Raises ValueError for anything else.

    >>> parse_edge("wind > sea@3")
    ('wind', 'sea', 3)
    """
    source, arrow, rest = text.partition(">")
    target, at, lag = rest.rpartition("@") if "@" in rest else (rest, "", "")
    source, target, lag = source.strip(), target.strip(), lag.strip()
    if not (arrow and source and target) or (at and not lag.isdecimal()):
        raise ValueError(
            f"Expected an edge as SOURCE>TARGET or SOURCE>TARGET@LAG; got {text!r} (quote it: "
            "shells read > as a redirection)."
        )
    return (source, target, int(lag)) if at else (source, target)


def parse_only(text: str) -> tuple[str, tuple[str, ...]]:
    """Return a column and the values that count: "season=winter" or "month=12,1,2".

    Raises ValueError for anything else.

    >>> parse_only("month = 12, 1, 2")
    ('month', ('12', '1', '2'))
    """
    column, equals, values = text.partition("=")
    found = tuple(dict.fromkeys(value.strip() for value in values.split(",")))
    if not (equals and column.strip() and all(found)):
        raise ValueError(f"Expected COLUMN=VALUE or COLUMN=VALUE,VALUE; got {text!r}.")
    return column.strip(), found


def parse_months(text: str) -> tuple[int, ...]:
    """Return months of the year by number: "12,1,2".

    Raises ValueError for anything else.

    >>> parse_months("12,1,2")
    (12, 1, 2)
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and 1 <= int(part) <= 12 for part in parts):
        raise ValueError(f"Expected months as numbers from 1 to 12, such as 12,1,2; got {text!r}.")
    return tuple(dict.fromkeys(map(int, parts)))


def _lags(text: str) -> tuple[int, ...] | str:
    # Times with a unit can be read once the sampling interval is known.
    return text if re.search(r"\d\s*[A-Za-z]", text) else written_lags(text)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _positive(text: str) -> float:
    check_positive(it=(number := float(text)))
    return number


def _span(text: str) -> int | str:
    return int(text) if text.strip().lstrip("+-").isdecimal() else text


def _assignment(text: str) -> tuple[str, float]:
    name, equals, number = text.rpartition("=")
    value = to_float(number)
    if not (equals and name.strip() and value is not None and np.isfinite(value)):
        raise ValueError(f"expected VARIABLE=NUMBER; got {text!r}.")
    return name.strip(), value


# ---- arguments ----

# The arguments of argparse for an option: its names, and the settings.
Option = tuple[str, dict[str, Any]]
FLAG = dict(action="store_true")
REPEATED, LISTED = dict(action="append", default=[]), dict(action="extend", default=[])
EDGE, POSITIVE = _argument(parse_edge), _argument(_positive, "a positive number")
ASSIGNMENT = _argument(_assignment)

# fmt: off
OF_THE_PROGRAM: list[Option] = [
    ("--debug", dict(FLAG, help="show where an error came from")),
    ("--no-cache", dict(FLAG, help="do not keep or reuse compiled programs")),
    ("--version", dict(action="version", version=f"ndde-jax {version()}")),
]
QUIET: Option = ("--quiet", dict(FLAG, help="print nothing but errors"))
SEED: Option = (
    "--seed", dict(type=_whole(0, 2**32 - 1), default=0,
                   help="seed of the random numbers (%(default)s)"))
OF_DISCOVER: list[Option] = [
    ("data", dict(nargs="?", help="file, one row per sample; or use --example")),
    ("--example", dict(metavar="NAME", help=
        "one of the data sets that come with ndde_jax; `ndde-jax examples` lists them")),
    ("--dt", dict(type=POSITIVE, help=
        "sampling interval (default: from the time column; 1 without one)")),
    ("--lags", dict(type=_argument(_lags), help=
        "candidate lags in samples: 0:12 (end included), 0:12:3 or 0,3,6; or times: 0:24h:2h "
        "(default: chosen from the data, or the example's)")),
    ("--lags-of", dict(choices=("rate", "level"), default="rate", help=
        "what lags are counted to: the change to the next sample (rate), or that sample (level), "
        "which is one more (%(default)s); results list both")),
    ("--out", dict(default="result", metavar="DIR", help=
        "directory for the results (%(default)s)")),
    ("--columns", dict(LISTED, type=_names, metavar="A,B", help=
        "variables to use (default: all)")),
    ("--time-column", dict(metavar="NAME", help="column of time stamps (default: recognised)")),
    ("--key", dict(REPEATED, metavar="NAME", help=
        "array of an NPZ file, variable of a NetCDF file, sheet of a workbook. Repeat it for "
        "several recordings")),
    ("--trial", dict(metavar="NAME", help="column that identifies recordings")),
    ("--offsets", dict(FLAG, help="give every recording its own mean")),
    ("--log", dict(LISTED, type=_names, metavar="COLUMN", help=
        "read a variable as its logarithm; 'all' for every one. May be repeated")),
    ("--ranks", dict(LISTED, type=_names, metavar="COLUMN", help=
        "read a variable as normal scores of its ranks; 'all' for every one. May be repeated")),
    ("--totals", dict(LISTED, type=_names, metavar="COLUMN", help=
        "variables that are sums or means over the interval before their stamp, as a day's rain: "
        "they are read one row earlier, where the interval begins. May be repeated")),
    ("--impute", dict(type=_whole(0, 100), default=0, metavar="N", help=
        "estimate missing values with the model and search again, N times (%(default)s)")),
    ("--only", dict(REPEATED, type=_argument(parse_only), metavar="COLUMN=VALUE,...", help=
        "explain rates only where a column has one of these values; the past may come from other "
        "rows. May be repeated")),
    ("--months", dict(LISTED, type=_argument(parse_months), metavar="M,...", help=
        "explain rates only in these months of a time column with dates: 12,1,2")),
    ("--separator", dict(metavar="C", help=
        "character between cells of a text file (default: recognised)")),
    ("--decimal", dict(choices=(".", ","), metavar="MARK", help=
        "decimal mark of a text file, a point or a comma (default: recognised)")),
    ("--header", dict(choices=("yes", "no"), help=
        "whether the first row of a text file or sheet holds names (default: recognised)")),
    ("--missing", dict(REPEATED, metavar="TEXT", help=
        "text that means a missing value; if it ends in *, all texts that begin with it. May be "
        "repeated")),
    ("--dates", dict(choices=("day-first", "month-first"), help=
        "how to read 03/04/2001 (default: judged from the column)")),
    ("--time-zone", dict(metavar="ZONE", help=
        "zone of a clock with daylight saving time, such as Europe/Berlin (default: recognised)")),
    ("--variables", dict(LISTED, type=_names, metavar="A,B", help=
        "dimensions of a NetCDF or Zarr file whose cells are variables")),
    ("--scheme", dict(choices=("euler", "central", "central4", "midpoint"), help=
        "difference scheme for the rate of change (default: chosen from the data)")),
    ("--recipe", dict(choices=("default", "fast", "paper"), default="default", help=
        "default: closed forms, and networks where they explain more; fast: closed forms only; "
        "paper: the paper's gates (%(default)s)")),
    ("--time-unit", dict(metavar="UNIT", help="unit of --dt, for labels and known periods")),
    ("--coefficient", dict(type=POSITIVE, metavar="X", help=
        "penalty of an edge (default: automatic)")),
    ("--forbid", dict(REPEATED, type=EDGE, metavar="A>B", help=
        "A does not drive B, at any lag; A>B@3: not at lag 3. May be repeated")),
    ("--require", dict(REPEATED, type=EDGE, metavar="A>B@LAG", help=
        "A drives B at this lag. May be repeated")),
    ("--exogenous --inputs", dict(LISTED, type=_names, metavar="A,B", help=
        "known inputs: variables that drive but are not driven, or clocks: day, week, year or a "
        "period such as 12.42h")),
    ("--no-self-edges", dict(FLAG, help="no variable drives itself")),
    ("--check", dict(FLAG, help=
        "refit on halves of the data, with edges replaced and with other difference schemes, to "
        "report whether the data support the graph (takes minutes)")),
    SEED,
    ("--full", dict(FLAG, help="print the full report, for a methods section")),
    ("--no-treat", dict(FLAG, help=
        "leave seasons, trends, spikes, irregular times and short gaps as they are")),
    ("--effects", dict(FLAG, help="add effect curves and a forecast to report.html")),
    ("--no-plot", dict(FLAG, help="write no pictures")),
    QUIET,
]
OF_A_FUTURE: list[Option] = [
    ("--horizon", dict(type=_span, default=24, help=
        'samples, or a time such as "6h" (%(default)s)')),
    ("--inputs", dict(metavar="FILE", help=
        "future values of known inputs: a column for each, rows by date or, without dates, from "
        "the first sample of the future on")),
    ("--paths", dict(type=_whole(1), default=200, help="number of paths (%(default)s)")),
    SEED,
    ("--no-plot", dict(FLAG, help="write no picture")),
]
OF_EFFECTS: list[Option] = [
    ("--no-plot", dict(FLAG, help="write no picture")),
    ("--equations", dict(FLAG, help=
        "also write formulas of the rates, where a few polynomial terms explain as much")),
]
OF_AN_INTERVENTION: list[Option] = [
    ("--set", dict(REPEATED, type=ASSIGNMENT, metavar="X=VALUE", help=
        "hold a variable at a value. May be repeated")),
    ("--shift", dict(REPEATED, type=ASSIGNMENT, metavar="X=AMOUNT", help=
        "add this to the value that all other variables read. May be repeated")),
    ("--cut", dict(REPEATED, type=EDGE, metavar="A>B", help=
        "B sees A at its mean value; A>B@3: only at lag 3. May be repeated")),
    ("--start", dict(type=_span, default=0, help=
        "sample, or time, at which the change begins (%(default)s)")),
    ("--stop", dict(type=_span, help=
        "sample, or time, at which the change ends (default: never)")),
]
# fmt: on


def _saved(out: str | None) -> list[Option]:
    """Return the options of a command on a saved discovery, with results in `out` by default."""
    text = f"directory for the results ({'%(default)s' if out else 'default: none'})"
    return [
        ("discovery", dict(help="directory that `discover` wrote, or `discovery` in it")),
        ("--out", dict(default=out, metavar="DIR", help=text)),
        QUIET,
    ]


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, like all other errors, without a list of options."""

    def error(self, message: str) -> NoReturn:
        options = f"{self.prog} --help lists the options."
        self.exit(2, f"ndde-jax: error: {message.rstrip('.')}. {options}\n")


@functools.cache
def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="ndde-jax", description="Recover which variables drive which, at which delay."
    )
    _add(parser, OF_THE_PROGRAM)
    # These may also follow a command.
    everywhere = _Parser(add_help=False, argument_default=argparse.SUPPRESS)
    for name in ("--debug", "--no-cache"):
        everywhere.add_argument(name, action="store_true", help=argparse.SUPPRESS)
    # fmt: off
    commands: list[tuple[str, Callable, list[Option], str]] = [
        ("discover", _discover, OF_DISCOVER,
         "graph, table, pictures and model from a file of measurements"),
        ("examples", _list_examples, [("--quiet", dict(FLAG, help="names only"))],
         "list the real data that comes with ndde_jax"),
        ("effects", _effects, _saved(None) + OF_EFFECTS,
         "sign, slope and interval of every edge of a saved discovery"),
        ("forecast", _forecast, _saved("forecast") + OF_A_FUTURE,
         "paths and intervals from the end of the record of a saved discovery"),
        ("intervene", _intervene, _saved("intervention") + OF_A_FUTURE + OF_AN_INTERVENTION,
         "what if a variable were held or shifted, or an edge cut"),
    ]
    # fmt: on
    added = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, run, options, text in commands:
        said = run.__doc__ or f"{text.capitalize()}."
        command = added.add_parser(name, help=text, description=said, parents=[everywhere])
        command.set_defaults(run=run)
        _add(command, options)
    return parser


def _add(parser: argparse.ArgumentParser, options: list[Option]) -> None:
    for names, settings in options:
        parser.add_argument(*names.split(), **settings)


# ---- commands ----


def _discover(arguments: argparse.Namespace) -> None:
    """Recover delayed drivers from a file of measurements (CSV, NPZ, Excel, Parquet, Feather,
    JSON lines, NetCDF, Zarr) and write report.txt, report.html, edges.csv, pictures and the model
    to a directory.
    """
    if (arguments.data is None) == (arguments.example is None):
        raise ValueError("Give either a data file or --example NAME.")
    of_files = {*OF_TABLES, "key", "header", "dates"} - {"columns"}
    given = sorted(name for name in of_files if getattr(arguments, name))
    if arguments.example and given:
        option = f"--{given[0].replace('_', '-')}"
        raise ValueError(f"{option} is for data files. Omit it with --example.")
    samples, lags = _read_example(arguments) if arguments.example else (_read_file(arguments), None)
    samples = _with_totals(samples, arguments.totals)
    directory = _directory(arguments)
    transform = _transforms(arguments, samples.names) or None
    lags = _rate_lags(arguments, samples, transform, lags)
    clocks = [n for n in arguments.exogenous if is_clock(n) and n not in samples.names]
    with _naming_options(forbidden="--forbid", required="--require", exogenous="--inputs"):
        prior = ndde_jax.prior_knowledge(
            samples.names,
            lags=(0,) if lags is None else lags,
            forbidden=[_rate_edge(arguments, edge) for edge in arguments.forbid],
            required=[_rate_edge(arguments, edge) for edge in arguments.require],
            exogenous=[name for name in arguments.exogenous if name not in clocks],
            self_edges=not arguments.no_self_edges,
        )
    discovery_key = jax.random.key(arguments.seed)
    check_key = jax.random.fold_in(discovery_key, 1)
    with _about(arguments.data):
        found = ndde_jax.discover(
            samples,
            lags=lags,
            scheme=arguments.scheme,
            prior=prior,
            inputs=arguments.exogenous or None,
            transform=transform,
            treat=not arguments.no_treat,
            coefficient=arguments.coefficient,
            recipe=_recipe(arguments),
            key=discovery_key,
            progress=not arguments.quiet,
            directory=directory / UNFINISHED,
        )
    if lags is None and found.lags != (0,):
        largest = amount(float(found.lags[-1]), "sample", 6)
        _note(arguments, f"Candidate lags were chosen, up to {largest}.")
    directory.mkdir(parents=True, exist_ok=True)
    report = found.report_data()
    effects, full, repeat = arguments.effects, arguments.full, (arguments.command,)
    pictures = Pictures({}) if arguments.no_plot else pictures_of(found, effects=effects)
    # Before the long check, which may be interrupted.
    written = write_results(found, report, directory, pictures, full=full, repeat=repeat)
    if arguments.check:
        arguments.written = written
        checked = found.identifiability(key=check_key, progress=not arguments.quiet)
        report, full = found.report_data(checked), True
        write_results(None, report, directory, pictures, full=full, repeat=repeat)
    forget_stages(directory / UNFINISHED)
    if not arguments.quiet:
        print(f"{report.text(full=full).rstrip()}\n")
        for name in written:
            print(f"wrote {directory / name}")
        print(f"\nTo read: {directory / 'report.html'}. For direction and strength of the links:")
        print(f"  ndde-jax effects {directory / 'discovery'} --out {directory / 'effects'}")


def _recipe(arguments: argparse.Namespace) -> ndde_jax.Recipe:
    recipe = ndde_jax.Recipe
    made = {"default": recipe, "fast": recipe.fast, "paper": recipe.paper}[arguments.recipe]()
    return dataclasses.replace(made, offsets=arguments.offsets, impute=arguments.impute)


def _list_examples(arguments: argparse.Namespace) -> None:
    for name in example_names():
        print(name)
        if not arguments.quiet:
            example = load_example(name)
            print(f"  {example.description}\n  {example.source}\n  {example.licence}")


def _effects(arguments: argparse.Namespace) -> None:
    found = ndde_jax.Discovery.load(arguments.discovery)
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
    """Return the curves of all edges in one DataFrame."""
    import pandas as pd

    rows = []
    for source, target, lag, *_ in effects.rows():
        with contextlib.suppress(ValueError):  # too few distinct values: effects.csv has the slope
            points = zip(*effects.curve(source, target, lag), strict=True)
            rows += [(source, target, lag, *point) for point in points]
    return pd.DataFrame(rows, columns=("source", "target", "lag", "x", "y", "low", "high"))


def _forecast(arguments: argparse.Namespace) -> None:
    found = ndde_jax.Discovery.load(arguments.discovery)
    made = found.forecast(
        arguments.horizon,
        inputs=arguments.inputs,
        paths=arguments.paths,
        key=jax.random.key(arguments.seed),
    )
    _finish_future(arguments, made, "forecast")


def _intervene(arguments: argparse.Namespace) -> None:
    if not (arguments.set or arguments.shift or arguments.cut):
        raise ValueError("Give something to change: --set, --shift or --cut.")
    found = ndde_jax.Discovery.load(arguments.discovery)
    made = found.intervene(
        _by_variable("--set", arguments.set),
        shift=_by_variable("--shift", arguments.shift),
        cut=arguments.cut or None,
        horizon=arguments.horizon,
        start=arguments.start,
        stop=arguments.stop,
        inputs=arguments.inputs,
        paths=arguments.paths,
        key=jax.random.key(arguments.seed),
    )
    _finish_future(arguments, made, "intervention")


def _by_variable(option: str, given: list[tuple[str, float]]) -> dict[str, float] | None:
    """Return the number given for each variable; raise an error if a variable has two."""
    names = [name for name, _ in given]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"{option} gives {twice[0]} two values; give one of them.")
    return dict(given) or None


def _finish_future(arguments: argparse.Namespace, made: Any, name: str) -> None:
    """Write a forecast or an intervention, and print where each variable ends."""
    contents = {f"{name}.csv": csv_table(made.to_frame())}
    if not arguments.no_plot:
        contents |= pictures_or_none(lambda: {f"{name}.png": made.plot()})
    _finish(arguments, contents, "\n".join([repr(made), *made.notes]))


# ---- files ----


def _finish(arguments: argparse.Namespace, contents: dict[str, bytes], text: str) -> None:
    """Write all files or none, and print what was written."""
    if contents:
        directory = _directory(arguments)
        directory.mkdir(parents=True, exist_ok=True)
        with together({directory / name: content for name, content in contents.items()}):
            pass
    if arguments.quiet:
        return
    print(text)
    for name in contents:
        print(f"wrote {Path(arguments.out) / name}")


def _directory(arguments: argparse.Namespace) -> Path:
    """Return the directory for results, which may not exist yet."""
    directory = Path(arguments.out)
    if directory.exists() and not directory.is_dir():
        raise ValueError(f"--out must be a directory; {directory} is a file.")
    there = next(place for place in (directory, *directory.parents) if place.exists())
    try:
        with tempfile.TemporaryDirectory(dir=there):
            pass
    except OSError as error:
        raise ValueError(
            f"--out must be a directory that can be written; {there} cannot: {error.strerror}. "
            "Choose another."
        ) from None
    return directory


def _read_file(arguments: argparse.Namespace) -> Samples:
    """Return the samples in a file, read as the options say."""
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
        _note(arguments, notice)
    table = tables[0]
    if arguments.trial and arguments.dt is None and table.stamps is not None:
        _check_recordings(arguments.trial, table)
    if any(other.names != table.names for other in tables):
        raise ValueError("The arrays of --key must have the same columns; they differ.")
    parts = [part for each in tables for part in from_table(each, time=arguments.dt is None)]
    read = joined(parts)
    dt = arguments.dt
    if dt is None and read.dt is None and read.t is None:
        dt = 1.0
        counted = "Times are counted in samples, unless you give --dt or --time-column."
        _note(arguments, f"No time column was found. {counted}")
    if read.mask and not any(mask.any() for mask in read.mask):
        raise ValueError("--only and --months together leave no row.")
    unit = arguments.time_unit or read.time_unit
    with _about(arguments.data):
        return read_samples(read, dt=dt, time_unit=unit, mask=list(read.mask) or None)


def _check_recordings(trial: str, table: Table) -> None:
    """Raise an error for recordings of one row, which have no sampling interval."""
    lengths = [len(rows) for rows in table.recordings]
    if 1 in lengths:
        made = f"--trial {trial} makes {len(lengths)} recordings, {lengths.count(1)} of 1 row"
        remedy = "Name a column that distinguishes longer recordings, or give --dt"
        raise ValueError(f"{made}, which has no sampling interval. {remedy}.")


@contextlib.contextmanager
def _about(file: str | None) -> Iterator[None]:
    """Begin the message of a `ValueError` with the name of the file, if there is one."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{file}: {error}" if file else str(error)) from error


@contextlib.contextmanager
def _naming_options(**options: str) -> Iterator[None]:
    """Begin the message of a `ValueError` about an argument with the option that gave it."""
    try:
        yield
    except ValueError as error:
        name, _, rest = str(error).partition(":")
        raise ValueError(f"{options[name]}:{rest}" if name in options else str(error)) from error


def _read_example(arguments: argparse.Namespace) -> tuple[Samples, tuple[int, ...]]:
    """Return the record of an example, and its lags."""
    example = load_example(arguments.example)
    chosen = arguments.columns or example.names
    check_there("The example", chosen, example.names)
    values = example.values[:, [example.names.index(name) for name in chosen]]
    example = dataclasses.replace(example, values=values, names=tuple(chosen))
    unit = arguments.time_unit or example.time_unit
    return read_samples(example, dt=arguments.dt, time_unit=unit), example.lags


def _with_totals(samples: Samples, totals: list[str]) -> Samples:
    """Return samples in which totals over an interval stand where it begins."""
    if unknown := [name for name in totals if name not in samples.names]:
        raise ValueError(
            f"--totals {unknown[0]}: there is no such variable. Give "
            f"{', '.join(samples.names[:20])}."
        )
    if not totals:
        return samples
    late = np.isin(samples.names, totals)
    values = tuple(np.where(late, np.roll(x, -1, axis=0), x)[:-1] for x in samples.values)
    times, mask = (tuple(a[:-1] for a in each) for each in (samples.times, samples.mask))
    return dataclasses.replace(samples, values=values, times=times, mask=mask)


def _transforms(arguments: argparse.Namespace, names: tuple[str, ...]) -> dict[str, str]:
    """Return the variables of --log and --ranks, with the transform of each."""
    found: dict[str, str] = {}
    for kind in ("log", "ranks"):
        asked = getattr(arguments, kind)
        for name in names if "all" in asked and "all" not in names else asked:
            if name not in names:
                raise ValueError(
                    f"--{kind} {name}: there is no such variable. Give {', '.join(names[:20])}"
                    ", or all."
                )
            if found.setdefault(name, kind) != kind:
                raise ValueError(f"--log and --ranks both name {name}; give one of them.")
    return found


def _rate_lags(
    arguments: argparse.Namespace, samples: Samples, transform: Any, default: Any
) -> tuple[int, ...] | None:
    """Return candidate lags of the rate, in samples, as given. If an option names an edge at a lag,
    lags are chosen from the data; otherwise None, and they are chosen later.
    """
    lags, at_a_lag = arguments.lags, any(len(edge) > 2 for edge in arguments.forbid)
    if lags is None and default is not None:
        return default
    if samples.dim > MANY and (lags is None or isinstance(lags, str)):
        with _about(arguments.data):  # otherwise the choice of lags alone would take long
            check_decidable(samples, (0,))
    if lags is None and not (arguments.require or at_a_lag):
        return None
    if lags is None or isinstance(lags, str):
        # The sampling interval is known once missing rows are inserted, as `discover` does.
        steps = () if arguments.no_treat else EVERY if arguments.offsets else STEPS
        with _about(arguments.data):
            samples = prepare_samples(samples, steps, transform=transform)
    if lags is None:
        lags, reason = choose_lags(samples)
        if lags != (0,):
            _note(arguments, reason)
        return lags
    lags = lags_in_samples(lags, samples)
    return _of_rate(lags) if arguments.lags_of == "level" else lags


def _of_rate(lags: tuple[int, ...]) -> tuple[int, ...]:
    """Return lags of the rate from lags of the level, which are one sample more."""
    if min(lags) < 1:
        expected = "lags of levels start at 1, the sample before"
        raise ValueError(f"--lags-of level: {expected}; got {min(lags)}.")
    return tuple(lag - 1 for lag in lags)


def _rate_edge(arguments: argparse.Namespace, edge: tuple) -> tuple:
    """Return an edge of the prior at the lag of the rate."""
    if arguments.lags_of == "level" and len(edge) == 3:
        return (*edge[:2], *_of_rate(edge[2:]))
    return edge


if __name__ == "__main__":
    sys.exit(program())
