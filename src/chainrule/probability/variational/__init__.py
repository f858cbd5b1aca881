"""Variational inference: bounds of the evidence, estimators of their gradients, and cases with exact answers."""

from chainrule.probability.variational import exponential
from chainrule.probability.variational.comparison import (
    EstimatorComparison,
    EstimatorRow,
    compare_estimators,
    exact_gradient,
)
from chainrule.probability.variational.elbo import ElboReport, Guide, NatsEstimate, elbo_report
from chainrule.probability.variational.estimators import (
    GaussianIdentities,
    GradientEstimator,
    GumbelSoftmax,
    Pathwise,
    PathwiseAnalytic,
    PlainMonteCarlo,
    ScoreFunction,
    StraightThrough,
)
from chainrule.probability.variational.evidence import Evidence, exact_evidence
from chainrule.probability.variational.importance_weighted import (
    EvidenceEstimate,
    annealed_evidence,
    chunked_log_weights,
    doubly_reparametrized_bound,
    estimate_evidence,
    importance_bound,
)
from chainrule.probability.variational.problems import ElboProblem, ExpectationProblem, GuidedMean

__all__ = [
    "ElboProblem",
    "ElboReport",
    "EstimatorComparison",
    "EstimatorRow",
    "Evidence",
    "EvidenceEstimate",
    "ExpectationProblem",
    "GaussianIdentities",
    "GradientEstimator",
    "Guide",
    "GuidedMean",
    "GumbelSoftmax",
    "NatsEstimate",
    "Pathwise",
    "PathwiseAnalytic",
    "PlainMonteCarlo",
    "ScoreFunction",
    "StraightThrough",
    "annealed_evidence",
    "chunked_log_weights",
    "compare_estimators",
    "doubly_reparametrized_bound",
    "elbo_report",
    "estimate_evidence",
    "exact_evidence",
    "exact_gradient",
    "exponential",
    "importance_bound",
]
