"""Bad inputs of users: every public function, argument by argument, and what is passed instead.

`SPECS` are the functions, with valid arguments and the kind of each one that is replaced; the
faults of a kind are in `bad_values.py`. A case is (function, argument, fault): one argument
replaced by one fault. `test_bad_inputs.py` runs all of them, `test_checks.py` a few.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import diffrax
import jax.numpy as jnp
import numpy as np

import ndde_jax as ndde
from ndde_jax import gates, metrics, plot

from . import bad_theory
from .bad_values import (
    DIM,
    KINDS,
    LAGS,
    SHAPE,
    X,
    coefficient_path,
    discovery,
    drift,
    graph,
    key,
    lazy,
    model,
    samples,
    strengths,
    system,
    windows,
)


@dataclasses.dataclass(frozen=True)
class Spec:
    """A function, valid arguments, and the kinds of those that are replaced."""

    name: str
    function: Callable
    valid: dict[str, Any]
    kinds: dict[str, str]

    def call(self, argument: str, fault: Any) -> Any:
        """Return the arguments with one replaced; lazy ones are made now."""
        return self.function(**{k: lazy(v) for k, v in self.valid.items()} | {argument: fault})


W = {"windows": windows, "key": key}
REFIT = {"windows": "windows", "key": "key", "config": "strength_config"}
SDE = {"drift": drift, "history": np.ones(DIM), "n_steps": 50, "dt": 0.1}
PICTURE = {"scores": np.ones(SHAPE), "graph": graph, "lags": LAGS, "names": ("a", "b")}
LABELS = {"lags": "lags", "names": "names", "dt": "optional_positive"}


@functools.cache
def backtest() -> ndde.use.Backtest:
    """Return a small one."""
    return discovery().backtest(3, paths=4, origins=3, key=key())


FUTURE = {"horizon": 3, "paths": 4, "key": key}
FORECAST = {"predicted": X, "truth": X}


def _signed(make: Callable, **kinds: str) -> Spec:
    return Spec(make.__name__, make, {}, kinds)


SPECS = [
    Spec("Chunks", ndde.Chunks, {"source": X}, {
        "source": "source", "rows": "count", "in_memory": "count"}),
    Spec("lagged_windows", ndde.lagged_windows, {"x": X, "dt": 0.5}, {
        "x": "x", "dt": "dt", "lags": "data_lags", "scheme": "choice", "names": "names",
        "prior": "prior"}),
    Spec("read_samples", ndde.read_samples, {"x": X, "dt": 0.5}, {
        "x": "values", "names": "names", "mask": "mask"}),
    Spec("prepare_samples", ndde.prepare_samples, {"samples": samples}, {
        "samples": "samples", "steps": "choice", "transform": "transform"}),
    Spec("data_findings", ndde.data_findings, {"samples": samples}, {"samples": "samples"}),
    Spec("windows.choose_lags", ndde.windows.choose_lags,
         {"samples": samples}, {"samples": "samples"}),
    Spec("select.midpoint_windows", ndde.select.midpoint_windows,
         {"x": X, "dt": 0.5, "lags": LAGS}, {
        "x": "x", "dt": "dt", "lags": "data_lags", "names": "names", "model": "other_model"}),
    Spec("discover", ndde.discover, {"x": X, "dt": 0.5, "lags": LAGS, "key": key}, {
        "x": "x", "dt": "dt", "lags": "data_lags", "names": "names", "key": "key",
        "scheme": "choice", "prior": "prior", "recipe": "fit_config",
        "coefficient": "optional_positive", "time_unit": "amount", "treat": "flag",
        "inputs": "inputs", "mask": "mask", "transform": "transform"}),
    Spec("discover_many", ndde.discover_many,
         {"systems": [X], "dt": 0.5, "lags": LAGS, "key": key, "progress": False},
         {"systems": "systems", "dt": "dt", "lags": "data_lags", "names": "names", "key": "key",
          "scheme": "choice", "prior": "prior", "recipe": "fit_config", "treat": "flag",
          "inputs": "input_names", "coefficient": "optional_positive", "time_unit": "amount",
          "transform": "transform",
          "directory": "directory",
          "executor": "executor", "workers": "count", "errors": "choice"}),
    Spec("fit", ndde.fit, {"method": ndde.L0NDDE(), **W}, {
        "method": "method", "windows": "windows", "config": "fit_config", "key": "key",
        "loss": "fit_config"}),
    Spec("fit_many", ndde.fit_many,
         {"method": ndde.L0NDDE(), "windows": lambda: [windows()], "key": key, "progress": False},
         {"method": "method", "windows": "list_of_windows", "config": "fit_config", "key": "key",
          "directory": "directory", "executor": "executor", "workers": "count"}),
    Spec("signal_strengths", ndde.signal_strengths, {**W, "graph": graph}, {
        **REFIT, "graph": "graph", "max_inputs": "count"}),
    Spec("select.Gates", lambda starts: ndde.recover(
        windows(), ndde.select.Gates(starts=starts), key=key()), {}, {"starts": "graph"}),
    Spec("fitting.fit_graph", ndde.fitting.fit_graph, {**W, "graph": graph}, {
        **REFIT, "graph": "graph", "max_inputs": "count"}),
    Spec("fitting.fit_flow", ndde.fitting.fit_flow, {**W, "graph": graph}, {
        **REFIT, "graph": "graph", "max_inputs": "count", "members": "count",
        "rounds": "count_from_0", "family": "choice", "simple_numbers": "flag"}),
    Spec("measure.refine_delays", ndde.measure.refine_delays,
         {"x": X, "graph": graph, "dt": 0.5, "lags": LAGS},
         {"graph": "graph", "dt": "dt", "lags": "lags", "x": "values"}),
    Spec("select.spline_graph", ndde.select.spline_graph, {"windows": windows}, {
        "windows": "windows", "shortlist": "count"}),
    Spec("assess.error_rates", ndde.assess.error_rates, {"windows": windows, "graph": graph}, {
        "windows": "windows", "graph": "graph"}),
    Spec("assess.relations", ndde.assess.relations, {"windows": windows, "graph": graph}, {
        "windows": "windows", "graph": "graph"}),
    Spec("select.fit_splines", ndde.select.fit_splines, {"windows": windows, "graph": graph}, {
        "windows": "windows", "graph": "graph"}),
    Spec("SignalStrengths.kept", lambda coefficient: strengths().kept(coefficient), {}, {
        "coefficient": "optional_positive"}),
    Spec("select.coefficient_path", ndde.select.coefficient_path,
         {"method": ndde.AGL(), "windows": windows, "coefficients": (0.1, 1.0), "key": key},
         {"method": "method", "windows": "windows", "coefficients": "coefficients", "key": "key",
          "config": "fit_config", "refit": "strength_config"}),
    Spec("SweptGraphs.select", lambda errors: coefficient_path().select(errors), {}, {
        "errors": "not_negative"}),
    Spec("SweptGraphs.graph", lambda coefficient: coefficient_path().graph(coefficient), {}, {
        "coefficient": "rate"}),
    Spec("recover", ndde.recover, {**W, "strategy": ndde.select.Splines()}, {
        "windows": "windows", "key": "key", "strategy": "value", "price": "optional_positive"}),
    Spec("fit_drift", ndde.fit_drift, {**W, "graph": graph}, {
        "windows": "windows", "key": "key", "graph": "graph", "family": "value", "flow": "value"}),
    Spec("risk", ndde.risk, {"model": model, "windows": windows}, {
        "model": "model", "windows": "windows"}),
    _signed(ndde.select.PerInput, coefficient="positive"),
    _signed(ndde.select.Splines, shortlist="count"),
    _signed(ndde.select.Moves, shortlist="count", refit="strength_config"),
    _signed(ndde.select.Exhaustive, refit="strength_config"),
    _signed(ndde.fitting.Flow, rounds="count_from_0"),
    _signed(ndde.models.Networks, members="count", width="count", depth="count", steps="count"),
    _signed(ndde.models.Polynomials, simple_numbers="flag"),
    Spec("measure.edge_stability", ndde.measure.edge_stability, W, {
        "windows": "windows", "key": "key", "seeds": "count", "strategy": "value",
        "price": "optional_positive"}),
    Spec("identifiability_report", ndde.identifiability_report, W, {
        "windows": "windows", "seeds": "count", "strategy": "value",
        "config": "strength_config", "names": "names",
        "coefficient": "optional_positive", "model": "model", "strengths": "optional_result"}),
    Spec("windows.thin_windows", ndde.windows.thin_windows, {"windows": windows}, {
        "windows": "windows", "factor": "count", "scheme": "choice"}),
    Spec("stack_windows", ndde.stack_windows, {}, {"windows": "list_of_windows"}),
    Spec("windows.unstack_windows", ndde.windows.unstack_windows, {}, {"windows": "result"}),
    Spec("check.noise_covariance", ndde.check.noise_covariance,
         {"windows": windows, "model": model}, {
        "windows": "windows", "model": "model"}),
    Spec("check.residual_memory", ndde.check.residual_memory,
         {"windows": windows, "model": model}, {
        "windows": "windows", "model": "model"}),
    Spec("equations", ndde.equations, {"model": model}, {
        "model": "any_model", "names": "names", "digits": "count", "form": "form"}),
    Spec("confine", ndde.confine, {"model": model}, {
        "model": "any_model", "radius": "box", "rate": "box", "center": "center",
        "windows": "optional_result"}),
    Spec("models.damp", ndde.models.damp, {"model": model, "rate": 1.0}, {
        "model": "any_model", "rate": "box", "center": "center"}),
    Spec("models.drift_bound", ndde.models.drift_bound, {}, {"model": "any_model"}),
    Spec("edge_scores", ndde.edge_scores, {}, {"result": "result"}),
    Spec("window_graph", ndde.window_graph, {}, {"result": "result"}),
    Spec("summary_graph", ndde.summary_graph, {}, {"graph": "values"}),
    Spec("prior_knowledge", ndde.prior_knowledge, {"names": ("a", "b"), "lags": LAGS}, {
        "names": "amount", "lags": "lags", "forbidden": "edges", "required": "edges",
        "exogenous": "variables", "self_edges": "flag"}),
    Spec("windows.PriorKnowledge", ndde.windows.PriorKnowledge,
         {"allowed": lambda: jnp.ones(SHAPE, bool), "required": lambda: jnp.zeros(SHAPE, bool)},
         {"allowed": "graph", "required": "graph"}),
    Spec("solve_sdde", ndde.solve_sdde, SDE, {
        "drift": "function", "history": "history", "n_steps": "steps", "dt": "step",
        "lags": "delays", "save_every": "steps", "t0": "number", "solver": "solver",
        "progress": "flag"}),
    Spec("solve_sdde with noise", ndde.solve_sdde, {**SDE, "sigma": 0.1, "key": key}, {
        "sigma": "sigma", "key": "key"}),
    Spec("solve_sdde with bounds", ndde.solve_sdde, {**SDE, "lags": 1.0}, {
        "lag_bounds": "bounds"}),
    Spec("solve_sdde with increments", ndde.solve_sdde, {**SDE, "sigma": 0.1}, {
        "increments": "draws"}),
    Spec("simulate.rollout", ndde.simulate.rollout, {"model": model, "history": X, "n_steps": 5}, {
        "model": "any_model", "history": "history", "n_steps": "steps", "save_every": "steps"}),
    Spec("lyapunov_spectrum", ndde.lyapunov_spectrum, {**SDE, "n_steps": 400}, {
        "drift": "function", "history": "history", "n_steps": "steps", "dt": "step",
        "lags": "delays", "k": "count", "transient_steps": "count_from_0", "solver": "solver",
        "t0": "number"}),
    Spec("simulate.kinks", ndde.simulate.kinks, {"delays": 1.0, "t0": 0.0, "t1": 3.0}, {
        "delays": "positive_lags", "t0": "number", "t1": "number", "order": "count"}),
    Spec("simulate.log_density", ndde.simulate.log_density,
         {"model": drift, "path": X, "dt": 0.1, "sigma": 0.1}, {
        "model": "function", "path": "matrix", "dt": "step"}),
    Spec("kaplan_yorke_dimension", ndde.kaplan_yorke_dimension, {}, {"spectrum": "spectrum"}),
    Spec("simulate.DelayTerm", ndde.simulate.DelayTerm,
         {"drift": drift, "lags": 1.0, "history": lambda t: t}, {
        "drift": "function", "lags": "positive_lags"}),
    Spec("simulate.DelaySolver", ndde.simulate.DelaySolver, {"solver": diffrax.Tsit5()}, {
        "solver": "function", "capacity": "count"}),
    Spec("NeuralDDE()", lambda history: model()(history), {}, {"history": "matrix"}),
    Spec("Certificate.second_moment",
         lambda sigma: ndde.models.damp(model(), rate=1.0).certificate().second_moment(sigma), {}, {
             "sigma": "matrix"}),
    Spec("measure.precedence", ndde.measure.precedence, {"x": X}, {"x": "values"}),
    Spec("measure.rank_sources", ndde.measure.rank_sources, {"x": X, "strengths": np.eye(DIM)}, {
        "x": "values", "strengths": "square"}),
    Spec("measure.travel_time", ndde.measure.travel_time,
         {"x": X, "source": 0, "target": 1, "largest": 3, "key": key}, {
             "x": "values", "source": "column", "target": "column", "largest": "count",
             "level": "inner_share", "draws": "count", "key": "key"}),
    Spec("load_example", ndde.load_example, {}, {"name": "example_name"}),
    Spec("systems.get", ndde.systems.get, {}, {"name": "system_name"}),
    Spec("systems.names", ndde.systems.names, {}, {"kind": "choice"}),
    Spec("System.with_lags", lambda lags: system().with_lags(lags), {}, {"lags": "values"}),
    Spec("FitConfig", ndde.FitConfig, {}, {
        **dict.fromkeys(("max_steps", "newton_steps", "batch_size", "epoch_steps", "width",
                         "depth", "patience"), "count"),
        **dict.fromkeys(("warmup_steps", "refine_steps"), "count_from_0"),
        **dict.fromkeys(("warmup", "refine", "gradient_penalty_variant", "scores"), "choice"),
        **dict.fromkeys(("smoothing", "improvement"), "not_negative"),
        **dict.fromkeys(("learning_rate", "gate_learning_rate", "gradient_penalty"), "rate")}),
    Spec("fitting.StrengthConfig", ndde.fitting.StrengthConfig, {}, {
        **dict.fromkeys(("restarts", "steps", "fold_steps", "resamples", "width", "depth", "folds",
                         "blocks"), "count"),
        "search": "count_from_0", "confidence": "share"}),
    _signed(ndde.L0NDDE, coefficient="rate", path="prices", n_draws="count", log_alpha="number",
            max_log_alpha="positive", rule="choice", gate="gate", unit="choice"),
    _signed(ndde.AGL, coefficient="rate", path="prices", gamma="rate", reset="flag",
            unit="choice"),
    _signed(ndde.CNODE, coefficient="rate", path="prices", variant="choice", threshold="rate",
            unit="choice"),
    _signed(ndde.PathReg, coefficient="rate", path="prices", variant="choice", rule="choice",
            unit="choice", log_alpha="number", max_log_alpha="positive", gate="gate"),
    _signed(gates.HardConcrete, temperature="positive"),
    Spec("gates.sample_gate", gates.sample_gate, {"log_alpha": jnp.ones(2), "key": key}, {
        "log_alpha": "log_alpha", "key": "key", "gate": "gate"}),
    Spec("gates.sample_gate", gates.sample_gate,
         {"log_alpha": jnp.ones(2), "noise": jnp.ones(2)},
         {"log_alpha": "log_alpha", "noise": "log_alpha", "gate": "gate"}),
    *(Spec(f"gates.{f.__name__}", f, {"log_alpha": jnp.ones(2)}, {
        "log_alpha": "log_alpha", "gate": "gate"})
      for f in (gates.open_probability, gates.expected_l0, gates.deterministic_gate)),
    Spec("gates.hard_mask", gates.hard_mask, {"log_alpha": jnp.ones(2)}, {
        "log_alpha": "log_alpha", "rule": "choice", "gate": "gate"}),
    Spec("theory.penalty_window", ndde.theory.penalty_window,
         {"smallest_strength": 0.1, "largest_degree": 3},
         {"smallest_strength": "rate_or_batch", "largest_degree": "rate_or_batch",
          "duration": "positive"}),
    Spec("theory.recovery_margin", ndde.theory.recovery_margin,
         {"coefficient": 0.1, "smallest_strength": 0.1, "largest_degree": 3},
         {"coefficient": "rate_or_batch", "smallest_strength": "rate_or_batch",
          "largest_degree": "rate_or_batch", "duration": "positive"}),
    Spec("theory.occupation_bound", ndde.theory.occupation_bound,
         {"duration": 10.0, "prefactor": 1.0, "rate": 0.5},
         {"duration": "positive", "prefactor": "not_negative", "rate": "positive",
          "start": "not_negative", "largest_delay": "not_negative"}),
    *(Spec(*row) for row in bad_theory.ROWS),
    *(Spec(f"metrics.{f.__name__}", f, {a: np.ones((2, 2)), "truth": np.eye(2)}, {
        a: "truth", "truth": "truth", "where": "where"})
      for f, a in ((metrics.auroc, "scores"), (metrics.auprc, "scores"),
                   (metrics.precision, "graph"), (metrics.recall, "graph"),
                   (metrics.f1_score, "graph"), (metrics.structural_hamming_distance, "graph"))),
    Spec("metrics.bounded", metrics.bounded, {"predicted": X}, {
        "predicted": "values", "limit": "positive"}),
    Spec("metrics.valid_prediction_time", metrics.valid_prediction_time, {**FORECAST, "dt": 0.1}, {
        "predicted": "trajectory", "truth": "trajectory", "dt": "per_trajectory",
        "lyapunov": "per_trajectory", "norm": "choice"}),
    Spec("metrics.nrmse", metrics.nrmse, {**FORECAST, "dt": 0.1}, {
        "predicted": "trajectory", "truth": "trajectory", "dt": "per_trajectory",
        "lyapunov": "per_trajectory", "horizon": "per_trajectory"}),
    Spec("metrics.log_spectral_distance", metrics.log_spectral_distance, FORECAST, {
        "predicted": "trajectory", "truth": "trajectory", "segment": "count",
        "floor": "not_negative"}),
    Spec("metrics.state_space_divergence", metrics.state_space_divergence, FORECAST, {
        "predicted": "trajectory", "truth": "trajectory", "variance": "positive",
        "n_samples": "count", "max_points": "count", "samples": "draws"}),
    Spec("plot.plot_lag_matrix", plot.plot_lag_matrix, PICTURE, {
        **LABELS, "scores": "scores", "graph": "graph"}),
    Spec("plot.plot_process_graph", plot.plot_process_graph, PICTURE, {
        **LABELS, "scores": "scores", "graph": "graph"}),
    Spec("plot.plot_discovery", plot.plot_discovery, {}, {"found": "result"}),
    Spec("plot.plot_effects", plot.plot_effects, {}, {"effects": "result"}),
    Spec("plot.plot_interactions", plot.plot_interactions, {}, {"interactions": "result"}),
    Spec("plot.plot_forecast", plot.plot_forecast, {}, {"forecast": "result"}),
    Spec("plot.plot_intervention", plot.plot_intervention, {}, {"intervention": "result"}),
    Spec("Discovery.resample", lambda **options: discovery().resample(**options), {}, {
        "resamples": "count", "key": "key_or_none"}),
    Spec("Discovery.forecast", lambda **options: discovery().forecast(**options), FUTURE, {
        "horizon": "span", "paths": "count", "key": "key", "history": "past",
        "inputs": "inputs"}),
    Spec("Discovery.intervene", lambda **options: discovery().intervene(**options),
         {**FUTURE, "values": {"b": 0.0}}, {
             "values": "settings", "horizon": "span", "start": "span_from_0", "stop": "span",
             "paths": "count", "key": "key", "shift": "settings", "cut": "cuts",
             "scale": "by_edge", "delay": "by_edge", "inputs": "inputs", "history": "past"}),
    Spec("Discovery.intervene by rule", lambda **options: discovery().intervene(**options),
         FUTURE, {"values": "rules"}),
    Spec("Discovery.impute", lambda **options: discovery().impute(**options), {}, {
        "draws": "count_from_0", "key": "key_or_none"}),
    Spec("Recipe", ndde.Recipe, {}, {"passes": "count", "impute": "count_from_0"}),
    Spec("Discovery.backtest", lambda **options: discovery().backtest(**options), FUTURE, {
        "horizon": "span", "paths": "count", "key": "key", "origins": "count", "data": "past",
        "rivals": "rivals", "at": "steps_ahead"}),
    Spec("Backtest.against", lambda **options: backtest().against(**options), {"rival": "VAR"}, {
        "rival": "choice"}),
    Spec("Effects.curve", lambda **options: discovery().effects().curve(**options),
         {"source": "a", "target": "b", "lag": 0}, {
             "source": "variable", "target": "variable", "lag": "lag", "points": "count"}),
    Spec("Effects.surface", lambda **options: discovery().effects().surface(**options),
         {"first": "a", "second": "b", "target": "b", "first_lag": 0, "second_lag": 0}, {
             "first": "variable", "second": "variable", "target": "variable",
             "first_lag": "lag", "second_lag": "lag", "points": "count"}),
    Spec("metrics.crps", metrics.crps, {"samples": np.ones((5, 2)), "truth": np.ones(2)}, {
        "samples": "samples", "truth": "came", "fair": "flag"}),
    Spec("metrics.energy_score", metrics.energy_score,
         {"samples": np.ones((5, 2)), "truth": np.ones(2)}, {
             "samples": "samples", "truth": "came"}),
    Spec("metrics.interval_coverage", metrics.interval_coverage,
         {"low": np.ones(2), "high": np.ones(2), "truth": np.ones(2)}, {
             "low": "came", "high": "came", "truth": "came"}),
    Spec("plot.plot_trajectories", plot.plot_trajectories,
         {"t": np.arange(60), "x": X, "names": ("a", "b")},
         {"t": "stamps", "x": "values", "names": "names", "units": "units"}),
]  # fmt: skip


def cases() -> list[tuple[Spec, str, str, Any]]:
    """All cases: the function, the argument, its kind and the fault."""
    return [
        (spec, argument, kind, fault)
        for spec in SPECS
        for argument, kind in spec.kinds.items()
        for fault in KINDS[kind]
    ]


# Other words by which a message may refer to an argument: its contents.
ALSO = {
    "x": ("trajector", "every sample", "x.", "dim + 1", "constant", "infinite"),
    "lags": ("largest lag", "shortest lag"),
    "starts": ("graph",),
    "values": ("first argument", "a variable to set", "the value of"),
    "shift": ("a variable to shift",),
    "scale": ("factor of",),
    "inputs": ("an input", "the future of"),
    "start": ("stop",),
}
