"""Estimators of the gradient of a mean under a guide, one file for each idea, all on one interface."""

from chainrule.probability.variational.estimators.base import GradientEstimator
from chainrule.probability.variational.estimators.gaussian import GaussianIdentities
from chainrule.probability.variational.estimators.gumbel import GumbelSoftmax, StraightThrough
from chainrule.probability.variational.estimators.pathwise import Pathwise, PathwiseAnalytic
from chainrule.probability.variational.estimators.plain import PlainMonteCarlo
from chainrule.probability.variational.estimators.score import ScoreFunction

__all__ = [
    "GaussianIdentities",
    "GradientEstimator",
    "GumbelSoftmax",
    "Pathwise",
    "PathwiseAnalytic",
    "PlainMonteCarlo",
    "ScoreFunction",
    "StraightThrough",
]
