"""The commands that use a saved discovery."""

import csv
import functools

import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax import cli

from .small import LAGS, NAMES, TRUTH, discovery, linear_path


@pytest.fixture(scope="module")
def saved(found, tmp_path_factory):
    directory = tmp_path_factory.mktemp("result")
    found.save(directory / "discovery")
    return directory


LOADED = functools.cache(ndde.Discovery.load)


@pytest.fixture(autouse=True)
def loaded_once(monkeypatch):
    """A command saves its ensemble of a discovery for the others."""
    monkeypatch.setattr(ndde.Discovery, "load", LOADED)


def read(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_effects_are_printed_and_written(found, saved, tmp_path, capsys):
    assert cli.main(["effects", str(saved)]) == 0
    assert "sun at lag 2 -> heat" in capsys.readouterr().out
    assert cli.main(["effects", str(saved / "discovery"), "--out", str(tmp_path), "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    rows = read(tmp_path / "effects.csv")
    slopes = [row[5] for row in found.effects().rows()]
    assert [float(row["slope"]) for row in rows] == pytest.approx(slopes, rel=1e-11)
    curves = read(tmp_path / "curves.csv")
    assert len(curves) == 21 * TRUTH.sum()
    assert (tmp_path / "effects.png").exists()


@pytest.mark.slow
def test_formulas_are_written_if_asked_for(saved, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(ndde.Discovery, "equations", lambda self, *, key: ("dsun/dt = -sun",))
    assert (
        cli.main(["effects", str(saved), "--equations", "--out", str(tmp_path), "--no-plot"]) == 0
    )
    assert "dsun/dt = -sun\n" in capsys.readouterr().out
    assert (tmp_path / "equations.txt").read_text() == "dsun/dt = -sun\n"


@pytest.mark.slow
def test_a_forecast_is_written_and_summed_up(found, saved, tmp_path, capsys):
    out = tmp_path / "forecast"
    arguments = ["forecast", str(saved), "--horizon", "3h", "--paths", "200", "--out", str(out)]
    assert cli.main(arguments) == 0
    said = capsys.readouterr().out
    assert "200 paths" in said and "ice" in said and "forecast.csv" in said
    rows = read(out / "forecast.csv")
    assert len(rows) == 12 * 3
    import jax

    made = found.forecast(12, paths=200, key=jax.random.key(0))
    medians = np.reshape([float(row["median"]) for row in rows], (12, 3))
    np.testing.assert_allclose(medians, made.median)
    low = np.reshape([float(row["low_90"]) for row in rows], (12, 3))
    np.testing.assert_allclose(low, made.quantile(0.05))
    assert (out / "forecast.png").exists()


def test_an_intervention_is_written(saved, tmp_path, capsys):
    arguments = ["intervene", str(saved), "--set", "sun=0.5", "--horizon", "12", "--start", "2"]
    arguments += ["--stop", "2h", "--out", str(tmp_path), "--no-plot"]
    assert cli.main(arguments) == 0
    assert "  ice  " in capsys.readouterr().out
    rows = read(tmp_path / "intervention.csv")
    sun = [float(row["changed"]) for row in rows if row["variable"] == "sun"]
    np.testing.assert_array_equal(np.flatnonzero(np.array(sun) == 0.5) + 1, np.arange(2, 8))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["intervention.csv"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["effects", "nowhere"], "does not hold a saved discovery"),
        (
            ["forecast", "{}", "--horizon", "6 parsec"],
            "'parsec' is not a unit of time; expected one",
        ),
        (["intervene", "{}"], "--set, --shift or --cut"),
        (["intervene", "{}", "--set", "moon=1"], "one of sun, heat, ice"),
        (["intervene", "{}", "--cut", "ice>sun"], "ice -> sun is not an edge"),
        (["intervene", "{}", "--set", "sun=1", "--set", "sun=2"], "--set gives sun two values"),
        (["intervene", "{}", "--shift", "sun=1", "--shift", "sun=1"], "--shift gives sun two"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(saved, arguments, message, capsys, tmp_path):
    arguments = [a.format(saved) for a in arguments]
    if arguments[0] != "effects":
        arguments += ["--out", str(tmp_path / "out")]
    assert cli.main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("words", [["--set", "sun"], ["--paths", "0"], ["--cut", "sun"]])
def test_words_that_are_none_are_refused_at_once(saved, words, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["intervene", str(saved), *words])
    assert stop.value.code == 2
    assert "expected" in capsys.readouterr().err.lower()


@pytest.mark.slow
def test_the_report_shows_effects_and_a_forecast(found, tmp_path):
    import base64

    from ndde_jax._output import pictures_of, write_results

    written = write_results(found, found.report_data(), tmp_path, pictures_of(found, effects=True))
    page = (tmp_path / "report.html").read_text("utf-8")
    for name in ("effects.png", "forecast.png"):
        assert name in written
        assert base64.b64encode((tmp_path / name).read_bytes()).decode() in page
    assert "Not drawn" not in page
    explained = 1 - float(found.strengths.risk[1])
    assert f'<td class="number">{explained:.0%}</td>' in page


@pytest.mark.slow
@pytest.mark.parametrize("command", [["forecast"], ["intervene", "--cut", "sun>heat"]])
def test_the_future_of_an_input_is_read_from_a_file(command, tmp_path, capsys):
    prior = ndde.prior_knowledge(NAMES, lags=LAGS, exogenous=("sun",))
    made = discovery(linear_path(600), TRUTH & np.asarray(prior.allowed), prior=prior)
    made.save(tmp_path / "result")
    future = tmp_path / "sun.csv"
    future.write_text("sun\n" + "\n".join(str(k / 10) for k in range(12)) + "\n")
    name, *options = command
    options += ["--horizon", "12", "--inputs", str(future), "--out", str(tmp_path), "--no-plot"]
    assert cli.main([name, str(tmp_path / "result"), *options]) == 0
    (file,) = (path for path in tmp_path.glob("*.csv") if path != future)
    rows = [row for row in read(file) if row["variable"] == "sun"]
    if name == "forecast":
        expected = pytest.approx([k / 10 for k in range(12)])
        assert [float(row["median"]) for row in rows] == expected
    else:  # the same input with and without the change
        assert [float(row["effect"]) for row in rows] == pytest.approx([0.0] * 12)
