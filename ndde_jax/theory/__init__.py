"""The paper's theorems as functions: constants, bounds, and what can be measured."""

from ._dissipativity import (
    Dissipativity as Dissipativity,
    Moments as Moments,
    SegmentMoments as SegmentMoments,
    dissipativity as dissipativity,
    halanay_rate as halanay_rate,
    linear_dissipativity as linear_dissipativity,
    moments as moments,
    segment_moments as segment_moments,
)
from ._recovery import (
    FiniteSampleBound as FiniteSampleBound,
    PaperStrengths as PaperStrengths,
    drift_modulus as drift_modulus,
    finite_sample_terms as finite_sample_terms,
    mixing_bound as mixing_bound,
    occupation_bound as occupation_bound,
    paper_strengths as paper_strengths,
    penalty_window as penalty_window,
    recovery_margin as recovery_margin,
    truncation_radius as truncation_radius,
)
from ._transfer import (
    TransferCurve as TransferCurve,
    invariant_law_bound as invariant_law_bound,
    transfer_curve as transfer_curve,
    transferred as transferred,
)
