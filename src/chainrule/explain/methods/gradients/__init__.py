"""Attributions by gradients: what each input, or each pixel, has to do with one output. One method a module."""
