"""Shapley values: games of coalitions, exact and sampled values, and additive explanations of any function."""
