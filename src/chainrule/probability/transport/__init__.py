"""Optimal transport between sets of points."""

from chainrule.probability.transport.costs import cost_matrix
from chainrule.probability.transport.duality import (
    Bounds,
    bounds,
    c_transform,
    lipschitz_constant,
    rounded,
    slack,
)
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
    "Bounds",
    "Divergence",
    "TransportPlan",
    "bounds",
    "c_transform",
    "cost_matrix",
    "entropic",
    "entropic_to_itself",
    "lipschitz_constant",
    "rounded",
    "sinkhorn_divergence",
    "slack",
    "sliced_wasserstein",
    "usual_epsilon",
    "wasserstein_1d",
]
