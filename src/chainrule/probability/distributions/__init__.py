"""Distributions: with fixed parameters, and of one entry with parameters that a network gives (`outputs`)."""

from chainrule.probability.distributions.base import Distribution
from chainrule.probability.distributions.bernoulli import Bernoulli
from chainrule.probability.distributions.categorical import Categorical
from chainrule.probability.distributions.counts import BetaBinomial, Binomial, Poisson
from chainrule.probability.distributions.covariances import Diagonal, Eigen, Full, LowRank
from chainrule.probability.distributions.dirichlet import Dirichlet
from chainrule.probability.distributions.discretized import Discretized
from chainrule.probability.distributions.gaussian_mixture import GaussianMixture
from chainrule.probability.distributions.independent import Independent
from chainrule.probability.distributions.interval import Beta, Uniform
from chainrule.probability.distributions.line import Laplace, Logistic, StudentT
from chainrule.probability.distributions.mixture import Mixture
from chainrule.probability.distributions.multivariate_normal import MultivariateNormal
from chainrule.probability.distributions.normal import Normal
from chainrule.probability.distributions.points import Dirac, Empirical
from chainrule.probability.distributions.positive import Exponential, Gamma
from chainrule.probability.distributions.transformed import Transformed, pushforward

__all__ = [
    "Bernoulli",
    "Beta",
    "BetaBinomial",
    "Binomial",
    "Categorical",
    "Diagonal",
    "Dirac",
    "Dirichlet",
    "Discretized",
    "Distribution",
    "Eigen",
    "Empirical",
    "Exponential",
    "Full",
    "Gamma",
    "GaussianMixture",
    "Independent",
    "Laplace",
    "Logistic",
    "LowRank",
    "Mixture",
    "MultivariateNormal",
    "Normal",
    "Poisson",
    "StudentT",
    "Transformed",
    "Uniform",
    "pushforward",
]
