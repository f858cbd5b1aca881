"""Optimal transport between sets of points."""

from chainrule.probability.transport.sinkhorn import (
    Divergence,
    Plan,
    entropic,
    entropic_to_itself,
    sinkhorn_divergence,
)

__all__ = ["Divergence", "Plan", "entropic", "entropic_to_itself", "sinkhorn_divergence"]
