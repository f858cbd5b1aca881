"""Autoregressive models of vectors, images and series: one conditional distribution for each entry."""
