"""Probability: distances between distributions, transport between sets of points."""

from chainrule.probability import divergences, transport

__all__ = ["divergences", "transport"]
