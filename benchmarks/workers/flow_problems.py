"""Tables and sizes of the `flows` benchmark, for our side and the peers': NumPy and scikit-learn alone."""

import numpy as np
from sklearn import datasets

TABLES = ("diabetes", "wine", "breast-cancer")
FORMS = ("maf", "spline", "coupling")
LAYERS, WIDTH = 5, 64
"""Transforms, and units of a hidden layer."""
HIDDEN = {"maf": 3, "spline": 3, "coupling": 2}
"""Hidden layers of everybody's networks; three are a masked layer and one residual block of ours."""
BATCH, RATE, STEPS = 64, 1e-3, 500
EVERY = 50
"""Steps between two looks at the validation rows; the best flow by them is judged."""
DRAWN = 512
SPLITS = 5
"""Ways to cut a table into training, validation and test rows; the first is also timed."""
NOISE = 0.05
"""In standard deviations of a column."""


def table(name: str, split: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Training, validation and test rows, standardised by the first; noise fills columns that have few values."""
    load = {
        "diabetes": datasets.load_diabetes,
        "wine": datasets.load_wine,
        "breast-cancer": datasets.load_breast_cancer,
    }[name]
    rows = np.asarray(load().data, np.float64)
    if name == "diabetes":
        rows = np.delete(rows, 1, axis=1)  # sex has two values and no density
    rows = rows[np.random.default_rng((0, split) if split else 0).permutation(len(rows))]
    first, second = int(0.7 * len(rows)), int(0.85 * len(rows))
    mean, spread = rows[:first].mean(axis=0), rows[:first].std(axis=0)
    noise = NOISE * np.random.default_rng(2).normal(size=rows.shape)
    unit = ((rows - mean) / spread + noise).astype(np.float32)
    return unit[:first], unit[first:second], unit[second:]


def batches(count: int, steps: int) -> np.ndarray:
    """Which rows each step sees, the same for everybody."""
    return np.random.default_rng(1).integers(0, count, (steps, BATCH))


def judged(nats: list[list[float]], entries: int) -> list[float]:
    """Of the costs of the test rows of each split: a number to compare by, and the mean of every split.

    The former is e to the median of the first split for each entry, a positive number. Means can be of any size: the
    likelihood of one outlier decides them.
    """
    return [float(np.exp(np.median(nats[0]) / entries)), *(float(np.mean(each)) for each in nats)]
