"""Hard-concrete gates: sample, open probability, expected L0, test-time gate, hard mask."""

from .fit._gates import (
    HardConcrete as HardConcrete,
    deterministic_gate as deterministic_gate,
    expected_l0 as expected_l0,
    gate_from_noise as gate_from_noise,
    hard_mask as hard_mask,
    logistic_noise as logistic_noise,
    open_probability as open_probability,
    sample_gate as sample_gate,
)
