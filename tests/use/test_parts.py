"""The closed forms behind an ensemble, against least squares by rows and all subsets."""

import itertools
import math
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

from ndde_jax.regression._design import design_of
from ndde_jax.use import _ensemble
from ndde_jax.use._arguments import read_span, variable
from ndde_jax.use._ensemble import Equations, estimate_noise, make_basis, relative_amplitude


def design(n=300, seed=0):
    rng = np.random.default_rng(seed)
    histories = rng.normal(size=(n, 2, 2)) + np.array([0.0, 5.0])
    basis = make_basis(histories, np.array([0, 1, 3]), np.array([[1, 0], [2, 1]]))
    return histories, basis, basis(histories)


def test_columns_span_the_same_functions_as_the_search():
    histories, basis, found = design()
    needs, kind = basis.needs, basis.kind
    own = found[:, np.flatnonzero((needs[:, 0] == 1) & (kind < 2))]
    other = design_of(np.asarray(histories)[:, 0, 1:2], np.ones(len(histories))).features[:, 0]
    other = np.column_stack([np.ones(len(other)), other])
    fitted = other @ np.linalg.lstsq(other, own, rcond=None)[0]
    np.testing.assert_allclose(fitted, own, atol=1e-3 * np.ptp(own))


def test_columns_in_jax_are_those_in_numpy_and_hold_far_inputs():
    histories, basis, found = design()
    np.testing.assert_allclose(basis(jnp.asarray(histories)), found, rtol=1e-9, atol=1e-12)
    far = np.full((1, 2, 2), 1e9)
    np.testing.assert_allclose(basis(far), basis(2 * far))


def test_families_name_the_inputs_of_every_column():
    histories, basis, found = design()
    needs, kind = basis.needs, basis.kind
    flat = histories.reshape(len(histories), -1)
    for slot, index in enumerate((0, 1, 3)):
        other = flat.copy()
        other[:, index] += 0.3
        moved = basis(other.reshape(histories.shape))
        changed = np.any(np.abs(moved - found) > 1e-9, axis=0)
        np.testing.assert_array_equal(changed, (needs == slot).any(axis=1))
    assert list(np.bincount(kind)) == [4, 15, 2]


def test_sums_of_blocks_solve_as_rows_do():
    _, _, found = design()
    rng = np.random.default_rng(1)
    output, weight = rng.normal(size=300), rng.uniform(0.5, 2, 300)
    half = np.arange(10) % 3 == 0
    rows, used = np.repeat(half, 30), np.array([0, 1, 2, 5, 9])
    (got,), (left,) = Equations.of(found, output, weight, half[None]).solve(used)
    root = np.sqrt(weight[rows])[:, None]
    matrix, target = root * found[rows][:, used], root[:, 0] * output[rows]
    expected, *_ = np.linalg.lstsq(matrix, target, rcond=None)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)
    assert left == pytest.approx(np.sum((target - matrix @ expected) ** 2), rel=1e-6)


def test_halves_are_complements():
    halves = _ensemble.draw_halves(10, 6, np.random.default_rng(0))
    assert (halves.sum(axis=1) == 5).all()
    np.testing.assert_array_equal(halves[::2], ~halves[1::2])


def test_the_choice_of_inputs_is_the_best_of_all_subsets():
    histories, basis, found = design()
    z = histories.reshape(len(histories), -1)[:, [0, 1, 3]]
    rng = np.random.default_rng(2)
    output = np.sin(2 * z[:, 0]) * 0.5 + 0.3 * z[:, 1] + 0.3 * rng.normal(size=300)

    def cost(mask):
        best = []
        for family in range(3):
            use = _ensemble.used_columns(basis, mask, family)
            fit = found[:, use] @ np.linalg.lstsq(found[:, use], output, rcond=None)[0]
            risk = np.sum((output - fit) ** 2) / np.sum((output - output.mean()) ** 2)
            best.append(300 * math.log(risk + 1e-4) + len(use) * math.log(300))
        return min(best) + 2 * math.log(math.comb(4, int(mask.sum())))

    subsets = [np.array(m) for m in itertools.product([False, True], repeat=3)]
    expected = min(subsets, key=cost)
    for start in subsets:
        got = _ensemble.choose(
            Equations.of(found, output), basis, start,
            fixed=np.zeros(3, bool), swaps=[(1, 0)], n_candidates=4,
        )  # fmt: skip
        np.testing.assert_array_equal(got, expected[None])
    np.testing.assert_array_equal(expected, [True, True, False])


def test_halves_choose_together_as_each_would_alone():
    histories, basis, found = design()
    z = histories.reshape(len(histories), -1)[:, [0, 1, 3]]
    rng = np.random.default_rng(3)
    output = 0.3 * z[:, 0] * z[:, 1] + 0.2 * z[:, 2] + rng.normal(size=300)
    halves = _ensemble.draw_halves(10, 12, rng)
    halves[-1] = np.arange(10) == 0  # too few rows for any but the smallest models
    options = dict(fixed=np.zeros(3, bool), swaps=[(1, 0)], n_candidates=4)
    start = np.array([True, False, False])
    together = _ensemble.choose(Equations.of(found, output, halves=halves), basis, start, **options)
    alone = [
        _ensemble.choose(Equations.of(found, output, halves=h[None]), basis, start, **options)
        for h in halves
    ]
    alone = np.concatenate(alone)
    np.testing.assert_array_equal(together, alone)
    assert len(np.unique(together, axis=0)) > 1


# ---- noise ----


def test_noise_and_measurement_error_are_told_apart():
    rng, n = np.random.default_rng(0), 4000
    factor = np.array([[0.3, 0.0], [0.1, 0.2]])
    error = np.array([0.25, 0.0])
    states = np.cumsum(rng.normal(size=(n + 1, 2)) @ factor.T, axis=0)
    seen = states + error * rng.normal(size=states.shape)
    noise = estimate_noise(np.diff(seen, axis=0), np.zeros((n, 2)), np.arange(n), np.zeros(2))
    np.testing.assert_allclose(noise.error, error, rtol=0.1)
    np.testing.assert_allclose(noise.covariance, factor @ factor.T, atol=0.012)
    np.testing.assert_allclose(np.cov(noise.draws.T), np.eye(2), atol=0.02)
    np.testing.assert_array_equal(noise.memory, 0)


def test_residuals_that_are_corrected_for_parameters_are_larger():
    rng = np.random.default_rng(0)
    given = (rng.normal(size=(200, 1)), rng.normal(size=(200, 1)), np.arange(200))
    plain = estimate_noise(*given, np.array([0]))
    corrected = estimate_noise(*given, np.array([50]))
    assert corrected.covariance[0, 0] / plain.covariance[0, 0] == pytest.approx(200 / 150)


def test_an_amplitude_that_follows_the_state_is_found_and_none_is_invented():
    rng = np.random.default_rng(1)
    z, white = rng.normal(size=(3000, 2)), rng.normal(size=(3000, 2))
    residual = white * np.stack([np.sqrt(0.4 + 0.6 * z[:, 0] ** 2), np.ones(3000)], axis=1)
    noise = estimate_noise(residual, z, np.arange(3000), np.zeros(2))
    np.testing.assert_allclose(noise.amplitude[1], [1, 0, 0])
    at = np.array([[0.0, 0.0], [1.5, 0.0]])
    got = relative_amplitude(noise.amplitude, at)
    assert got[1, 0] / got[0, 0] == pytest.approx(np.sqrt(1.75 / 0.4), rel=0.2)


def test_residuals_that_remember_are_noticed():
    rng, r = np.random.default_rng(0), np.zeros((2000, 1))
    for k in range(1, 2000):
        r[k] = 0.4 * r[k - 1] + rng.normal()
    noise = estimate_noise(r, np.zeros((2000, 1)), np.arange(2000), np.zeros(1))
    assert noise.memory[0] == pytest.approx(0.4, abs=0.08)


# ---- words ----

READ = SimpleNamespace(labels=("a", "log b"))
FOUND = SimpleNamespace(names=("a", "b"), dt=0.5, time_unit="hour", samples=READ)


@pytest.mark.parametrize(
    ("text", "samples"), [(7, 7), ("7", 7), ("6h", 12), ("1 day", 48), ("30min", 1), ("2hours", 4)]
)
def test_spans_in_samples_and_in_time(text, samples):
    assert read_span(text, FOUND, "horizon") == samples


@pytest.mark.parametrize("text", ["6 parsec", "x", "", "20min", "0h", -1, 0, 1.5, None, "-3h"])
def test_spans_that_cannot_be_read_are_refused(text):
    with pytest.raises(ValueError, match="horizon"):
        read_span(text, FOUND, "horizon")


def test_units_need_one_of_the_data():
    with pytest.raises(ValueError, match="without a unit"):
        read_span("6h", SimpleNamespace(names=("a",), dt=1.0, time_unit=""), "horizon")


def test_variables_by_name_and_index():
    assert variable("b", FOUND, "x") == variable(1, FOUND, "x") == variable(-1, FOUND, "x") == 1
    assert variable("log b", FOUND, "x") == 1
    for wrong in ("c", "log a", 2, True, 0.0, None):
        with pytest.raises(ValueError, match="x must be one of a, b"):
            variable(wrong, FOUND, "x")
