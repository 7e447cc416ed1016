"""`python -m benchmarks.speed`: Markdown tables of ratios, all measured in this run."""

import argparse
import sys

from . import batches, chunks, discovery, fits, simulator, systems

PARTS = ("fits", "simulator", "discovery", "systems", "batches", "chunks")
# Parts that take long.
ALONE = ("batches", "chunks")


def main(argv=None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=__doc__)
    parser.add_argument("--only", choices=PARTS, help=f"one part; {' and '.join(ALONE)} only so")
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
        "chunks": lambda: chunks.report(quick=quick),
    }
    chosen = [
        part
        for name, part in parts.items()
        if wanted == name or (wanted is None and name not in ALONE)
    ]
    for number, part in enumerate(chosen):
        print("\n" if number else "", part(), sep="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
