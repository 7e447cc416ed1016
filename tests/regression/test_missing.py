"""The normal distribution of columns with missing values, against closed forms."""

import numpy as np

from ndde_jax import regression


def test_a_column_that_misses_values_alone_has_the_closed_form_of_anderson():
    """T. W. Anderson, Journal of the American Statistical Association 52 (1957), 200."""
    rng = np.random.default_rng(0)
    n, some = 4000, slice(1500, None)
    first = rng.normal(size=n)
    second = 0.8 * first + 0.6 * rng.normal(size=n)
    x = np.stack([first, second], axis=1)
    x[:1500, 1] = np.nan
    found = regression.fit_normal(x)

    slope = np.cov(first[some], second[some], bias=True)[0, 1] / first[some].var()
    left = (second[some] - second[some].mean() - slope * (first[some] - first[some].mean())).var()
    mean = second[some].mean() + slope * (first.mean() - first[some].mean())
    expected = [
        [first.var(), slope * first.var()],
        [slope * first.var(), left + slope**2 * first.var()],
    ]
    np.testing.assert_allclose(found.covariance, expected, atol=3e-3)
    np.testing.assert_allclose(found.mean, [first.mean(), mean], atol=3e-3)
    told = mean + slope * (first[:1500] - first.mean())
    np.testing.assert_allclose(found.values[:1500, 1], told, atol=1e-2)


def test_complete_rows_have_the_covariance_of_sums():
    x = np.random.default_rng(1).normal(size=(500, 4)) @ np.random.default_rng(2).normal(
        size=(4, 4)
    )
    found = regression.fit_normal(x)
    expected = (500 * np.cov(x.T, bias=True) + np.eye(4)) / 501  # and one row of its own
    np.testing.assert_allclose(found.covariance, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(found.values, x)


def test_the_covariance_is_positive_definite_where_that_of_pairs_is_not():
    rng = np.random.default_rng(3)
    x = np.full((90, 3), np.nan)
    # Each pair in its own rows, and their signs cannot all be true.
    for k, (i, j, sign) in enumerate(((0, 1, 1), (1, 2, 1), (0, 2, -1))):
        value = rng.normal(size=30)
        x[30 * k : 30 * k + 30, i] = value
        x[30 * k : 30 * k + 30, j] = sign * value + 0.1 * rng.normal(size=30)
    pairs = np.ma.cov(np.ma.masked_invalid(x), rowvar=False).filled()
    assert np.linalg.eigvalsh(pairs).min() < 0
    assert np.linalg.eigvalsh(regression.fit_normal(x).covariance).min() > 0
