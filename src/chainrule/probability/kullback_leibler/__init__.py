"""The Kullback-Leibler divergence: in closed form for pairs of families, by enumeration, or estimated from draws."""

from chainrule.probability.kullback_leibler import closed_forms
from chainrule.probability.kullback_leibler.divergence import kl_of_distributions
from chainrule.probability.kullback_leibler.estimate import KLEstimate, estimate_kl
from chainrule.probability.kullback_leibler.pairs import register

__all__ = ["KLEstimate", "closed_forms", "estimate_kl", "kl_of_distributions", "register"]
