"""Distributions of single numbers whose parameters are the outputs of a network.

A network gives a few numbers for each entry; an output distribution turns them into a log-density, a draw and a mean.
Entries come scaled as the data are, so levels lie evenly between 0 and 1. A probability of levels is stated as a
density, divided by the distance between two of them: one formula then gives bits per dimension for every model, and for
zeros and ones density and probability are the same.
"""

from chainrule.probability.distributions.outputs.base import (
    EntryRange,
    OutputDistribution,
    ProbableLevels,
    tempered,
)
from chainrule.probability.distributions.outputs.bernoulli import BernoulliOutput, ContinuousBernoulliOutput
from chainrule.probability.distributions.outputs.dequantization import dequantized, log_cell_ratio, quantized
from chainrule.probability.distributions.outputs.gaussian import GaussianMixtureOutput, GaussianOutput
from chainrule.probability.distributions.outputs.laplace import LaplaceOutput
from chainrule.probability.distributions.outputs.levels import BetaBinomialOutput, LevelsOutput
from chainrule.probability.distributions.outputs.likelihoods import (
    LikelihoodName,
    ScaleName,
    check_support,
    likelihood,
    suited,
)
from chainrule.probability.distributions.outputs.logistic import (
    DiscretizedLogisticOutput,
    LogisticMixtureOutput,
)
from chainrule.probability.distributions.outputs.poisson import PoissonOutput
from chainrule.probability.distributions.outputs.scales import EntryScale, FixedScale, Scale, SharedScale

__all__ = [
    "BernoulliOutput",
    "BetaBinomialOutput",
    "ContinuousBernoulliOutput",
    "DiscretizedLogisticOutput",
    "EntryRange",
    "EntryScale",
    "FixedScale",
    "GaussianMixtureOutput",
    "GaussianOutput",
    "LaplaceOutput",
    "LevelsOutput",
    "LikelihoodName",
    "LogisticMixtureOutput",
    "OutputDistribution",
    "PoissonOutput",
    "ProbableLevels",
    "Scale",
    "ScaleName",
    "SharedScale",
    "check_support",
    "dequantized",
    "likelihood",
    "log_cell_ratio",
    "quantized",
    "suited",
    "tempered",
]
