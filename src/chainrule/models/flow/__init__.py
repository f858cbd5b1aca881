"""Normalizing flows: invertible models with exact densities, draws and codes."""
