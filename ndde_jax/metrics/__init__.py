"""Scores of recovered graphs against the truth."""

from ._graph import (
    auprc as auprc,
    auroc as auroc,
    f1_score as f1_score,
    precision as precision,
    recall as recall,
    structural_hamming_distance as structural_hamming_distance,
)
