"""One discovery for all tests, so that its simulator compiles once."""

import pytest


@pytest.fixture(scope="session")
def found():
    # Not above: JAX would begin before the flags of the tests are set where this folder is named.
    from .small import linear

    return linear()
