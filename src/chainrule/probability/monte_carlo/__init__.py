"""Monte Carlo: chains of random moves whose states have a given distribution, and importance weights."""

from chainrule.probability.monte_carlo.annealed import (
    AnnealedDraws,
    annealed_importance_sampling,
    hamiltonian_move,
)
from chainrule.probability.monte_carlo.importance import WeightReport, pareto_k, weight_report
from chainrule.probability.monte_carlo.langevin import Chains, langevin, langevin_chains

__all__ = [
    "AnnealedDraws",
    "Chains",
    "WeightReport",
    "annealed_importance_sampling",
    "hamiltonian_move",
    "langevin",
    "langevin_chains",
    "pareto_k",
    "weight_report",
]
