"""Data of the `transport` benchmarks, the same for everybody: NumPy only."""

import numpy as np

SHARE = 0.05
"""Eps over the mean cost."""
TOLERANCE = 1e-3
"""Mass in wrong columns, in the sum of absolute values, at which everybody may stop."""
PROBLEMS, POINTS = 256, 64
"""Of the batch of small problems."""


def clouds(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two sets of points in the plane, one round, one long and moved away, in single precision."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(count, 2))
    y = random.normal(size=(count, 2)) * np.array([2.0, 0.5]) + 1.0
    return x.astype(np.float32), y.astype(np.float32)


def costs(count: int, seed: int = 0) -> tuple[np.ndarray, float]:
    """Squared distances of two sets, and eps."""
    x, y = clouds(count, seed)
    squares = np.square(x).sum(axis=1)[:, None] + np.square(y).sum(axis=1)[None]
    matrix = np.maximum(squares - 2 * x @ y.T, 0.0)
    return matrix, SHARE * float(matrix.mean(dtype=np.float64))


def many(problems: int = PROBLEMS, count: int = POINTS) -> tuple[np.ndarray, float]:
    """Costs of many small problems, and an eps for all of them."""
    made = [costs(count, seed) for seed in range(problems)]
    return np.stack([matrix for matrix, _ in made]), float(np.mean([eps for _, eps in made]))


def misplaced(plan: np.ndarray) -> float:
    """Mass in wrong rows and in wrong columns, of a plan between equal weights."""
    rows, columns = plan.sum(axis=-1, dtype=np.float64), plan.sum(axis=-2, dtype=np.float64)
    each = [np.abs(sums - 1 / sums.shape[-1]).sum(axis=-1) for sums in (rows, columns)]
    return float(np.max(each[0] + each[1]))
