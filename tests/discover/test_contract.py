"""The names that programs of others call: they exist, and stay."""

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
    # Asymmetric: the first drives the second.
    assert found.graph[0, 1].any() and not found.graph[1, 0].any()
