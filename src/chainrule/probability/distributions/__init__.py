"""Distributions: with fixed parameters, and of one entry with parameters that a network gives (`outputs`)."""

from chainrule.probability.distributions.gaussian_mixture import GaussianMixture

__all__ = ["GaussianMixture"]
