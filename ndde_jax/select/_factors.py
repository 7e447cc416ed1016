"""Least squares from inner products, and orthogonal columns, by LAPACK's own calls where NumPy's
checks, copies and general inverses would take several times as long.
"""

import numpy as np
from jaxtyping import Float

# Columns up to which all models of a size are inverted in one call.
FEW = 16


def solved(
    ridged: Float[np.ndarray, "model column column"],
    inner: Float[np.ndarray, "model column 1"],
    ridge: float,
) -> Float[np.ndarray, "model column 1"]:
    """Solutions of positive definite systems, refined once, which removes what the ridge did; for
    models that are compared.
    """
    if ridged.shape[1] <= FEW:
        return solved_by_inverse(ridged, inner, ridge)
    from scipy.linalg.lapack import dpotrf, dpotrs  # takes a moment to import

    found = np.empty_like(inner)
    for out, matrix, right in zip(found, ridged, inner, strict=True):
        # Symmetric, so that its transpose has the order of columns that LAPACK wants.
        factor, failed = dpotrf(matrix.T, clean=0)
        if failed:
            return solved_by_inverse(ridged, inner, ridge)
        c, _ = dpotrs(factor, right)
        more, _ = dpotrs(factor, right - matrix @ c + ridge * c)
        out[:] = c + more
    return found


def solved_by_inverse(
    ridged: Float[np.ndarray, "model column column"],
    inner: Float[np.ndarray, "model column 1"],
    ridge: float,
) -> Float[np.ndarray, "model column 1"]:
    """The same, for the model that is kept: its coefficients decide on windows in single precision
    and on networks, which amplify a last digit, so that they stay what they have always been.
    """
    inverse = np.linalg.inv(ridged)
    c = inverse @ inner
    return c + inverse @ (inner - ridged @ c + ridge * c)


def root_solved(matrix: Float[np.ndarray, "column column"], right: Float[np.ndarray, "column _"]):
    """W with WᵀW = `right`ᵀ `matrix`⁻¹ `right`, of a positive definite matrix."""
    from scipy.linalg.lapack import dpotrf, dtrtrs

    factor, failed = dpotrf(matrix, lower=1)
    if failed:  # rounding has made an eigenvalue negative
        value, vector = np.linalg.eigh(matrix)
        return vector.T @ right / np.sqrt(np.maximum(value, value.max() * 1e-15))[:, None]
    return dtrtrs(factor, right, lower=1)[0]


def orthogonal(columns: Float[np.ndarray, "row column"]):
    """Orthonormal columns that span the same, and the triangle that makes those of these."""
    count = columns.shape[1]
    if len(columns) < count or not count:
        return np.linalg.qr(columns)
    from scipy.linalg.lapack import dgeqrf, dorgqr

    packed, size, *_ = dgeqrf(columns)
    triangle = np.triu(packed[:count])
    return dorgqr(packed, size, overwrite_a=1)[0], triangle
