"""Convolution: layers, functions of arrays, and the pair of bilinear primitives with fast CPU programs below them."""
