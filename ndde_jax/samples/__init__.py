"""Measured samples: example records, treatments, and estimates of the noise in the samples.

Reading and preparing are at the top: [`read_samples`][ndde_jax.read_samples],
[`load_example`][ndde_jax.load_example], [`prepare_samples`][ndde_jax.prepare_samples].
"""

from ._examples import Example as Example, KnownLink as KnownLink, example_names as example_names
from ._noise import (
    end_ringing as end_ringing,
    high_frequency_roll_off as high_frequency_roll_off,
    noise_autocorrelation as noise_autocorrelation,
    noise_share as noise_share,
)
from ._treatments import Treatment as Treatment
