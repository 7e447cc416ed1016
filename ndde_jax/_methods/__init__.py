"""Methods: leaves of one interface that differ only in how they choose inputs."""

from ._base import AbstractMethod as AbstractMethod
from ._l0 import L0NDDE as L0NDDE
