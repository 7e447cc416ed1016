"""`python -m benchmarks.speed`: Markdown tables of ratios. Everything is measured in this run."""

import argparse
import sys

from . import fits, simulator


def main(argv=None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=__doc__)
    parser.add_argument("--only", choices=("fits", "simulator"), help="one of the two parts")
    parser.add_argument("--quick", action="store_true", help="fewer steps, repeats and sizes")
    parser.add_argument(
        "--torch-python", default=sys.executable, help="interpreter that has PyTorch"
    )
    parser.add_argument(
        "--peer-python", default=sys.executable, help="interpreter that has Numba and JiTCDDE"
    )
    arguments = parser.parse_args(argv)
    if arguments.only != "simulator":
        print(fits.report(quick=arguments.quick, torch_python=arguments.torch_python))
    if arguments.only is None:
        print()
    if arguments.only != "fits":
        print(simulator.report(quick=arguments.quick, peer_python=arguments.peer_python))
    return 0


if __name__ == "__main__":
    sys.exit(main())
