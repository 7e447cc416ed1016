"""The command line as `python -m ndde_jax`, for when `ndde-jax` is not on the path."""

import sys

from .cli import program

if __name__ == "__main__":
    sys.exit(program())
