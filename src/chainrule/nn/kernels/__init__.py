"""The convolution kernel: a pair of bilinear primitives with fast programs for CPUs."""
