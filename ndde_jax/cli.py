"""The command `ndde-jax`: from a file of measurements to a graph, a table, pictures and a model.

JAX, matplotlib, pandas and xarray are imported by the commands that need them, so that `--help`
and error messages come at once.
"""

import argparse
import dataclasses
import functools
import math
import re
import shlex
import sys
import time
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ._commands import (
    SEED,
    add_commands,
    add_general,
    argument,
    rate_edge,
    rate_lags,
    read_example,
    read_file,
    read_transforms,
    whole,
)
from ._output import forget_stages, write_checked, write_results
from ._program import INTERRUPTED, add_up_right, keep_compiled, one_blas_thread, run_program
from ._spoken import parse_edge, parse_lags, parse_months, parse_only
from ._version import version

# Finished stages of a discovery, in the directory of its results.
UNFINISHED = "unfinished"


def main(argv: Sequence[str] | None = None) -> int:
    """Run `ndde-jax` with the arguments `argv` (default: those of the process).

    Returns the exit code: 0; 2 after a user's error, which is reported in one line on the standard
    error stream; 1 after an error that only the library can have made, in one line as well; or 130
    after Ctrl-C. `--debug` shows where an error came from. Argument errors and `--help` leave by
    SystemExit, as argparse does.

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
    sentence on what is kept, and compiled programs are kept for the next run.
    """
    arguments = _parse(None)
    add_up_right()
    one_blas_thread()
    if not arguments.no_cache:
        keep_compiled()
    return run_program(lambda: _run(arguments), lambda: _farewell(arguments))


def _run(arguments: argparse.Namespace) -> int:
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            arguments.run(arguments)
        except Exception as error:
            if arguments.debug:
                traceback.print_exc()
            message, code = _explained(error)
            print(f"ndde-jax: error: {message}", file=sys.stderr)
            return code
        except KeyboardInterrupt:
            print(_farewell(arguments), file=sys.stderr)
            return INTERRUPTED
    return 0


def _one_line(error: Any) -> str:
    if isinstance(error, OSError) and error.strerror and not error.filename:
        error = error.strerror  # without "[Errno 28]"
    return " ".join(str(error).split())


def _show_warning(message, *_, **__) -> None:
    """Print a warning without its place in the source, which tells users of the command nothing."""
    print(f"ndde-jax: warning: {_one_line(message)}", file=sys.stderr)


def _farewell(arguments: argparse.Namespace) -> str:
    """Return a sentence on the files that an interrupted command leaves behind."""
    out = getattr(arguments, "out", ".")
    stages = (Path(out) / UNFINISHED).glob("*.npz")
    # Those of another command are older: what this one goes on from is touched.
    finished = sum(file.stat().st_mtime >= arguments.started for file in stages)
    if getattr(arguments, "written", None):
        kept = f"{', '.join(arguments.written)} are complete in {out}, only the check is missing"
    elif finished:
        stages = "stage is" if finished == 1 else "stages are"
        kept = f"{finished} finished {stages} kept in {Path(out) / UNFINISHED}"
    else:
        return "\nndde-jax: interrupted before anything was finished; there is nothing to keep."
    return f"\nndde-jax: interrupted; {kept}, and the same command goes on from there."


def _explained(error: Exception) -> tuple[str, int]:
    """Return an error in one line, and the exit code that says whose fault it is."""
    text = _one_line(error)
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in text:
        what = f"not enough memory{text and ': ' + text}"
        return f"{what}. Use fewer variables (--columns) or lags (--lags).", 2
    if isinstance(error, ValueError | OSError | ImportError):
        return text, 2
    kind = f"{type(error).__name__}: {text}".rstrip(": ")
    return f"{kind}. This is a fault of ndde-jax, not of your data; --debug shows where.", 1


def _note(arguments: argparse.Namespace, text: str) -> None:
    """Print a note that the user should know although nothing is wrong."""
    if not arguments.quiet:
        print(f"ndde-jax: note: {text}", file=sys.stderr)


def _discover(arguments: argparse.Namespace) -> None:
    if (arguments.data is None) == (arguments.example is None):
        raise ValueError("Give either a data file or --example NAME.")
    if arguments.example and (arguments.only or arguments.months):
        raise ValueError("--only and --months choose rows of a data file; an example has none.")
    samples, lags = (
        read_example(arguments) if arguments.example else (read_file(arguments, _note), None)
    )
    directory = Path(arguments.out)
    if directory.exists() and not directory.is_dir():
        raise ValueError(f"--out must be a directory; {directory} is a file.")

    import jax

    import ndde_jax

    transform = read_transforms(arguments, samples.names) or None
    lags = rate_lags(arguments, samples, transform, lags, _note)
    prior = ndde_jax.prior_knowledge(
        samples.names,
        lags=lags,
        forbidden=[rate_edge(arguments, edge) for edge in arguments.forbid],
        required=[rate_edge(arguments, edge) for edge in arguments.require],
        exogenous=arguments.exogenous,
        self_edges=not arguments.no_self_edges,
    )
    discovery_key = jax.random.key(arguments.seed)
    check_key = jax.random.fold_in(discovery_key, 1)
    try:
        found = ndde_jax.discover(
            samples,
            lags=lags,
            scheme=arguments.scheme,
            prior=prior,
            transform=transform,
            treat=not arguments.no_treat,
            coefficient=arguments.coefficient,
            recipe=_recipe(ndde_jax, arguments),
            key=discovery_key,
            progress=not arguments.quiet,
            directory=directory / UNFINISHED,
        )
    except ValueError as error:
        if arguments.data is None:
            raise
        raise ValueError(f"{arguments.data}: {error}") from error
    directory.mkdir(parents=True, exist_ok=True)
    report = found.report_data()
    # Before the long check, which may be interrupted.
    repeat = (arguments.command,)
    full = arguments.full
    shown = {"plot": not arguments.no_plot, "effects": arguments.effects, "full": full}
    written = write_results(found, report, directory, repeat=repeat, **shown)
    if arguments.check:
        arguments.written = written
        checked = found.identifiability(key=check_key, progress=not arguments.quiet)
        report, full = found.report_data(checked), True
        again = {"written": written, "repeat": repeat, "effects": arguments.effects, "full": full}
        write_checked(found, report, directory, **again)
    forget_stages(directory / UNFINISHED)
    if not arguments.quiet:
        print(report.text(full=full).rstrip())
        print()
        for name in written:
            print(f"wrote {directory / name}")
        print(f"\nTo read: {directory / 'report.html'}. In which direction, and how strongly:")
        print(f"  ndde-jax effects {directory / 'discovery'} --out {directory / 'effects'}")


def _recipe(ndde_jax: Any, arguments: argparse.Namespace) -> Any:
    recipe = ndde_jax.Recipe
    made = {"default": recipe, "fast": recipe.fast, "paper": recipe.paper}[arguments.recipe]()
    return dataclasses.replace(made, offsets=arguments.offsets, impute=arguments.impute)


def _list_examples(arguments: argparse.Namespace) -> None:
    from .samples._examples import example_names, load_example

    for name in example_names():
        print(name)
        if not arguments.quiet:
            example = load_example(name)
            print(f"  {example.description}\n  {example.source}\n  {example.licence}")


def _lags(text: str) -> tuple[int, ...] | str:
    # Times with a unit can be read once the sampling interval is known.
    return text if re.search(r"\d\s*[A-Za-z]", text) else parse_lags(text)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _positive(text: str) -> float:
    number = float(text)
    if not (math.isfinite(number) and number > 0):
        raise ValueError
    return number


@functools.cache
def _parser() -> argparse.ArgumentParser:
    edge, positive = argument(parse_edge), argument(_positive, "a positive number")

    parser = argparse.ArgumentParser(
        prog="ndde-jax", description="Recover which variables drive which, at which delay."
    )
    parser.add_argument("--debug", action="store_true", help="show where an error came from")
    parser.add_argument(
        "--no-cache", action="store_true", help="keep and reuse no compiled programs"
    )
    parser.add_argument("--version", action="version", version=f"ndde-jax {version()}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    command = commands.add_parser(
        "discover",
        help="graph, table, pictures and model from a file of measurements",
        description="Recover the delayed drivers in a file of measurements (CSV, NPZ, Excel, "
        "Parquet, Feather, JSON lines, NetCDF, Zarr) and write report.txt, report.html, edges.csv, "
        "pictures and the model to a directory.",
    )
    add = command.add_argument
    add("data", nargs="?", help="file, one row per sample; or use --example")
    add("--example", metavar="NAME", help="shipped real data; `ndde-jax examples` lists it")
    add("--dt", type=positive, help="sampling interval (default: from the time column)")
    add(
        "--lags",
        type=argument(_lags),
        help="candidate lags in samples: 0:12 (end included), 0:12:3 or 0,3,6; or times: 0:24h:2h "
        "(default: chosen from the data, or the example's)",
    )
    add(
        "--lags-of",
        choices=("rate", "level"),
        default="rate",
        help="what lags are given of: the change to the next sample, or that next sample itself, "
        "one more (%(default)s); results list both",
    )
    add("--out", default="result", metavar="DIR", help="directory for the results (%(default)s)")
    add("--columns", type=_names, metavar="A,B", help="variables to use (default: all)")
    add("--time-column", metavar="NAME", help="column of time stamps (default: recognised)")
    add(
        "--key",
        action="append",
        metavar="NAME",
        help="array of an NPZ file, variable of a NetCDF file, sheet of a workbook. May be "
        "repeated: several recordings",
    )
    add("--trial", metavar="NAME", help="column that tells several recordings apart")
    add("--offsets", action="store_true", help="every recording has a mean of its own")
    many = dict(type=_names, action="append", default=[], metavar="COLUMN")
    text = "read a variable as its logarithm; all: every one. May be repeated"
    add("--log", help=text, **many)
    text = "read a variable as normal scores of its ranks; all: every one. May be repeated"
    add("--ranks", help=text, **many)
    add(
        "--impute",
        type=whole(0, 100),
        default=0,
        metavar="N",
        help="estimate missing values by the model and search again, N times (%(default)s)",
    )
    add(
        "--only",
        type=argument(parse_only),
        action="append",
        default=[],
        metavar="COLUMN=VALUE,...",
        help="explain rates only where a column has one of these values; the past is read from "
        "everywhere. May be repeated",
    )
    text = "explain rates only in these months of a time column with dates: 12,1,2"
    add("--months", type=argument(parse_months), default=(), metavar="M,...", help=text)
    add("--separator", metavar="C", help="character between cells of a text file (default: found)")
    add("--decimal", choices=(".", ","), help="decimal mark of a text file (default: found)")
    text = "whether the first row of a text file or sheet holds names (default: found)"
    add("--header", choices=("yes", "no"), help=text)
    text = "text that means a missing value; one that ends in * stands for all that begin so"
    add("--missing", action="append", default=[], metavar="TEXT", help=text + ". May be repeated")
    text = "what 03/04/2001 means (default: by the column)"
    add("--dates", choices=("day-first", "month-first"), help=text)
    text = "zone of a clock that daylight saving shifts, such as Europe/Berlin (default: found)"
    add("--time-zone", metavar="ZONE", help=text)
    text = "dimensions of a NetCDF or Zarr file whose cells are variables"
    add("--variables", type=_names, default=(), metavar="A,B", help=text)
    add(
        "--scheme",
        choices=("euler", "central", "central4", "midpoint"),
        help="difference scheme for the rate of change (default: chosen from the data)",
    )
    add(
        "--recipe",
        choices=("default", "fast", "paper"),
        default="default",
        help="closed forms and networks where those explain more; closed forms only; or the "
        "paper's gates (%(default)s)",
    )
    add("--time-unit", metavar="UNIT", help="unit of --dt, for labels")
    add("--coefficient", type=positive, metavar="X", help="penalty of an edge (default: automatic)")
    add(
        "--forbid",
        type=edge,
        action="append",
        default=[],
        metavar="A>B",
        help="A does not drive B, at any lag; A>B@3: not at lag 3. May be repeated",
    )
    add(
        "--require",
        type=edge,
        action="append",
        default=[],
        metavar="A>B@LAG",
        help="A drives B at this lag. May be repeated",
    )
    add(
        "--exogenous",
        "--inputs",
        type=_names,
        default=[],
        metavar="A,B",
        help="known inputs: variables that drive but are not driven",
    )
    add("--no-self-edges", action="store_true", help="no variable drives itself")
    add(
        "--check",
        action="store_true",
        help="refit on halves of the data, with edges replaced and other differences, to report "
        "whether the data support the graph (minutes)",
    )
    add("--seed", type=SEED, default=0, help="seed of the random numbers (%(default)s)")
    add("--full", action="store_true", help="the full report, for a methods section")
    add(
        "--no-treat",
        action="store_true",
        help="leave seasons, trends, spikes, irregular times and short gaps as they are",
    )
    add("--effects", action="store_true", help="effect curves and a forecast in report.html, too")
    add("--no-plot", action="store_true", help="write no pictures")
    add("--quiet", action="store_true", help="print nothing but errors")
    add_general(command)
    command.set_defaults(run=_discover)

    command = commands.add_parser("examples", help="list the real data that ships with ndde_jax")
    command.add_argument("--quiet", action="store_true", help="names only")
    add_general(command)
    command.set_defaults(run=_list_examples)
    add_commands(commands)
    return parser


if __name__ == "__main__":
    sys.exit(program())
