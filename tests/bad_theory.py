"""Bad inputs to the functions of the theory: rows of `bad_inputs.SPECS`, a name, the function,
valid arguments and the kinds of those that are replaced.
"""

import numpy as np

from ndde_jax import theory

from .bad_values import DIM, LAGS, damped, drift, graph, key, model, windows

CONSTANTS = {
    "confidence": 0.9, "modulus": 1.0, "spread": 1.0,
    "envelope": 2.0, "tail": 0.0, "covering": 1.0, "resolution": 0.1, "noise_norm": 1.0,
    "noise_trace": 1.0, "mixing_prefactor": 1.0, "mixing_rate": 1.0,
}  # fmt: skip
HISTORIES = np.random.default_rng(1).normal(size=(20, len(LAGS), DIM))

ROWS = [
    ("theory.Dissipativity", theory.Dissipativity,
         {"center": [0.0], "beta0": 1.0, "alpha": 0.0, "delays": [1.0], "beta": [0.5]},
         {"center": "box_of_one", "beta0": "number", "alpha": "not_negative", "beta": "rates",
          "radius": "not_negative", "inside": "not_negative", "kind": "choice"}),
    ("theory.dissipativity", theory.dissipativity,
         {"drift": model, "histories": HISTORIES, "center": [0.0, 0.0]},
         {"drift": "function", "histories": "histories", "center": "center",
          "sigma_trace": "not_negative_or_none"}),
    ("theory.linear_dissipativity", theory.linear_dissipativity,
         {"present": -np.eye(2), "delayed": np.eye(2)[None], "delays": [1.0]},
         {"present": "matrix", "delays": "rates", "offset": "center"}),
    ("theory.halanay_rate", theory.halanay_rate,
         {"decay": 2.0, "feedback": [1.0], "delays": [1.0]},
         {"decay": "positive", "feedback": "rates", "delays": "rates"}),
    *((f"theory.{f.__name__}", f, {"known": damped, "sigma": 1.0, **more}, {
        "known": "result", "sigma": "sigma_of_one", "order": "count", **kinds})
      for f, more, kinds in ((theory.moments, {}, {}),
                             (theory.segment_moments, {}, {"bdg": "positive"}))),
    ("theory.moments slack", theory.moments, {"known": damped, "sigma": 1.0, "order": 2}, {
        "slack": "optional_positive"}),
    ("theory.mixing_bound", theory.mixing_bound, {"gap": 1.0, "prefactor": 1.0, "rate": 1.0}, {
        "gap": "rate_or_batch", "prefactor": "positive", "rate": "positive",
        "second_moment": "not_negative"}),
    ("theory.transferred", theory.transferred, {"known": damped, "drift_error": 0.1}, {
        "known": "result", "drift_error": "not_negative", "slack": "optional_positive"}),
    ("theory.invariant_law_bound", theory.invariant_law_bound,
         {"drift_error": 0.1, "prefactor": 1.0, "rate": 1.0, "second_moment": 0.5},
         {"drift_error": "rate_or_batch", "prefactor": "positive", "rate": "positive",
          "second_moment": "not_negative", "time": "optional_positive"}),
    ("theory.transfer_curve", theory.transfer_curve,
         {"drift": drift, "learned": [drift], "sigma": 1.0, "history": np.ones(DIM), "dt": 0.1,
          "n_steps": 50, "key": key},
         {"drift": "function", "learned": "drifts", "sigma": "sigma", "n_steps": "count",
          "dt": "step_or_none", "skip": "count_from_0", "bins": "count", "key": "key"}),
    ("theory.finite_sample_terms", theory.finite_sample_terms,
         {"steps": [0.1], **CONSTANTS},
         {"steps": "lengths", "confidence": "share", "gap": "not_negative",
          "modulus": "not_negative_or_none", "envelope": "positive", "mixing_rate": "positive",
          "covering": "not_negative"}),
    ("theory.truncation_radius", theory.truncation_radius,
         {"duration": 10.0, "moment": 1.0, "confidence": 0.9},
         {"duration": "positive", "moment": "not_negative", "confidence": "share",
          "n_delays": "count_from_0", "order": "count"}),
    ("theory.drift_modulus", theory.drift_modulus, {"model": model, "windows": windows}, {
        "model": "model", "windows": "windows"}),
    ("theory.paper_strengths", theory.paper_strengths,
         {"windows": windows, "key": key, "graph": graph},
         {"windows": "windows", "key": "key", "config": "strength_config", "graph": "graph",
          "most_subsets": "count_from_0"}),
]  # fmt: skip
