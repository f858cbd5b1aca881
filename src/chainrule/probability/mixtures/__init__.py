"""Mixtures of Gaussians from data: EM and what it climbs, its start, gradients instead, entries that are known."""

from chainrule.probability.mixtures.ascent import ascend_mixture
from chainrule.probability.mixtures.bounds import lower_bound, responsibilities
from chainrule.probability.mixtures.conditioning import condition
from chainrule.probability.mixtures.expectation_maximization import (
    KINDS,
    Covariances,
    MixtureParameters,
    em_step,
)
from chainrule.probability.mixtures.fitting import FittedMixture, fit_mixture, start_mixture

__all__ = [
    "KINDS",
    "Covariances",
    "FittedMixture",
    "MixtureParameters",
    "ascend_mixture",
    "condition",
    "em_step",
    "fit_mixture",
    "lower_bound",
    "responsibilities",
    "start_mixture",
]
