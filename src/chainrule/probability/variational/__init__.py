"""Variational inference: bounds of the evidence, estimators of their gradients, and cases with exact answers."""

from chainrule.probability.variational.importance_weighted import (
    EvidenceEstimate,
    chunked_log_weights,
    doubly_reparametrized_bound,
    estimate_evidence,
    importance_bound,
)

__all__ = [
    "EvidenceEstimate",
    "chunked_log_weights",
    "doubly_reparametrized_bound",
    "estimate_evidence",
    "importance_bound",
]
