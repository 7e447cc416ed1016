"""Measured samples: example records and treatments.

Reading and preparing are at the top: [`read_samples`][ndde_jax.read_samples],
[`load_example`][ndde_jax.load_example], [`prepare_samples`][ndde_jax.prepare_samples].
"""

from ._examples import Example as Example, KnownLink as KnownLink, example_names as example_names
from ._treatments import Treatment as Treatment
