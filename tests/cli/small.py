"""Shared parts of the tests of the command line."""

import types

import jax
import numpy as np

import ndde_jax as ndde
from ndde_jax import cli
from ndde_jax._report import EdgeRow, Report, TargetRow
from ndde_jax.check import Finding, Verdict


class FakeDiscovery:
    """The part of `Discovery` that the command uses; the first variable drives the last."""

    def __init__(self, samples, *, lags, **_):
        lags = (0,) if lags is None else lags
        dim = samples.dim
        self.names, self.lags, self.time_unit = samples.names, lags, samples.time_unit
        self.dt, self.samples = samples.dt, samples
        self.level_lags = tuple(lag + 1 for lag in lags)
        self.graph = np.zeros((dim, dim, len(lags)), bool)
        self.graph[0, -1, -1] = True
        self.scores = self.graph * 0.5
        self.lower = self.graph * 0.25
        self.delays = np.where(self.graph, 1.5, np.nan)
        self.delay_intervals = self.delays[..., None] + np.array([-0.5, 0.5])
        self.p_values = np.where(self.graph, 0.001, 0.5)
        self.q_values = np.where(self.graph, 0.01, np.nan)
        self.reasons = np.where(self.graph, "kept", "does not pay its price").astype(object)
        self.confounded = self.at_once = np.zeros((dim, dim), bool)
        self.residual_correlation = np.eye(dim)
        finding = Finding("measured", "short <b>", 3.0, "", "Few & far.", "More.", "reservation")
        memory = [0.0] * (dim - 1) + [0.125]
        self.verdict = Verdict([finding], lines=["Verdict: with reservations."], memory=memory)
        self.strengths = types.SimpleNamespace(risk=np.linspace(0.5, 0.25, dim))

    to_frame = ndde.Discovery.to_frame

    def report_data(self, checked=None):
        memory = (*self.verdict.memory[:-1], 0.125)
        targets = [
            TargetRow(name, f"follows {checked or 'nothing'}.", 0.5, 0.4, left, 1, 0.01)
            for name, left in zip(self.names, memory, strict=True)
        ]
        edge = EdgeRow(f"{self.names[0]} → {self.names[-1]}", "90 min (60 to 120)", 0.5, 0.25)
        return Report(
            names=tuple(self.names),
            verdict=self.verdict,
            edges=(edge,),
            more=2,
            unresolved_pairs=("a <-> b",),
            targets=tuple(targets),
            data=f"report on {', '.join(self.names)}" + (f", {checked}" if checked else ""),
            method=("found by hand.",),
        )

    def identifiability(self, *, key, progress):
        return f"checked with {jax.random.key_data(key)[-1]}"

    def effects(self):
        raise ValueError("too few samples for effects.")

    def save(self, directory):
        directory.mkdir()
        (directory / "model").write_text("saved")


EXPECTED = [[1, 10], [np.nan, 20], [3, 30], [4, np.nan]]


def write(path, text):
    path.write_text(text)
    return path


def run(*arguments):
    return cli.main([str(argument) for argument in arguments])


def kept_stage(directory, name="abc-stage.npz"):
    directory.mkdir(parents=True, exist_ok=True)
    (directory / name).write_text("kept")
