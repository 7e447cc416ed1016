"""What was measured: tables, containers, time stamps, gaps, and the noise they carry."""

from ._reading import read_samples as read_samples
from ._samples import Samples as Samples
