"""Data of the `kernels` benchmark, the same for everybody: NumPy only."""

import numpy as np

FEATURES = 8
NEW = 500
SCALE, NOISE = 2.0, 0.1
GRAM_ROWS, GRAM_FEATURES = 5_000, 50
SVM_ROWS, SVM_FEATURES = 10_000, 50
SVM_C = 1.0


def regression(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, noisy values of a smooth function, and new inputs."""
    random = np.random.default_rng(0)
    x = random.normal(size=(count, FEATURES))
    y = np.sin(x @ random.normal(size=FEATURES)) + NOISE**0.5 * random.normal(size=count)
    return x, y, random.normal(size=(NEW, FEATURES))


def points(count: int) -> np.ndarray:
    """Points whose Gram matrix is built."""
    return np.random.default_rng(1).normal(size=(count, GRAM_FEATURES))


def classes(rows: int = SVM_ROWS) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two overlapping classes that no plane tells apart, and new points."""
    random = np.random.default_rng(2)
    x = random.normal(size=(rows + 2_000, SVM_FEATURES))
    bent = np.square(x[:, :10]).sum(axis=1) - 10 + x[:, 10:15].sum(axis=1)
    labels = (bent + 2 * random.normal(size=len(x)) > 0).astype(int)
    return x[:rows], labels[:rows], x[rows:]
