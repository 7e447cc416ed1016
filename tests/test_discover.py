"""The front door: containers, errors, report, table, picture, save and load."""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib.figure import Figure

import ndde_jax as ndde
from ndde_jax import _discover
from ndde_jax._labelled import read_labelled

QUICK = dict(
    method=ndde.L0NDDE(path=(0.1,)),
    config=ndde.FitConfig(max_steps=60, epoch_steps=20, newton_steps=10, refine="none"),
    strength_config=ndde.StrengthConfig(
        steps=12, restarts=1, folds=2, fold_steps=5, resamples=20, search=3
    ),
    key=jr.key(0),
)


def data(n=301):
    """y drives itself (a slow forcing) and x; x relaxes."""
    rng = np.random.default_rng(0)
    x = np.zeros((n, 2))
    for k in range(n - 1):
        drift = np.array([-x[k, 0] + 2 * np.tanh(x[k, 1]), -1.5 * x[k, 1]])
        x[k + 1] = x[k] + 0.2 * drift + np.sqrt(0.2) * np.array([0.2, 1.0]) * rng.normal(size=2)
    return x


TRUTH = np.array([[True, False], [True, True]])


@pytest.fixture(scope="module")
def found():
    return ndde.discover(data(), dt=0.2, names=("x", "y"), time_unit="s", **QUICK)


def test_finds_the_graph(found):
    np.testing.assert_array_equal(found.graph[:, :, 0], TRUTH)
    assert found.names == ("x", "y") and found.lags == (0,) and found.dt == 0.2
    assert found.windows.scheme == "euler"
    np.testing.assert_array_equal(found.model.mask[:, 0, :], TRUTH.T)
    # The drift, in physical units.
    np.testing.assert_allclose(found.model(jnp.zeros((1, 2))), [0, 0], atol=0.3)
    slope = found.model(jnp.array([[1.0, 0.0]]))[0] - found.model(jnp.array([[-1.0, 0.0]]))[0]
    np.testing.assert_allclose(slope, -2, atol=0.5)


def labelled(kind):
    values = data()
    months = pd.date_range("1990-01-01", periods=len(values), freq="MS")
    seconds = 0.2 * np.arange(len(values))
    return {
        "numpy": (values, dict(dt=0.2), ("x0", "x1"), ""),
        "jax": (jnp.asarray(values), dict(dt=0.2), ("x0", "x1"), ""),
        "frame": (pd.DataFrame(values, columns=["a", "b"]), dict(dt=0.2), ("a", "b"), ""),
        "months": (pd.DataFrame(values, months, ["a", "b"]), {}, ("a", "b"), "month"),
        "seconds": (pd.DataFrame(values, seconds, ["a", "b"]), {}, ("a", "b"), ""),
        "xarray": (
            xr.DataArray(values, dims=("time", "v"), coords={"time": months, "v": ["a", "b"]}),
            {},
            ("a", "b"),
            "month",
        ),
        "dataset": (
            xr.Dataset({"a": ("time", values[:, 0]), "b": ("time", values[:, 1])}),
            dict(dt=0.2),
            ("a", "b"),
            "",
        ),
    }[kind]


@pytest.mark.parametrize(
    "kind", ["numpy", "jax", "frame", "months", "seconds", "xarray", "dataset"]
)
def test_containers(kind, found):
    x, options, names, unit = labelled(kind)
    other = ndde.discover(x, **options, **QUICK)
    assert other.names == names and other.time_unit == unit
    np.testing.assert_allclose(other.dt, 1.0 if unit else 0.2)
    np.testing.assert_array_equal(other.graph, found.graph)
    np.testing.assert_allclose(other.scores, found.scores, rtol=1e-3, atol=1e-5)


def test_series_and_irregular_index():
    values = data()[:, 1]
    label = read_labelled(pd.Series(values, name="sst"))
    assert label.names == ("sst",) and label.values.shape == (301, 1)
    gaps = np.cumsum(np.random.default_rng(1).uniform(0.1, 0.3, len(values)))
    irregular = ndde.discover(pd.DataFrame(data(), gaps), **QUICK)
    assert irregular.windows.scheme == "euler" and "not equally spaced" in irregular.report()


def test_trajectories_of_one_system(found):
    x = data(302)
    both = ndde.discover([x[:151], x[151:]], dt=0.2, **QUICK)
    assert int(both.windows.n_valid) == int(found.windows.n_valid)


def test_rescaling_and_shifting_change_nothing(found):
    moved = ndde.discover(data() * [1e3, 1e-2] + [5.0, -7.0], dt=0.2, **QUICK)
    np.testing.assert_array_equal(moved.graph, found.graph)
    np.testing.assert_allclose(moved.scores, found.scores, rtol=1e-2, atol=1e-4)


def test_permuting_variables_permutes_the_graph(found):
    swapped = ndde.discover(data()[:, ::-1], dt=0.2, **QUICK)
    np.testing.assert_array_equal(swapped.graph, found.graph[::-1, ::-1])


def broken(change):
    x = data()
    if change == "nan":
        x[:] = np.nan
    elif change == "inf":
        x[3, 0] = np.inf
    elif change == "constant":
        x[:, 1] = 4.0
    elif change == "short":
        x = x[:3]
    elif change == "shape":
        x = np.zeros((2, 3, 4, 5))
    return x


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ("nan", {}, "valid|missing|NaN"),
        ("inf", {}, "inf"),
        ("constant", {}, "constant"),
        ("short", {}, "windows|rows|samples|short"),
        ("shape", {}, "shape|dimension"),
        (None, dict(lags=(0, 400)), "lag"),
        (None, dict(lags=(2, 1)), "ascending"),
        (None, dict(dt=-1.0), "dt"),
        (None, dict(dt=None), "dt"),
        (None, dict(dt=None, t=np.zeros(301)), "increas"),
        (None, dict(names=("a", "a")), "different names"),
        (None, dict(names=("a", "b", "c")), "names"),
        (None, dict(coefficient=-1.0), "coefficient must be positive"),
        (None, dict(scheme="best"), "scheme"),
    ],
)
def test_unusable_input_is_refused_before_anything_compiles(change, options, message, monkeypatch):
    def compiled(*args, **kwargs):
        raise AssertionError("compiled")

    monkeypatch.setattr(_discover, "fit", compiled)
    with pytest.raises(ValueError, match=message):
        ndde.discover(broken(change), **(dict(dt=0.2) | options | QUICK))


def test_text_columns_are_named():
    frame = pd.DataFrame({"a": [1.0, 2.0], "place": ["x", "y"]})
    with pytest.raises(ValueError, match="place"):
        ndde.discover(frame, dt=1.0, **QUICK)


def test_report(found):
    text = found.report()
    assert "2 variables (x, y), sampling interval 0.2 s. 300 windows" in text
    for line in ("x      -> x", "y      -> x", "y      -> y"):
        assert line in text
    assert "x      -> y" not in text
    assert max(map(len, text.splitlines())) <= 88


def test_report_warns(found):
    def text(**leaves):
        windows = dataclasses.replace(found.windows, **leaves)
        return dataclasses.replace(found, windows=windows).report()

    w = found.windows
    assert "Warnings\n--------\nnone." in found.report()
    assert "Short for this many inputs" in text(valid=w.valid.at[30:].set(False))
    assert "lost to missing values" in text(dropped=jnp.asarray(1000))
    twin = w.history.at[:, :, 1].set(w.history[:, :, 0])
    assert "nearly collinear" in text(history=twin)
    strengths = eqx.tree_at(lambda s: s.risk, found.strengths, jnp.array([0.95, 0.2]))
    assert (
        "rate of x is hardly explained" in dataclasses.replace(found, strengths=strengths).report()
    )
    doubtful = dataclasses.replace(found, lower=-np.ones_like(found.lower))
    assert "3 of 3 kept edges" in doubtful.report()


def test_coefficient_rule(found):
    strict = ndde.discover(data(), dt=0.2, coefficient=100.0, **QUICK)
    assert not strict.graph.any()
    assert "λ/F = 100/2" in strict.report() and "none: no candidate" in strict.report()


def test_table(found):
    frame = found.to_frame()
    assert list(frame) == ["source", "target", "lag", "delay", "kept", "score", "lower"]
    assert len(frame) == 4 and frame["kept"].tolist() == [True] * 3 + [False]
    for row in frame.itertuples():
        at = found.names.index(row.source), found.names.index(row.target), 0
        assert row.score == found.scores[at] and row.kept == found.graph[at]


def test_picture(found):
    assert isinstance(found.plot(), Figure)


def test_save_and_load(found, tmp_path):
    found.save(tmp_path / "result")
    again = ndde.Discovery.load(tmp_path / "result")
    assert again.report() == found.report()
    np.testing.assert_array_equal(again.scores, found.scores)
    history = jnp.array([[0.3, -0.2]])
    np.testing.assert_array_equal(again.model(history), found.model(history))
    assert again.fit.outcome == found.fit.outcome
    with pytest.raises(ValueError, match="does not hold a saved discovery"):
        ndde.Discovery.load(tmp_path)


def test_progress(capsys):
    ndde.discover(data(), dt=0.2, progress=True, **QUICK)
    assert "4/4" in capsys.readouterr().err
