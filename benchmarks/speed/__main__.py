"""`python -m benchmarks.speed`: Markdown tables of ratios. Everything is measured in this run."""

import argparse
import sys

from . import batches, discovery, fits, simulator, systems

PARTS = ("fits", "simulator", "discovery", "systems", "batches")


def main(argv=None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=__doc__)
    parser.add_argument("--only", choices=PARTS, help="one part; batches only so")
    parser.add_argument("--quick", action="store_true", help="fewer steps, repeats and sizes")
    parser.add_argument(
        "--torch-python", default=sys.executable, help="interpreter that has PyTorch"
    )
    parser.add_argument(
        "--peer-python", default=sys.executable, help="interpreter that has Numba and JiTCDDE"
    )
    arguments = parser.parse_args(argv)
    quick, wanted = arguments.quick, arguments.only
    parts = {
        "fits": lambda: fits.report(quick=quick, torch_python=arguments.torch_python),
        "simulator": lambda: simulator.report(quick=quick, peer_python=arguments.peer_python),
        "discovery": lambda: discovery.report(quick=quick),
        "systems": lambda: systems.report(quick=quick),
        "batches": lambda: batches.report(quick=quick),
    }
    if wanted != "batches":
        parts.pop("batches")
    chosen = [part for name, part in parts.items() if wanted in (None, name)]
    for number, part in enumerate(chosen):
        print("\n" if number else "", part(), sep="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
