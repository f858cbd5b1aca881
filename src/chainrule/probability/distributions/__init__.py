"""Distributions."""
