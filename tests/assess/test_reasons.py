"""Why a candidate was kept or not."""

from types import SimpleNamespace

import jax
import numpy as np

import ndde_jax as ndde
from benchmarks.world import generators
from ndde_jax._output import _edges
from ndde_jax._report import unresolved_pairs
from ndde_jax.assess._reasons import reasons


def said(**changes):
    shape = (1, 1, 3)
    base = dict(
        graph=np.zeros(shape, bool),
        scores=np.array([[[0.5, 0.001, 0.3]]]),
        lower=np.array([[[0.1, 0.0, -0.1]]]),
        price=np.array([0.01]),
        allowed=np.ones(shape, bool),
        required=np.zeros(shape, bool),
        passed_on=np.zeros(shape, bool),
    )
    return reasons(**(base | changes), lags=(0, 2, 4))[0, 0]


def test_every_kind_of_reason():
    assert said()[1] == "does not pay its price: explains 0.001 for a price of 0.01"
    assert said()[2].startswith("differs too much from stretch to stretch")
    assert said()[0].startswith("explained by the other kept inputs")
    kept = np.array([[[True, False, False]]])
    assert list(said(graph=kept)[:2]) == [
        "kept: explains 0.5 for a price of 0.01",
        "proxy for lag 0, which was kept: given it, explains 0.001 for a price of 0.01",
    ]
    dear = said(graph=kept, price=np.array([0.6]))[0]
    assert dear == "kept with the others: by itself it explains 0.5 for a price of 0.6"
    assert said(graph=kept, required=kept)[0] == "kept: required"
    assert said(allowed=kept)[1] == "not allowed"


def test_a_discovery_says_all_of_it():
    batch = generators.hidden_map(1, kind="bursty", strength=1.5, seed=1)
    options = dict(dt=1.0, lags=range(6), scheme="euler", recipe=ndde.Recipe.fast())
    found = ndde.discover(batch.x[0], **options, key=jax.random.key(0))
    frame = found.to_frame()
    assert frame.reason.str.startswith("kept: ").sum() == found.graph.sum()
    assert frame.reason.str.len().min() > 3
    assert _edges(found).decode().splitlines()[0] == ",".join(frame.columns)
    assert len(_edges(found).decode().splitlines()) == found.graph.size + 1
    assert found.confounded[0, 1] and found.confounded[1, 0]
    assert found.verdict != "supported"
    assert "hidden driver" in {finding.name for finding in found.verdict.reasons}
    assert any("x0 <-> x1" in line for line in unresolved_pairs(found))
    assert "x0 <-> x1" in found.report()
    figure = found.plot()
    texts = [ax.get_xlabel() for part in figure.subfigs for ax in part.axes]
    assert any("two heads" in text for text in texts)


def test_pairs_that_share_most_come_first():
    shared = np.array([[1.0, 0.2, -0.7], [0.2, 1.0, 0.5], [-0.7, 0.5, 1.0]])
    apart = ~np.eye(3, dtype=bool)
    found = SimpleNamespace(
        names=("a", "b", "c"), inputs=(), confounded=apart & False, at_once=apart
    )
    lines = unresolved_pairs(SimpleNamespace(**vars(found), residual_correlation=shared))
    assert [line[:6] for line in lines] == ["a -- c", "b -- c", "a -- b"]
