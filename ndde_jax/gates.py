"""Hard-concrete gates: samples, open probability, expected L0, test-time gate, hard mask."""

from .fit._gates import (
    HardConcrete as HardConcrete,
    deterministic_gate as deterministic_gate,
    expected_l0 as expected_l0,
    hard_mask as hard_mask,
    logistic_noise as logistic_noise,
    open_probability as open_probability,
    sample_gate as sample_gate,
)
