"""Monte Carlo: chains of random moves whose states have a given distribution, and importance weights."""

from chainrule.probability.monte_carlo.annealed import (
    AnnealedDraws,
    annealed_chains,
    annealed_importance_sampling,
    hamiltonian_move,
)
from chainrule.probability.monte_carlo.chains import MCMCResult
from chainrule.probability.monte_carlo.diagnostics import bulk_ess, mean_ess, rhat, tail_ess
from chainrule.probability.monte_carlo.estimates import (
    MeanEstimate,
    control_variate,
    log_evidence,
    self_normalized,
    uniform_mean,
)
from chainrule.probability.monte_carlo.gibbs import finite_conditionals, gibbs
from chainrule.probability.monte_carlo.hmc import hmc
from chainrule.probability.monte_carlo.importance import WeightReport, pareto_k, weight_report
from chainrule.probability.monte_carlo.langevin import Chains, langevin, langevin_chains, mala, ula
from chainrule.probability.monte_carlo.metropolis import metropolis

__all__ = [
    "AnnealedDraws",
    "Chains",
    "MCMCResult",
    "MeanEstimate",
    "WeightReport",
    "annealed_chains",
    "annealed_importance_sampling",
    "bulk_ess",
    "control_variate",
    "finite_conditionals",
    "gibbs",
    "hamiltonian_move",
    "hmc",
    "langevin",
    "langevin_chains",
    "log_evidence",
    "mala",
    "mean_ess",
    "metropolis",
    "pareto_k",
    "rhat",
    "self_normalized",
    "tail_ess",
    "ula",
    "uniform_mean",
    "weight_report",
]
