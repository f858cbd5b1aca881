"""Bounds that hold for every change within a radius: of logits by intervals, of slopes by Lipschitz constants."""

from chainrule.explain.methods.bounds.intervals import interval_bounds, interval_certified
from chainrule.explain.methods.bounds.lipschitz import lipschitz_bound, lipschitz_radius

__all__ = ["interval_bounds", "interval_certified", "lipschitz_bound", "lipschitz_radius"]
