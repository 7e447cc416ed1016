"""Known inputs drive, have no drivers, are left unchanged, and no verdict depends on them."""

import jax
import numpy as np
import pytest

import ndde_jax as ndde

DT, LAGS = 0.5, (0, 2, 4)
FAST = ndde.Recipe.fast()


def forced(n=1200, seed=0):
    """u, a season with jumps, drives a after four samples, a drives b after two."""
    rng = np.random.default_rng(seed)
    u = np.sin(2 * np.pi * np.arange(n) / 37) + 2 * (np.arange(n) % 97 < 9)
    x = np.zeros((n, 2))
    for k in range(4, n - 1):
        a, b = x[k]
        drift = [np.tanh(u[k - 4]) - a, x[k - 2, 0] - b]
        x[k + 1] = x[k] + DT * np.array(drift) + 0.2 * rng.normal(size=2)
    return x, u


X, U = forced()


def discover(x, **options):
    settings = dict(dt=DT, lags=LAGS, recipe=FAST, key=jax.random.key(0))
    return ndde.discover(x, **settings | options)


@pytest.fixture(scope="module")
def found():
    return discover(X, names=("a", "b"), inputs={"u": U})


def test_an_input_is_found_and_never_driven(found):
    assert found.names == ("a", "b", "u") and found.inputs == ("u",)
    assert found.graph[2, 0, 2]
    assert not found.graph[:2, 2].any()
    assert found.graph[0, 1, 1] and not found.graph[2, 1].any()


def test_it_stays_as_it_is_and_no_verdict_rests_on_it(found):
    np.testing.assert_array_equal(found.samples.values[0][:, 2], U)
    assert "season" not in {t.name for t in found.samples.treatments}
    assert all(finding.weight == "note" for finding in found.verdict.notes)
    assert not any("u" in finding.text.split() for finding in found.verdict.reasons)
    (sure,) = (line for line in found.verdict.lines if line.startswith("How sure"))
    assert "a " in sure and "u " not in sure.partition("rates of change")[2]


@pytest.mark.slow
def test_by_column_by_mapping_and_by_prior_are_the_same(found):
    together = np.column_stack([X, U])
    names = ("a", "b", "u")
    prior = ndde.prior_knowledge(names, lags=LAGS, exogenous="u")
    for options in ({"inputs": "u"}, {"inputs": ("u",)}, {"prior": prior}):
        other = discover(together, names=names, **options)
        np.testing.assert_array_equal(other.graph, found.graph)
        np.testing.assert_array_equal(other.scores, found.scores)
    (many,) = ndde.discover_many(
        [together], dt=DT, lags=LAGS, names=names, inputs=("u",), recipe=FAST,
        key=jax.random.key(0), progress=False,
    )  # fmt: skip
    np.testing.assert_array_equal(many.graph, found.graph)


def test_a_prior_of_the_rest_is_kept():
    prior = ndde.prior_knowledge(("a", "b"), lags=LAGS, forbidden=[("a", "b")])
    other = discover(X, names=("a", "b"), inputs={"u": U}, prior=prior)
    assert not other.graph[0, 1].any()
    assert other.inputs == ("u",)


def test_its_future_may_be_given(found):
    still, pulse = np.zeros(12), np.where(np.arange(12) < 2, 3.0, 0.0)
    runs = [
        found.forecast(horizon=12, paths=40, key=jax.random.key(1), inputs={"u": u}).median
        for u in (still, pulse)
    ]
    # A value that enters now moves a four samples later, and not before.
    moved = np.abs(runs[1][:, 0] - runs[0][:, 0])
    assert moved[:3].max() < 0.15 < moved[5:8].max()


def test_several_trajectories():
    parts = [slice(0, 500), slice(500, 1200)]
    other = discover([X[p] for p in parts], names=("a", "b"), inputs={"u": [U[p] for p in parts]})
    assert other.graph[2, 0, 2] and other.inputs == ("u",)


@pytest.mark.parametrize(
    ("inputs", "why"),
    [
        ("nobody", "not a variable of x"),
        ({"a": U}, "already a variable of x"),
        ({"u": U[:-1]}, "one value per sample"),
        ({"u": "text"}, "real numbers"),
        (7, "inputs must be"),
    ],
)
def test_what_is_no_input_is_refused(inputs, why):
    with pytest.raises(ValueError, match=why):
        discover(X, names=("a", "b"), inputs=inputs)


def test_what_drives_an_input_is_refused():
    names = ("a", "b", "u")
    prior = ndde.prior_knowledge(names, lags=LAGS, required=[("a", "u", 0)])
    with pytest.raises(ValueError, match="requires a -> u, but the target is an input"):
        discover(np.column_stack([X, U]), names=names, inputs="u", prior=prior)
