"""Normal distributions: densities, divergences, values on a grid, Bayes' rule for linear models."""

from chainrule.probability.gaussian.discretized import discretized_log_prob
from chainrule.probability.gaussian.isotropic import kl_from_centred, log_density
from chainrule.probability.gaussian.linear import linear_posterior

__all__ = ["discretized_log_prob", "kl_from_centred", "linear_posterior", "log_density"]
