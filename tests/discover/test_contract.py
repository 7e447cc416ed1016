"""The names that other programs call: they exist and stay."""

import jax
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax.check import Finding

NAMESPACES = """select models simulate windows samples systems metrics plot theory measure check
    assess use regression gates fitting""".split()
NAMES = {
    "": """lagged_windows stack_windows fit fit_many FitConfig L0NDDE edge_scores window_graph
        summary_graph signal_strengths window_loss risk recover fit_drift discover discover_many
        Recipe solve_sdde lyapunov_spectrum kaplan_yorke_dimension read_samples prepare_samples
        data_findings Chunks""",
    "select": "Default Gates Splines Moves Exhaustive CoefficientPath EBIC PerInput",
    "models": "Networks Polynomials Best",
    "gates": "sample_gate expected_l0",
    "simulate": "DelayTerm DelaySolver PathStatus log_density",
    "systems": "get names",
    "metrics": """auroc auprc structural_hamming_distance valid_prediction_time nrmse
        log_spectral_distance state_space_divergence crps interval_coverage""",
}
OF_A_DISCOVERY = """graph scores lower source_scores delays delay_intervals model names lags dt
    windows held_out reading evidence p_values q_values confounded at_once residual_correlation
    static verdict findings strengths report to_frame save load effects forecast intervene update
    validate resample reasons""".split()


@pytest.fixture(scope="module")
def found():
    rng, x = np.random.default_rng(0), np.zeros((300, 2))
    for k in range(2, 299):
        x[k + 1] = 0.5 * x[k] + [0, 0.8 * x[k - 2, 0]] + rng.normal(size=2)
    return ndde.discover(x, dt=1.0, lags=range(4), recipe=ndde.Recipe.fast(), key=jax.random.key(0))


@pytest.mark.parametrize("space", NAMES)
def test_names_are_where_programs_look(space):
    home = getattr(ndde, space) if space else ndde
    assert [name for name in NAMES[space].split() if not hasattr(home, name)] == []


def test_namespaces_are_attributes():
    assert [name for name in NAMESPACES if not hasattr(ndde, name)] == []


def test_a_discovery_has_all_that_programs_read(found):
    assert [name for name in OF_A_DISCOVERY if not hasattr(found, name)] == []
    assert all(isinstance(one, Finding) for one in found.findings)
    assert found.findings == (*found.verdict.reasons, *found.verdict.notes)


def test_arrays_of_a_discovery_are_of_sources_targets_and_lags(found):
    whole, pairs = (2, 2, 4), (2, 2)
    shapes = {
        whole: ("graph", "scores", "lower", "delays", "p_values", "q_values"),
        pairs: ("source_scores", "confounded", "at_once", "residual_correlation"),
        (2,): ("held_out", "static"),
        (*whole, 2): ("delay_intervals",),
    }
    for shape, names in shapes.items():
        for name in names:
            assert np.shape(getattr(found, name)) == shape, name
    apart = ~found.at_once
    kept = apart & found.graph.any(axis=2)
    np.testing.assert_array_equal(found.source_scores[kept], found.ranking[kept])
    assert found.source_scores[1, 0] < found.ranking[1, 0]  # no edge
    # Asymmetric: the first drives the second.
    assert found.graph[0, 1].any() and not found.graph[1, 0].any()


@pytest.mark.parametrize("n", (12, 20))
def test_of_a_short_record_nothing_is_explained_where_nothing_can_be_held_out(n):
    x = np.random.default_rng(n).normal(size=(n, 3)).cumsum(axis=0)
    x[3, 0] = np.nan
    recipe = ndde.Recipe.fast()
    found = ndde.discover(x, dt=1.0, lags=(0, 1), recipe=recipe, key=jax.random.key(0))
    assert np.isfinite(found.held_out).all() and (found.held_out > 0).all()
    if n == 12:
        np.testing.assert_allclose(found.held_out, 1.0, atol=0.05)


def test_no_strength_is_more_than_the_whole_of_a_rate():
    """Chaotic maps: without its own state, a rate is predicted worse than by its mean."""
    x = np.full((300, 2), 0.3)
    for k in range(299):
        x[k + 1, 0] = 3.8 * x[k, 0] * (1 - x[k, 0])
        x[k + 1, 1] = x[k, 1] * (3.5 - 3.5 * x[k, 1] - 0.1 * x[k, 0])
    recipe = ndde.Recipe.fast()
    found = ndde.discover(x, dt=1.0, lags=(0, 1), recipe=recipe, key=jax.random.key(0))
    assert found.scores.max() <= 1 and found.lower.max() <= 1 and found.source_scores.max() <= 1


def test_a_variable_that_others_determine_is_named_in_the_report(found):
    x = found.samples.values[0]
    three = np.column_stack([x, x[:, 0] ** 2 + 3 * x[:, 1]])
    recipe = ndde.Recipe.fast()
    derived = ndde.discover(three, dt=1.0, lags=(0, 1), recipe=recipe, key=jax.random.key(0))
    assert derived.static[2] and not derived.static[0]
    assert "derived variable" in [finding.name for finding in derived.findings]
    assert "functions of the present states of other variables" in " ".join(
        derived.report().split()
    )
    assert "derived variable" not in found.report()


def test_a_record_in_which_every_sample_misses_something_is_read():
    """Short gaps are filled before windows are cut."""
    rng, x = np.random.default_rng(0), np.zeros((400, 6))
    for k in range(399):
        x[k + 1] = 0.9 * x[k] + rng.normal(size=6)
    x[np.arange(400), rng.integers(6, size=400)] = np.nan
    with pytest.raises(ValueError, match="every sample has a missing value"):
        ndde.lagged_windows(x, dt=1.0)
    recipe = ndde.Recipe.fast()
    found = ndde.discover(x, dt=1.0, lags=(0,), recipe=recipe, key=jax.random.key(0))
    assert found.graph[np.arange(6), np.arange(6), 0].all()
