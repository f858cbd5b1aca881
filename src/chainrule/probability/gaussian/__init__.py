"""Normal distributions: algebra, conditioning, moments, distances, values on a grid, Bayes' rule for linear models."""

from chainrule.probability.gaussian import distances
from chainrule.probability.gaussian.algebra import (
    Independence,
    Moments,
    add,
    affine,
    independent,
    marginal,
    sign_flipped_pair,
)
from chainrule.probability.gaussian.conditioning import (
    Imputed,
    Information,
    condition,
    condition_information,
    from_information,
    impute,
    to_information,
)
from chainrule.probability.gaussian.covariances import log_prob_on_support
from chainrule.probability.gaussian.discretized import discretized_log_prob
from chainrule.probability.gaussian.isotropic import kl_from_centred, log_density
from chainrule.probability.gaussian.linear import linear_posterior, low_rank_update
from chainrule.probability.gaussian.moments import (
    cumulant,
    cumulant_generating_function,
    derivative_at_zero,
    moment,
    moment_generating_function,
    pairing_count,
    pairings,
)
from chainrule.probability.gaussian.stein import SteinResidual, stein_residual

__all__ = [
    "Imputed",
    "Independence",
    "Information",
    "Moments",
    "SteinResidual",
    "add",
    "affine",
    "condition",
    "condition_information",
    "cumulant",
    "cumulant_generating_function",
    "derivative_at_zero",
    "discretized_log_prob",
    "distances",
    "from_information",
    "impute",
    "independent",
    "kl_from_centred",
    "linear_posterior",
    "log_density",
    "log_prob_on_support",
    "low_rank_update",
    "marginal",
    "moment",
    "moment_generating_function",
    "pairing_count",
    "pairings",
    "sign_flipped_pair",
    "stein_residual",
    "to_information",
]
