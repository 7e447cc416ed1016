"""`python -m ndde_jax.systems`: a table of all systems."""

import argparse
import os
import sys

from . import _dysts, get, names


def main(arguments: list[str] | None = None) -> None:
    """Print one line per system.

    With `--not-traceable`, print the systems that JAX cannot trace and the reasons.
    """
    parser = argparse.ArgumentParser(prog="python -m ndde_jax.systems", description=__doc__)
    parser.add_argument("--kind", choices=("delay", "dysts"), help="only these")
    parser.add_argument(
        "--not-traceable", action="store_true", help="systems of dysts that JAX cannot trace"
    )
    options = parser.parse_args(arguments)
    if options.not_traceable:
        failures = _dysts.not_traceable()
        print(f"{len(failures)} of {len(_dysts.ode_names())} ODEs of dysts cannot be traced:")
        for name, reason in failures.items():
            print(f"{name:<24}{reason}")
        return
    print(f"{'name':<24}{'dim':>4}{'edges':>7}  {'lags':<24}source")
    for name in names(options.kind):
        system = get(name)
        lags = " ".join(f"{float(lag):g}" for lag in system.lags) or "-"
        source = system.source if len(system.source) <= 64 else system.source[:61] + "..."
        print(f"{name:<24}{system.dim:>4}{int(system.graph.sum()):>7}  {lags:<24}{source}")


if __name__ == "__main__":
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:  # from `| head`, for example; even the final flush would fail
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
