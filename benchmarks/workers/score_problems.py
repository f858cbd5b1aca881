"""Features of the `scores` benchmark, the same for everybody: NumPy only."""

import numpy as np

ROWS, FEATURES = 10_000, 64
SUBSETS, SIZE = 100, 1000
NEIGHBOURS = 5


def features(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Real ones, and samples that are shifted and narrower."""
    random = np.random.default_rng(0)
    mixing = random.normal(size=(FEATURES, FEATURES)) / FEATURES**0.5
    real, noise = random.normal(size=(2, rows, FEATURES))
    return real @ mixing, 0.9 * noise @ mixing + 0.3
