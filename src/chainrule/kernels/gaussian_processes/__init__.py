"""Gaussian processes: distributions over functions, and what data say about the function behind them."""

from chainrule.kernels.gaussian_processes.decisions import (
    SurrogateSearch,
    confidence_bound,
    expected_improvement,
    probability_of_improvement,
)
from chainrule.kernels.gaussian_processes.hyperparameters import Learning, sample_hyperparameters
from chainrule.kernels.gaussian_processes.paths import Paths, draw_paths
from chainrule.kernels.gaussian_processes.posterior import GaussianProcessPosterior, LeftOut, Prediction
from chainrule.kernels.gaussian_processes.process import (
    GaussianProcess,
    brownian_motion,
    ornstein_uhlenbeck,
    smooth_functions,
)

__all__ = [
    "GaussianProcess",
    "GaussianProcessPosterior",
    "Learning",
    "LeftOut",
    "Paths",
    "Prediction",
    "SurrogateSearch",
    "brownian_motion",
    "confidence_bound",
    "draw_paths",
    "expected_improvement",
    "ornstein_uhlenbeck",
    "probability_of_improvement",
    "sample_hyperparameters",
    "smooth_functions",
]
