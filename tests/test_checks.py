"""The messages of `_checks.py`, and a few faults in functions that use them; no compilation."""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax import _checks
from ndde_jax.fit.penalties import check_method
from ndde_jax.models._model import check_model, check_model_matches

from . import bad_inputs, bad_values

SHAPE = bad_inputs.SHAPE
# Checks that know a class of the library are beside it.
CHECKS = {**vars(_checks), "check_method": check_method}


@pytest.mark.parametrize(
    ("check", "value", "options", "message"),
    [
        ("number", "a", {}, "n must be a number; got 'a'."),
        ("number", np.nan, {}, "n must be finite; got nan."),
        ("number", 2, {"least": 0, "most": 1}, "n must lie in [0, 1]; got 2."),
        ("number", 0.5, {"above": 0.5, "below": 1}, "n must lie in (0.5, 1); got 0.5."),
        ("coefficient", -1.0, {}, "n must be positive; got -1.0."),
        ("whole", 1.5, {}, "n must be a whole number, at least 1; got 1.5."),
        ("whole", 1.5, {"least": 0}, "n must be a whole number, at least 0; got 1.5."),
        ("whole", 0, {}, "n must be at least 1; got 0."),
        ("whole", 9, {"most": 8}, "n must be at most 8; got 9."),
        ("flag", 1, {}, "n must be True or False; got 1."),
        ("choice", "c", {"options": ("a", "b")}, "n must be one of 'a' or 'b'; got 'c'."),
        ("names", "ab", {"dim": 2}, "n must be a sequence of 2 different names"),
        ("names", ("a", "a"), {"dim": 2}, "got 'a' more than once"),
        ("names", ("a",), {"dim": 2}, "got ('a',), 1 for 2 variables"),
        ("names", (), {"dim": None}, "got ()"),
        ("key", 0, {}, "n must be a JAX random key; got 0. Make one with jax.random.key(0)."),
        ("key", None, {}, "n must be a JAX random key; got None"),
        ("graph", np.full(SHAPE, 1e-9), {"shape": SHAPE}, "Pass found.graph, not found.scores"),
        ("graph", np.full(SHAPE, np.nan), {"shape": SHAPE}, "got nan among numbers"),
        ("graph", np.ones((3, 3, 2)), {"shape": SHAPE}, "n must be [source target lag]"),
        ("method", ndde.L0NDDE, {}, "got the class L0NDDE. Mind the parentheses"),
        ("config", {}, {"kind": ndde.FitConfig}, "n must be a FitConfig or None; got {}."),
        ("real_array", [1j], {"what": "[time]"}, "n must be real numbers, [time]; got [1j]."),
        ("real_array", [np.inf], {"what": "[time]", "finite": True}, "n must be finite"),
        ("real_array", [1, 0], {"what": "[time]", "above": 0}, "n must be positive; got 0."),
        ("sizes", 1e39, {"dtype": np.float32}, "n must be of a size that float32 can compute"),
        ("sizes", 1e-300, {"dtype": np.float64}, "got 1e-300, below 1e-150"),
    ],
)
def test_sentences(check, value, options, message):
    with pytest.raises(ValueError) as error:
        CHECKS[f"check_{check}"](value, name="n", **options)
    text = str(error.value)
    assert message in text
    assert text.endswith(".")


@pytest.mark.parametrize(
    ("check", "value", "message"),
    [
        (_checks.check_positive, 0.0, "n must be positive; got 0.0."),
        (_checks.check_positive, True, "n must be a positive number; got True."),
        (_checks.check_positive, None, "n must be a positive number; got None."),
        (_checks.check_non_negative, -1, "n must not be negative; got -1."),
    ],
)
def test_sentences_of_several_numbers(check, value, message):
    with pytest.raises(ValueError) as error:
        check(m=1.0, n=value)
    assert str(error.value) == message


def test_windows_and_models_belong_together():
    windows = bad_inputs.windows()
    with pytest.raises(ValueError, match="windows must be what lagged_windows returns; who got 3"):
        _checks.check_windows(3, "who")
    with pytest.raises(ValueError, match="model must be a fitted model, NeuralDDE or RestoredDDE"):
        check_model("m")
    with pytest.raises(ValueError, match=r"who takes the windows of one system.*use jax\.vmap"):
        _checks.check_windows(bad_values.stacked(), "who")
    check_model_matches(windows, bad_inputs.model())
    with pytest.raises(ValueError, match="model must have the 2 variables of the windows"):
        check_model_matches(windows, bad_inputs.model(3))
    with pytest.raises(ValueError, match=r"model must have the lags of the windows, \(0, 1\)"):
        check_model_matches(windows, bad_inputs.model(2, (0, 2)))


def test_what_is_right_passes():
    for key in (jax.random.key(3), jax.random.PRNGKey(3), np.asarray(jax.random.PRNGKey(3))):
        found = _checks.check_key(key)
        np.testing.assert_array_equal(jax.random.key_data(found), [0, 3])
    for graph in (
        np.eye(2)[:, :, None],
        np.eye(2, dtype=int)[:, :, None],
        [[[1], [0]], [[0], [1]]],
    ):
        found = _checks.check_graph(graph, (2, 2, 1))
        assert found.dtype == bool
        np.testing.assert_array_equal(found[:, :, 0], np.eye(2))
    assert _checks.check_names(["a", "b"], 2) == ("a", "b")
    for number in (1, 0.5, np.float32(2), np.array(3), jnp.asarray(4.0)):
        _checks.check_positive(n=number)


def test_under_jit_types_and_shapes_are_checked_and_values_pass():
    @jax.jit
    def traced(number, graph, key):
        _checks.check_positive(n=number)
        _checks.check_graph(graph, SHAPE)
        _checks.check_real_array(number, "n", "", finite=True, above=0)
        _checks.check_key(key)
        with pytest.raises(ValueError, match="n must be a positive number"):
            _checks.check_positive(n=graph)
        with pytest.raises(ValueError, match="graph must be"):
            _checks.check_graph(graph[0], SHAPE)
        with pytest.raises(ValueError, match=r"n must be a plain int.*static"):
            _checks.check_whole(number, "n")
        with pytest.raises(ValueError, match=r"who needs to see the numbers.*inside jit"):
            _checks.check_concrete("who", number)
        return number

    traced(-1.0, jnp.full(SHAPE, 0.5), jax.random.key(0))


QUICK = [
    case for case in bad_inputs.cases() if case[2] in ("coefficients", "edges", "prior", "gate")
]


@pytest.mark.parametrize("at", range(len(QUICK)), ids=lambda i: f"{QUICK[i][0].name}-{QUICK[i][1]}")
def test_doors_refuse(at):
    spec, argument, _, fault = QUICK[at]
    with pytest.raises(ValueError, match=argument):
        spec.call(argument, bad_inputs.lazy(fault))


def test_prior_knowledge_reads_what_is_meant():
    prior = ndde.prior_knowledge(("ab", "a", "b"), exogenous="ab")
    np.testing.assert_array_equal(~prior.allowed[:, :, 0], [[0] * 3, [1, 0, 0], [1, 0, 0]])
    for exogenous in ([0.7], [-1], 0.7):
        with pytest.raises(ValueError, match="exogenous"):
            ndde.prior_knowledge(3, exogenous=exogenous)
    edges = jnp.ones((2, 2, 1), bool)
    with pytest.raises(ValueError, match="required must hold edges that are also allowed"):
        ndde.windows.PriorKnowledge(~edges, edges)
    with pytest.raises(ValueError, match="in rows, transpose the data"):
        ndde.prior_knowledge(20_000)


def test_double_precision_of_numpy_causes_no_warning_in_single():
    """Warnings are errors here."""
    ones = np.ones(2)
    with jax.enable_x64(False):
        path = ndde.solve_sdde(
            lambda t, x, lagged, args: -x, history=ones, dt=np.float64(0.1), n_steps=2
        )
        assert path.ys.dtype == np.float32
        assert ndde.kaplan_yorke_dimension(np.array([1.0, -2.0])) == 1.5
        assert ndde.L0NDDE(coefficient=np.float64(0.1)).coefficient.dtype == np.float32
        with pytest.raises(ValueError, match=r"column 1 \('b'\) of x must be of a size that float"):
            ndde.lagged_windows(bad_inputs.X * [1, 1e39], dt=0.1, names=("a", "b"))
        for dt in (1e-40, 1e-300, 1e300):
            with pytest.raises(ValueError, match="dt must be of a size"):
                ndde.lagged_windows(bad_inputs.X, dt=dt)


def test_windows_take_names_and_time_from_a_frame():
    pd = pytest.importorskip("pandas")
    index = pd.date_range("2001-03-24", periods=60, freq="h", tz="Europe/Berlin")
    frame = pd.DataFrame(bad_inputs.X, columns=["sea", "wind"], index=index)
    found = ndde.lagged_windows(frame, lags=(0, 1))
    assert float(found.dt) == 1.0
    np.testing.assert_allclose(found.history, bad_inputs.windows().history, atol=1e-9)
    with pytest.raises(ValueError, match=r"column 1 \('wind'\) of x is constant"):
        ndde.lagged_windows(frame.assign(wind=1.0), lags=(0, 1))
    assert float(ndde.lagged_windows(frame, dt=3.0).dt) == 3.0


def test_a_discovery_is_shown_in_a_few_lines():
    graph = np.zeros(SHAPE, bool)
    graph[0, 1, 1] = graph[0, 0, 0] = True
    scores = np.where(graph, 0.25, 0) + np.arange(2) * 0.1
    found = types.SimpleNamespace(names=("sea", "wind"), lags=(0, 1), graph=graph, scores=scores)
    found.inputs = ()
    assert ndde.Discovery.__repr__(found).splitlines() == [
        "Discovery of 2 variables at lags (0, 1): 2 of 8 candidate edges kept, the strongest "
        "between variables first",
        "  sea@1 -> wind  0.35",
        "  sea -> sea  0.25",
        "Next: print(found.report()), found.to_frame(), found.plot().",
    ]
    found.inputs = ("sea",)  # whose own past is no edge of the report
    assert "1 of 4 candidate edges kept" in ndde.Discovery.__repr__(found)
