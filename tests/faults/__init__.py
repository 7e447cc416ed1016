"""Deliberate faults: `python -m tests.faults` prints what was lost and what was not.

Bits flip in saved files, processes are killed and interrupted at random times, the disk is full.
`tests/test_faults.py` asserts that nothing finished is lost and nothing wrong is loaded.
"""

from benchmarks._store import Unit


def unit(series: int) -> Unit:
    """A unit of a synthetic benchmark."""
    return Unit("bench", "simple", "Lorenz", series, "m", 0)
