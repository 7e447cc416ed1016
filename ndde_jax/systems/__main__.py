"""`python -m ndde_jax.systems`: a table of all systems."""

import argparse
import os
import sys

from . import get, names


def main(arguments: list[str] | None = None) -> None:
    """Print one line per system."""
    parser = argparse.ArgumentParser(prog="python -m ndde_jax.systems", description=__doc__)
    parser.add_argument("--kind", choices=("delay", "dysts"), help="only these")
    options = parser.parse_args(arguments)
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
