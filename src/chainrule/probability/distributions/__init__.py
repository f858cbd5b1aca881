"""Distributions: with fixed parameters, and of one entry with parameters that a network gives (`outputs`)."""

from chainrule.probability.distributions.base import Distribution
from chainrule.probability.distributions.bernoulli import Bernoulli
from chainrule.probability.distributions.categorical import Categorical
from chainrule.probability.distributions.covariances import Diagonal, Eigen, Full, LowRank
from chainrule.probability.distributions.gaussian_mixture import GaussianMixture
from chainrule.probability.distributions.mixture import Mixture
from chainrule.probability.distributions.multivariate_normal import MultivariateNormal
from chainrule.probability.distributions.normal import Normal

__all__ = [
    "Bernoulli",
    "Categorical",
    "Diagonal",
    "Distribution",
    "Eigen",
    "Full",
    "GaussianMixture",
    "LowRank",
    "Mixture",
    "MultivariateNormal",
    "Normal",
]
