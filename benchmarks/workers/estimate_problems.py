"""Pairs for the `information_estimates` benchmark, the same for everybody."""

import numpy as np

NEIGHBOURS = 3


def pairs(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Two normals with a correlation of 0.9."""
    x, noise = np.random.default_rng(0).normal(size=(2, count))
    return x, 0.9 * x + np.sqrt(1 - 0.81) * noise


def labelled(count: int) -> tuple[np.ndarray, np.ndarray]:
    """A normal, and in which of four parts another lies that depends on it."""
    x, y = pairs(count)
    return x, np.searchsorted([-0.7, 0.0, 0.7], y)
