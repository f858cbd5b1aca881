"""Variational inference: bounds of the evidence, estimators of their gradients, and cases with exact answers."""

from chainrule.probability.variational import exponential
from chainrule.probability.variational.elbo import ElboReport, Guide, NatsEstimate, elbo_report
from chainrule.probability.variational.evidence import Evidence, exact_evidence
from chainrule.probability.variational.importance_weighted import (
    EvidenceEstimate,
    chunked_log_weights,
    doubly_reparametrized_bound,
    estimate_evidence,
    importance_bound,
)

__all__ = [
    "ElboReport",
    "Evidence",
    "EvidenceEstimate",
    "Guide",
    "NatsEstimate",
    "chunked_log_weights",
    "doubly_reparametrized_bound",
    "elbo_report",
    "estimate_evidence",
    "exact_evidence",
    "exponential",
    "importance_bound",
]
