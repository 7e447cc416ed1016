"""Columns read as logarithms or by their ranks, gaps filled by the model: from file to use."""

import csv
import functools

import numpy as np
import pytest

import ndde_jax as ndde

from .small import run, write


@pytest.fixture
def river(tmp_path):
    """Dates, units in the header, a long gap and scattered ones."""
    rng, x = np.random.default_rng(3), np.zeros((400, 2))
    for k in range(2, 399):
        rate = np.array([-x[k, 0], 1.2 * x[k - 2, 0] - x[k, 1]])
        x[k + 1] = x[k] + 0.3 * rate + np.array([0.4, 0.2]) * rng.normal(size=2)
    x = np.column_stack([10 + 3 * x[:, 0], 50 * np.exp(x[:, 1])])
    cells = [[f"{a:.3f}", f"{b:.3f}"] for a, b in x.tolist()]
    for k in range(200, 220):
        cells[k][1] = ""
    for k in (50, 90, 130):
        cells[k][0] = ""
    days = np.datetime64("2001-01-01") + np.arange(400).astype("timedelta64[D]")
    rows = [f"{day},{a},{b}" for day, (a, b) in zip(days, cells, strict=True)]
    head = "date,rain [mm/day],flow [m3/s]"
    return write(tmp_path / "river.csv", "\n".join([head, *rows, ""]))


def read(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def options_of(calls, river, tmp_path, *words):
    words = ("--lags", "0:1", "--no-plot", "--quiet", "--out", tmp_path / f"o{len(calls)}", *words)
    assert run("discover", river, *words) == 0
    return calls[-1][1]


@pytest.mark.slow
def test_columns_are_named_one_by_one_or_all(calls, river, tmp_path):
    rain, flow = "rain [mm/day]", "flow [m3/s]"
    found = lambda *words: options_of(calls, river, tmp_path, *words)  # noqa: E731
    assert found("--log", flow)["transform"] == {flow: "log"}
    assert found("--log", "all")["transform"] == {rain: "log", flow: "log"}
    both = found("--log", flow, "--ranks", rain)["transform"]
    assert both == {rain: "ranks", flow: "log"}
    assert found("--log", rain, "--log", flow)["transform"] == {rain: "log", flow: "log"}
    plain = found()
    assert plain["transform"] is None and plain["recipe"].impute == 0
    assert found("--impute", "2")["recipe"].impute == 2


def test_lags_are_chosen_for_what_is_read(calls, river, tmp_path):
    out = tmp_path / "chosen"
    words = ("--log", "flow [m3/s]", "--no-plot", "--quiet", "--out", out)
    assert run("discover", river, *words) == 0
    assert calls[-1][1]["lags"] is None and calls[-1][1]["transform"] == {"flow [m3/s]": "log"}
    words = (*words[:-1], tmp_path / "with_a_lag")
    assert run("discover", river, *words, "--forbid", "rain [mm/day]>flow [m3/s]@0") == 0
    assert len(calls[-1][1]["lags"]) > 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--log", "flow"], "--log flow: there is no such variable. Give rain"),
        (["--totals", "flow"], "--totals flow: there is no such variable. Give rain"),
        (["--log", "all", "--ranks", "flow [m3/s]"], "--log and --ranks both name flow"),
    ],
)
def test_what_is_no_column_is_said_in_a_line(river, tmp_path, capsys, words, message):
    assert run("discover", river, "--lags", "0", "--out", tmp_path / "out", *words) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


@pytest.mark.slow
def test_a_river_from_end_to_end(river, tmp_path, capsys, monkeypatch):
    # A command saves its ensemble of a discovery for the next one.
    monkeypatch.setattr(ndde.Discovery, "load", functools.cache(ndde.Discovery.load))
    out, flow = tmp_path / "out", "flow [m3/s]"
    words = ("--log", flow, "--impute", "1", "--lags", "0,2", "--recipe", "fast", "--full")
    assert run("discover", river, *words, "--no-plot", "--out", out) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "flow [m3/s] is read as its logarithm" in said
    assert "23 values that were not measured" in said and "contain a missing value" not in said
    assert run("forecast", out, "--horizon", "5day", "--no-plot", "--out", tmp_path / "f") == 0
    rows = [row for row in read(tmp_path / "f" / "forecast.csv") if row["variable"] == flow]
    assert all(0 < float(row["low_90"]) < float(row["high_90"]) < 1000 for row in rows)
    words = ("--set", f"{flow}=100", "--horizon", "5", "--no-plot", "--out", tmp_path / "i")
    assert run("intervene", out, *words) == 0
    rows = [row for row in read(tmp_path / "i" / "intervention.csv") if row["variable"] == flow]
    np.testing.assert_allclose([float(row["changed"]) for row in rows], 100, rtol=1e-5)
    assert run("effects", out, "--no-plot", "--out", tmp_path / "e") == 0
    named = {row["target"] for row in read(tmp_path / "e" / "effects.csv")}
    assert named == {"rain [mm/day]", f"log {flow}"}
    assert {row["target"] for row in read(tmp_path / "e" / "curves.csv")} == named
    assert run("intervene", out, "--set", f"{flow}=-1", "--out", tmp_path / "i") == 2
    assert "-1 has no logarithm" in capsys.readouterr().err
