"""Mixtures of Gaussians from data: EM, where it begins, and how many components there are."""

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
    "em_step",
    "fit_mixture",
    "start_mixture",
]
