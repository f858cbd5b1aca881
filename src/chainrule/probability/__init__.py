"""Probability: distributions, distances between them, transport between sets of points, random moves."""

from chainrule.probability import distributions, divergences, gaussian, monte_carlo, transport

__all__ = ["distributions", "divergences", "gaussian", "monte_carlo", "transport"]
