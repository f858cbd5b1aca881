"""Empirical neural tangent kernels of any network, what its layers add to them, and networks linearised."""

from chainrule.kernels.empirical.linearization import TaylorModel, expansion, linearize
from chainrule.kernels.empirical.ntk import empirical_ntk, layer_shares, ntk_by_layer, ntk_plan, ntk_product
from chainrule.kernels.empirical.planning import KernelPlan, RouteCost

__all__ = [
    "KernelPlan",
    "RouteCost",
    "TaylorModel",
    "empirical_ntk",
    "expansion",
    "layer_shares",
    "linearize",
    "ntk_by_layer",
    "ntk_plan",
    "ntk_product",
]
