"""Mutual information from samples: one file for each method, one result for all."""
