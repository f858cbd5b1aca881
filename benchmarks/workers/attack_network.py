"""The network that `explain-attacks` attacks: three convolutions with stride 2 and one affine map, as plain arrays."""

import itertools

import numpy as np

EPS, STEPS = 0.3, 40
WIDTHS = (1, 16, 32, 64)
CLASSES = 10


def weights(side: int) -> dict[str, np.ndarray]:
    """Kernels (height, width, inputs, outputs), and the last matrix for features with channels last."""
    draw = np.random.default_rng(0)
    found = {
        f"conv{i}": draw.normal(size=(3, 3, a, b)) * np.sqrt(2 / (9 * a))
        for i, (a, b) in enumerate(itertools.pairwise(WIDTHS))
    }
    last = (-(-side // 8)) ** 2 * WIDTHS[-1]
    found["dense"] = draw.normal(size=(last, CLASSES)) / np.sqrt(last)
    return {name: array.astype(np.float32) for name, array in found.items()}


def images(count: int, side: int) -> tuple[np.ndarray, np.ndarray]:
    """Random images in [0, 1], channels last, and classes."""
    draw = np.random.default_rng(1)
    x = draw.uniform(size=(count, side, side, 1)).astype(np.float32)
    return x, draw.integers(0, CLASSES, size=count)


__all__ = ["CLASSES", "EPS", "STEPS", "WIDTHS", "images", "weights"]
