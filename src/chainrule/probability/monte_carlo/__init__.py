"""Monte Carlo: chains of random moves whose states have a given distribution."""

from chainrule.probability.monte_carlo.langevin import Chains, langevin, langevin_chains

__all__ = ["Chains", "langevin", "langevin_chains"]
