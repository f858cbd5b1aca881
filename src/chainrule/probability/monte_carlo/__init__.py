"""Monte Carlo: chains of random moves whose states have a given distribution, and importance weights."""

from chainrule.probability.monte_carlo.importance import WeightReport, pareto_k, weight_report
from chainrule.probability.monte_carlo.langevin import Chains, langevin, langevin_chains

__all__ = ["Chains", "WeightReport", "langevin", "langevin_chains", "pareto_k", "weight_report"]
