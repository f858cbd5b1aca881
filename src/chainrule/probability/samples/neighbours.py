"""Nearest neighbours: copies, variety, and how far two sets lie within each other.

Around every row of a set lies the ball that reaches to its k-th neighbour in the set; their union stands for where the
distribution lives. *Precision* is the share of samples within the union of real balls, *recall* the share of real rows
within that of the samples'. One far-off real row has a huge ball, so two more count balls one by one: *density* is how
many real balls a sample is in, over k, on average, and *coverage* the share of real balls with a sample in them.

References: Kynkäänniemi, Karras, Laine, Lehtinen and Aila, Improved precision and recall metric for assessing
generative models, 2019; Naeem, Oh, Uh, Choi and Yoo, Reliable fidelity and diversity metrics for generative models,
2020.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from chainrule.core.errors import ArgumentError
from chainrule.probability.samples.rows import rows_of, two_sets

_BLOCK = 256
_ROUNDING = 1e-13
"""Of the squares that a squared distance is the difference of: below that it is zero."""


class Fidelity(NamedTuple):
    """How far samples and real rows lie within each other."""

    precision: float
    recall: float
    density: float
    coverage: float


def nearest(
    x: Any, among: Any, count: int = 1
) -> tuple[Float[np.ndarray, "some count"], Int[np.ndarray, "some count"]]:
    """Distances to, and numbers of, the nearest rows.

    >>> nearest(np.array([[0.9]]), np.array([[0.0], [1.0], [3.0]]))[1].tolist()
    [[1]]
    """
    x, among = two_sets("nearest", x, among, 0, ("x", "among"))
    if not 1 <= count <= len(among):
        raise ArgumentError(
            f"nearest(count={count}): there are {len(among)} examples to be near to",
            remedy="ask for one neighbour or more, and for no more than there are",
        )
    distances, numbers = [np.empty((0, count))], [np.empty((0, count), np.int64)]
    for first in range(0, len(x), _BLOCK):
        apart = _squares(x[first : first + _BLOCK], among)
        chosen = np.argpartition(apart, min(count, len(among) - 1) - (count == len(among)), axis=1)[:, :count]
        found = np.take_along_axis(apart, chosen, axis=1)
        order = np.argsort(found, axis=1, kind="stable")
        numbers.append(np.take_along_axis(chosen, order, axis=1))
        distances.append(np.sqrt(np.take_along_axis(found, order, axis=1)))
    return np.concatenate(distances), np.concatenate(numbers).astype(np.int64)


def fidelity(real: Any, samples: Any, k: int = 5) -> Fidelity:
    """Precision, recall, density and coverage of samples, by balls that reach to the k-th neighbour.

    Recall falls with the number of real rows beside samples and coverage rises with that of samples: only figures of
    equal numbers compare.

    >>> x = np.random.default_rng(0).normal(size=(30, 2))
    >>> fidelity(x, x).precision, fidelity(x, x + 1e6).recall
    (1.0, 0.0)
    """
    real, samples = two_sets("fidelity", real, samples, 1, ("real", "samples"))
    if k < 1 or min(len(real), len(samples)) <= k:
        raise ArgumentError(
            f"fidelity(k={k}): {len(real)} real rows and {len(samples)} samples have no neighbour of that number",
            remedy="give more rows than k of each, or a smaller k of at least 1",
        )
    of_real, of_samples = (_reach(rows, k) for rows in (real, samples))
    balls, reached = np.zeros(len(samples)), np.zeros(len(samples), bool)
    recalled, covered = np.zeros(len(real), bool), np.zeros(len(real), bool)
    for first in range(0, len(samples), _BLOCK):
        block = slice(first, first + _BLOCK)
        apart = _squares(samples[block], real)
        inside = apart <= of_real[None]
        balls[block] = inside.sum(axis=1)
        reached[block] = inside.any(axis=1)
        covered |= inside.any(axis=0)
        recalled |= (apart <= of_samples[block, None]).any(axis=0)
    return Fidelity(
        float(reached.mean()), float(recalled.mean()), float(balls.mean() / k), float(covered.mean())
    )


def spread(x: Any, y: Any = None) -> float:
    """Mean distance between two examples, of one class where there are classes; not a number where none has two.

    >>> spread(np.array([[0.0, 0.0], [3.0, 4.0]]))
    5.0
    """
    x = rows_of("spread", "x", x)
    if y is not None and len(y) != len(x):
        raise ArgumentError(f"spread(y): {len(y)} classes for {len(x)} examples")
    groups = [x] if y is None else [x[y == c] for c in np.unique(y)]
    found = [
        np.sqrt(_squares(group, group)).sum() / (len(group) * (len(group) - 1))
        for group in groups
        if len(group) > 1
    ]
    return float(np.mean(found)) if found else math.nan


def _reach(rows: np.ndarray, k: int) -> np.ndarray:
    """The squared distance of each row to its k-th neighbour, itself not counted."""
    found = []
    for first in range(0, len(rows), _BLOCK):
        apart = _squares(rows[first : first + _BLOCK], rows)
        own = np.arange(len(apart))
        apart[own, first + own] = np.inf
        found.append(np.partition(apart, k - 1, axis=1)[:, k - 1])
    return np.concatenate(found)


def _squares(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Squared distances, exactly zero for rows that are the same but for rounding."""
    centre = b.mean(axis=0, keepdims=True)  # far from the origin squares would swallow the distances
    a, b = a - centre, b - centre
    own = np.square(a).sum(axis=1)[:, None] + np.square(b).sum(axis=1)[None]
    apart = own - 2 * a @ b.T
    return np.where(apart > _ROUNDING * own, apart, 0.0)


__all__ = ["Fidelity", "fidelity", "nearest", "spread"]
