"""Convergence of random variables in simulation: its modes, law of large numbers, central limit theorem."""

from chainrule.probability.convergence.examples import EXAMPLES
from chainrule.probability.convergence.limits import (
    RunningMeans,
    StandardizedSums,
    running_means,
    standardized_sums,
)
from chainrule.probability.convergence.modes import ModesReport, RandomSequence, modes

__all__ = [
    "EXAMPLES",
    "ModesReport",
    "RandomSequence",
    "RunningMeans",
    "StandardizedSums",
    "modes",
    "running_means",
    "standardized_sums",
]
