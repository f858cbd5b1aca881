"""Samples of a distribution beside real examples, as rows of numbers: distances, coverage, copies.

Everything here is NumPy in double precision, for sets of a few thousand rows: nothing is compiled. Which rows to
compare, in which features and against which real ones, is for the caller to say.
"""

from chainrule.probability.samples.classifier_score import classifier_score
from chainrule.probability.samples.frechet import (
    frechet_at_infinity,
    frechet_distance,
    frechet_distance_of_moments,
)
from chainrule.probability.samples.kernel_distance import (
    DistanceEstimate,
    SubsetSpread,
    alikeness,
    biased_kernel_distance,
    kernel_distance,
    kernel_distance_over_subsets,
)
from chainrule.probability.samples.modes import ModeCoverage, mode_coverage
from chainrule.probability.samples.neighbours import Fidelity, fidelity, nearest, spread
from chainrule.probability.samples.ranks import RankCalibration, rank_calibration
from chainrule.probability.samples.two_samples import TwoSampleAccuracy, two_sample_accuracy

__all__ = [
    "DistanceEstimate",
    "Fidelity",
    "ModeCoverage",
    "RankCalibration",
    "SubsetSpread",
    "TwoSampleAccuracy",
    "alikeness",
    "biased_kernel_distance",
    "classifier_score",
    "fidelity",
    "frechet_at_infinity",
    "frechet_distance",
    "frechet_distance_of_moments",
    "kernel_distance",
    "kernel_distance_over_subsets",
    "mode_coverage",
    "nearest",
    "rank_calibration",
    "spread",
    "two_sample_accuracy",
]
