"""Directed graphical models, small enough to solve exactly."""

from chainrule.probability.graphical.model import DirectedModel, latent_variable, two_latent_variables
from chainrule.probability.graphical.nodes import FiniteNode, LinearGaussianNode
from chainrule.probability.graphical.separation import DSeparation

__all__ = [
    "DSeparation",
    "DirectedModel",
    "FiniteNode",
    "LinearGaussianNode",
    "latent_variable",
    "two_latent_variables",
]
