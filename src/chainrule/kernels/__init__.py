"""Kernels: kernel regression and random features."""

from chainrule.kernels.random_features import GaussianFeatures, GramError, gram, gram_error, logistic, ridge
from chainrule.kernels.smoothing import (
    exponential,
    fit_bandwidth,
    gaussian,
    laplace,
    leave_one_out,
    smooth,
    smoothing_weights,
)
from chainrule.probability.distances import squared_distances

__all__ = [
    "GaussianFeatures",
    "GramError",
    "exponential",
    "fit_bandwidth",
    "gaussian",
    "gram",
    "gram_error",
    "laplace",
    "leave_one_out",
    "logistic",
    "ridge",
    "smooth",
    "smoothing_weights",
    "squared_distances",
]
