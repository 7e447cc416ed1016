"""One discovery for all tests, so that its simulator compiles once."""

import pytest


@pytest.fixture(scope="session")
def found():
    # Not above: JAX would start before the flags of the tests are set when this folder is given.
    from .small import linear

    return linear()
