"""The methods: implementations of one interface that differ only in how they choose inputs."""

from ._base import AbstractMethod as AbstractMethod, check_method as check_method
from ._methods import AGL as AGL, CNODE as CNODE, L0NDDE as L0NDDE, NODE as NODE, PathReg as PathReg
