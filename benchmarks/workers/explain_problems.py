"""Networks and rows of the `explain` benchmark, the same for everybody: NumPy only."""

import itertools
from typing import NamedTuple

import numpy as np


class Problem(NamedTuple):
    """A network of two hidden layers of rectified units, rows to explain, and background rows."""

    weights: tuple[np.ndarray, ...]
    x: np.ndarray
    background: np.ndarray


def problem(rows: int, columns: int, background: int, hidden: int = 64) -> Problem:
    """Single precision throughout."""
    random = np.random.default_rng(0)
    sizes = (columns, hidden, hidden, 1)
    weights = tuple(
        (random.normal(size=(a, b)) * np.sqrt(2 / a)).astype(np.float32) for a, b in itertools.pairwise(sizes)
    )
    x, others = (random.normal(size=(n, columns)).astype(np.float32) for n in (rows, background))
    return Problem(weights, x, others)


def network(weights: tuple[np.ndarray, ...], x: np.ndarray) -> np.ndarray:
    """What everybody explains."""
    hidden = x.astype(np.float32)
    for weight in weights[:-1]:
        hidden = np.maximum(hidden @ weight, 0)
    return (hidden @ weights[-1])[:, 0]


def summary(values: np.ndarray) -> list[float]:
    """Numbers that the same explanations share: mean sizes, which chance hardly moves."""
    return [float(np.abs(values).mean()), float(np.sqrt(np.square(values).mean()))]
