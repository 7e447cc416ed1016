"""One discovery for all tests, so that its simulator compiles once."""

import pytest

from .small import linear


@pytest.fixture(scope="session")
def found():
    return linear()
