"""Channels and joint tables for the `information_channels` benchmark, the same for everybody."""

import numpy as np

TOLERANCE = 1e-9
"""Bits that bounds of a capacity may be apart."""
BETA = 3.0
SWEEPS = 2000
"""The most sweeps of a bottleneck from one start."""
STARTS = 10
STILL = 1e-10
"""A bottleneck has settled when its objective, in nats, falls by less in a sweep."""


def channel(inputs: int) -> np.ndarray:
    """Probabilities of as many outputs as inputs, drawn at random."""
    return np.random.default_rng(0).dirichlet(np.full(inputs, 0.3), inputs)


def joint(inputs: int) -> np.ndarray:
    """Neighbours on a circle, some likelier than others: p(x, y)."""
    apart = np.abs(np.arange(inputs)[:, None] - np.arange(inputs)[None])
    apart = np.minimum(apart, inputs - apart)
    table = np.exp(-np.square(apart / (inputs / 8)) / 2) * np.random.default_rng(0).uniform(
        0.5, 1.5, apart.shape
    )
    return table / table.sum()
