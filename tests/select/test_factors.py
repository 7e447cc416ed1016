"""Least squares by LAPACK's own calls, against NumPy's."""

import numpy as np
import pytest

from ndde_jax.select._factors import orthogonal, root_solved, solved, solved_by_inverse

RIDGE = 1e-5


def systems(size, count=3):
    """Inner products of nearly collinear columns, and with a target."""
    rng = np.random.default_rng(size)
    x = rng.normal(size=(count, 200, size)) + 3 * rng.normal(size=(count, 200, 1))
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    y = rng.normal(size=(count, 200, 1))
    gram = np.swapaxes(x, 1, 2) @ x
    return x, y, gram + RIDGE * np.eye(size), np.swapaxes(x, 1, 2) @ y


@pytest.mark.parametrize("size", [1, 16, 17, 40])
def test_least_squares_without_the_ridge(size):
    x, y, ridged, inner = systems(size)
    expected = np.stack([np.linalg.lstsq(a, b, rcond=None)[0] for a, b in zip(x, y, strict=True)])
    for solve in (solved, solved_by_inverse):
        np.testing.assert_allclose(solve(ridged, inner, RIDGE), expected, rtol=0, atol=1e-5)
    by_factor, by_inverse = solved(ridged, inner, RIDGE), solved_by_inverse(ridged, inner, RIDGE)
    np.testing.assert_allclose(by_factor, by_inverse, rtol=0, atol=1e-11)


def test_a_matrix_that_is_not_positive_has_a_solution_all_the_same():
    _, _, ridged, inner = systems(20)
    ridged[1] -= 2 * np.eye(20)
    np.testing.assert_array_equal(
        solved(ridged, inner, RIDGE), solved_by_inverse(ridged, inner, RIDGE)
    )


def test_roots_of_what_is_explained():
    _, _, ridged, inner = systems(20)
    right = np.concatenate([ridged[1], inner[0]], axis=1)
    root = root_solved(ridged[0], right)
    expected = right.T @ np.linalg.solve(ridged[0], right)
    np.testing.assert_allclose(root.T @ root, expected, rtol=1e-9)
    # Where rounding takes the least eigenvalue below zero, the rest still counts.
    value, vector = np.linalg.eigh(ridged[0])
    broken = (vector * np.where(np.arange(20) > 0, value, -1e-17)) @ vector.T
    kept = vector[:, 1:].T @ right
    root = root_solved(broken, vector[:, 1:] @ kept)
    expected = kept.T @ (kept / value[1:, None])
    np.testing.assert_allclose(root.T @ root, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("shape", [(50, 6), (50, 0), (3, 6)])
def test_orthogonal_columns(shape):
    columns = np.random.default_rng(0).normal(size=shape)
    basis, triangle = orthogonal(columns)
    np.testing.assert_allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=1e-12)
    np.testing.assert_allclose(basis @ triangle, columns, atol=1e-12)
    np.testing.assert_array_equal(triangle, np.triu(triangle))
