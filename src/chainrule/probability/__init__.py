"""Probability: distributions, divergences, Markov chains, optimal transport, Monte Carlo."""

from chainrule.probability import (
    distributions,
    divergences,
    gaussian,
    markov,
    monte_carlo,
    transport,
    variational,
)
from chainrule.probability.distributions import (
    Bernoulli,
    Categorical,
    Diagonal,
    Distribution,
    Eigen,
    Full,
    LowRank,
    Mixture,
    MultivariateNormal,
    Normal,
)
from chainrule.probability.kullback_leibler import KLEstimate, estimate_kl, kl
from chainrule.probability.markov import HiddenMarkov

__all__ = [
    "Bernoulli",
    "Categorical",
    "Diagonal",
    "Distribution",
    "Eigen",
    "Full",
    "HiddenMarkov",
    "KLEstimate",
    "LowRank",
    "Mixture",
    "MultivariateNormal",
    "Normal",
    "distributions",
    "divergences",
    "estimate_kl",
    "gaussian",
    "kl",
    "markov",
    "monte_carlo",
    "transport",
    "variational",
]
