"""Windows of a pair of variables."""

import pytest

import ndde_jax as ndde

from .small import delayed_pair


@pytest.fixture(scope="session")
def pair():
    """Windows with an exact Euler target: lags 0, 3, 6, 9 samples, of which 0 and 6 are true."""
    return ndde.lagged_windows(delayed_pair(), dt=0.1, lags=(0, 3, 6, 9))
