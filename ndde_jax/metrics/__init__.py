"""Scores of recovered graphs, forecasts and attractors against the truth."""

from ._attractor import (
    log_spectral_distance as log_spectral_distance,
    state_space_divergence as state_space_divergence,
)
from ._forecast import (
    bounded as bounded,
    crps as crps,
    energy_score as energy_score,
    interval_coverage as interval_coverage,
    nrmse as nrmse,
    valid_prediction_time as valid_prediction_time,
)
from ._graph import (
    auprc as auprc,
    auroc as auroc,
    f1_score as f1_score,
    precision as precision,
    recall as recall,
    structural_hamming_distance as structural_hamming_distance,
)
