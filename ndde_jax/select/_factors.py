"""Factors of many small matrices, by LAPACK's own calls: NumPy's checks and copies would take as
long as the factors.
"""

import numpy as np
from jaxtyping import Float

# Columns up to which all models of a size are inverted in one call.
FEW = 16


def solved_twice(
    ridged: Float[np.ndarray, "model column column"],
    inner: Float[np.ndarray, "model column"],
    ridge: float,
) -> Float[np.ndarray, "model column"]:
    """Solutions of positive definite systems, once more, which removes what the ridge did."""
    if ridged.shape[1] <= FEW:
        inverse = np.linalg.inv(ridged)
        c = inverse @ inner[..., None]
        return (c + inverse @ (inner[..., None] - ridged @ c + ridge * c))[..., 0]
    from scipy.linalg.lapack import dpotrf, dpotrs  # takes a moment to import

    solved = np.empty_like(inner)
    for out, matrix, right in zip(solved, ridged, inner, strict=True):
        # Symmetric, so that its transpose has the order of columns that LAPACK wants.
        factor, failed = dpotrf(matrix.T, clean=0)
        if failed:
            c = np.linalg.solve(matrix, right)
            out[:] = c + np.linalg.solve(matrix, right - matrix @ c + ridge * c)
            continue
        c, _ = dpotrs(factor, right)
        more, _ = dpotrs(factor, right - matrix @ c + ridge * c)
        out[:] = c + more
    return solved


def inverted(matrix: Float[np.ndarray, "column column"]) -> Float[np.ndarray, "column column"]:
    """The inverse of a positive definite matrix."""
    if len(matrix) <= FEW:
        return np.linalg.inv(matrix)
    from scipy.linalg.lapack import dpotrf, dpotri

    factor, failed = dpotrf(matrix.T)
    if failed:
        return np.linalg.inv(matrix)
    inverse, _ = dpotri(factor, overwrite_c=1)
    # One triangle, the other one being zero.
    return inverse + np.triu(inverse, 1).T


def orthogonal(columns: Float[np.ndarray, "row column"]):
    """Orthonormal columns that span the same, and the triangle that makes those of these."""
    from scipy.linalg.lapack import dgeqrf, dorgqr

    count = columns.shape[1]
    if len(columns) < count or not count:
        return np.linalg.qr(columns)
    packed, size, *_ = dgeqrf(columns)
    triangle = np.triu(packed[:count])
    return dorgqr(packed, size, overwrite_a=1)[0], triangle
