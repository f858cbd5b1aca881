"""Probability: distances between distributions."""

from chainrule.probability import divergences

__all__ = ["divergences"]
