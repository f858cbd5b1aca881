"""Matrices known only by their products: curvature, traces, spectra, determinants."""
