"""Lags as times with their unit."""

import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax.samples._lag_times import lags_in_samples, written_lags


def samples(dt, unit):
    return ndde.read_samples(np.random.default_rng(0).normal(size=(50, 2)), dt=dt, time_unit=unit)


@pytest.mark.parametrize(
    "lags, dt, unit, expected",
    [
        ("6h", 2.0, "hour", (3,)),
        ("0:24h:2h", 1.0, "hours", tuple(range(0, 25, 2))),
        ("0,6h,1d", 6.0, "h", (0, 1, 4)),
        (["0", "90min"], 0.5, "hour", (0, 3)),
        ("1y", 1.0, "month", (12,)),
        ([0, "2 days"], 1.0, "day", (0, 2)),
        ((0, 3), 1.0, "", (0, 3)),
    ],
)
def test_times_become_samples(lags, dt, unit, expected):
    assert lags_in_samples(lags, samples(dt, unit)) == expected


@pytest.mark.parametrize(
    "lags, unit, said",
    [
        ("6h", "", "pass time_unit"),
        ("6h", "month", "cannot convert"),
        ("5h", "day", "not a whole number"),
        ("soon", "day", "got 'soon'"),
        ("3d:1d", "day", "START:STOP"),
        ("0:4d:", "day", "got '0:4d:'"),
    ],
)
def test_what_cannot_be_read_is_said(lags, unit, said):
    with pytest.raises(ValueError, match=said):
        lags_in_samples(lags, samples(1.0, unit))


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0:12", tuple(range(13))), ("0:12:3", (0, 3, 6, 9, 12)), ("1:5:3", (1, 4)),
     ("6,0,3,3", (0, 3, 6)), ("4", (4,))],
)  # fmt: skip
def test_lags_without_a_unit_are_samples(text, expected):
    assert written_lags(text) == expected


def test_ranges_of_too_many_lags_are_refused_before_they_are_made():
    with pytest.raises(ValueError, match="START:STOP:STEP"):
        written_lags(f"0:{10**15}")
