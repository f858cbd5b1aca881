"""Probability: distributions, divergences, optimal transport, Monte Carlo."""

from chainrule.probability import distributions, divergences, gaussian, monte_carlo, transport

__all__ = ["distributions", "divergences", "gaussian", "monte_carlo", "transport"]
