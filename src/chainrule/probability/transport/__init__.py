"""Optimal transport between sets of points."""

from chainrule.probability.transport.one_dimensional import wasserstein_1d
from chainrule.probability.transport.sinkhorn import (
    Divergence,
    TransportPlan,
    entropic,
    entropic_to_itself,
    sinkhorn_divergence,
    usual_epsilon,
)
from chainrule.probability.transport.sliced import sliced_wasserstein

__all__ = [
    "Divergence",
    "TransportPlan",
    "entropic",
    "entropic_to_itself",
    "sinkhorn_divergence",
    "sliced_wasserstein",
    "usual_epsilon",
    "wasserstein_1d",
]
