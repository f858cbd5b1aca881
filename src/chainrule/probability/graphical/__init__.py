"""Directed graphical models, small enough to solve exactly."""

from chainrule.probability.graphical.model import DirectedModel, latent_variable, two_latent_variables
from chainrule.probability.graphical.nodes import FiniteNode, LinearGaussianNode
from chainrule.probability.graphical.separation import Separation

__all__ = [
    "DirectedModel",
    "FiniteNode",
    "LinearGaussianNode",
    "Separation",
    "latent_variable",
    "two_latent_variables",
]
