"""The methods: implementations of one interface that differ only in how they choose inputs."""

from ._agl import AGL as AGL
from ._base import AbstractMethod as AbstractMethod, check_method as check_method
from ._cnode import CNODE as CNODE
from ._l0 import L0NDDE as L0NDDE
from ._node import NODE as NODE
from ._pathreg import PathReg as PathReg
