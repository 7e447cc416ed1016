"""The benchmark of uses: its truths compared with closed forms, its tables with counts by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import _truths, use
from benchmarks._store import Record, Store, Unit
from benchmarks.delays.data import simulate
from benchmarks.delays.settings import Specification

SPEC = Specification("random_2_1_7", "low", 300)


@pytest.fixture(scope="module")
def series():
    return simulate(SPEC, 5)


def test_networks_of_no_table_are_drawn_from_their_name(series):
    system = SPEC.system()
    assert system.graph.shape == (2, 2, 2) and SPEC.lags == (0, 5, 10, 15)
    assert series.x.shape == (300, 2)
    other = Specification("random_2_1_8", "low", 300).system()
    assert not np.allclose(system.drift.parameters["weights"], other.drift.parameters["weights"])
    assert len({spec.name for spec in use.NEW}) == len(use.NEW) >= 17


def test_the_true_drift_reads_the_delays_of_the_equation(series):
    weights = np.asarray(SPEC.system().drift.parameters["weights"])[0]
    past = _truths.histories(series)
    np.testing.assert_array_equal(past[-1], series.x[[298, 293, 288, 283]])
    expected = -past[:, 0] + np.sin(past[:, 1]) @ weights  # the delay is 1, a grid step
    made = jax.vmap(_truths.true_drift(series))(jnp.asarray(past))
    np.testing.assert_allclose(made, expected, atol=1e-6)


class Known:
    """Effects that are those of the truth, moved a little."""

    def __init__(self, series, moved):
        past = _truths.histories(series)
        self.series, self.moved, self.past = series, moved, past
        weights = np.asarray(series.spec.system().drift.parameters["weights"])[0]
        self.graph = series.graph
        slope = np.full(series.graph.shape, np.nan)
        slope[[0, 1], [0, 1], 0] = -1.0
        slope[:, :, 1] = weights * np.cos(past[:, 1]).mean(axis=0)[:, None]
        self.slope = np.where(series.graph, slope, np.nan) + moved
        self.slope_low, self.slope_high = self.slope - 0.05, self.slope + 0.05
        self.found = self
        self.lags = series.lags

    def effects(self):
        return self

    def curve(self, i, j, lag):
        weights = np.asarray(self.series.spec.system().drift.parameters["weights"])[0]
        values = self.past[:, self.lags.index(lag), i]
        x = np.quantile(values, np.linspace(0, 1, 41))
        y = -x if lag == 0 else weights[i, j] * np.sin(x)
        y = y - ((y[1:] + y[:-1]) / 2).mean()
        return x, y + self.moved, y + self.moved - 0.04, y + self.moved + 0.04


def test_true_effects_are_right_and_moved_ones_are_not(series):
    right = _truths.effect_scores(Known(series, 0.0), series)
    n = series.graph.sum()
    assert right["kept"] == n == right["curves"] == right["curve good"]
    assert right["slope covered"] == n and right["sign right"] == right["clear"] > 0
    assert right["curve covered"] > 0.9 * n
    moved = _truths.effect_scores(Known(series, 100.0), series)
    assert moved["slope covered"] == moved["curve good"] == moved["curve covered"] == 0
    assert moved["sign right"] < moved["clear"]


def test_holding_a_variable_in_the_true_system(series):
    made = _truths._held(series, 0, 0.7, 15, jax.random.key(0))
    assert made.shape == (_truths.PATHS, 15, 2)
    # If held, it differs from its undisturbed path; the other variable responds one delay later.
    assert np.abs(made[:, 0, 0]).min() > 0
    linked = series.graph[0, 1].any()
    assert (np.abs(made[:, :5, 1]).max() < 1e-6) and (np.abs(made[:, 6:, 1]).max() > 0) == linked


def test_the_table_counts(tmp_path):
    with Store(tmp_path / "use.sqlite") as store:
        for k, name in enumerate(("a", "b")):
            metrics = {"clear": 4.0, "sign right": 3.0 + k, "often": 2.0, "often true": 2.0}
            for ahead in use.AHEAD:
                metrics[f"coverage {ahead}"] = 0.7 + 0.2 * k
                for method in ("ndde_jax", *use.RIVALS):
                    metrics[f"crps {method} {ahead}"] = 1.0 if method == "ndde_jax" else 2.0
                for rival in use.RIVALS:
                    metrics[f"better {rival} {ahead}"] = 1.0 - 2 * k
                    metrics[f"error {rival} {ahead}"] = 0.4
            unit = Unit(use.BENCHMARK, "delays", name, 0, "discover", 0)
            store.write([Record(unit, metrics, "supported", 1.0, {})])
        text = use.table(store)
    assert "| delays  |     1 |   2 |     .800 |     .50 |" in text
    assert "sign of clear slopes" in text and ".875" in text
    assert text.count("  .500 |") == len(use.AHEAD) * len(use.RIVALS)
    assert "|     1 |   2 |     .800 |     .50 |      - |       - |" in text
    assert "Statuses: supported 2." in text


def test_what_fails_is_a_status(monkeypatch):
    def broken(spec, seed):
        raise OverflowError("too far")

    monkeypatch.setattr(use, "simulate", broken)
    (record,) = use.evaluate(use.Task(SPEC, "new", 3))
    assert record.metrics == {"failed": 1.0} and record.status == "error: OverflowError: too far"
