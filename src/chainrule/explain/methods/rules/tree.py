"""Small decision trees (CART): thresholds on single columns that leave the least spread of the answers.

Classes are written as rows of zeros and a one, values as they are: with either, the best split is the one that lowers
the summed squared distance of answers from the mean of their side most, which for classes is the Gini impurity. One
pass over the sorted columns, with running sums, judges every threshold of every column at once.

Reference: Breiman, Friedman, Olshen and Stone, Classification and regression trees, 1984.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float

Answers = Float[np.ndarray, "rows answers"]
"""Values, or a one at the class of each row."""


class Threshold(NamedTuple):
    """A threshold on one column: at most it, or above it."""

    column: int
    threshold: float
    above: bool

    def holds(self, x: Float[np.ndarray, "rows columns"]) -> Bool[np.ndarray, " rows"]:
        """For which rows it is met."""
        found: np.ndarray = x[:, self.column] > self.threshold
        return found if self.above else ~found


@final
@dataclass(frozen=True)
class TreeNode:
    """A part of the input space: divided by a threshold, or a leaf with one answer."""

    answer: Float[np.ndarray, " answers"]
    """The mean of the answers that led here."""
    count: int
    column: int = -1
    """-1 at a leaf."""
    threshold: float = 0.0
    below: "TreeNode | None" = None
    above: "TreeNode | None" = None

    def predict(self, x: Float[np.ndarray, "rows columns"]) -> Answers:
        """The answer of the leaf that each row falls into."""
        if self.below is None or self.above is None:
            return np.repeat(self.answer[None], len(x), axis=0)
        high = x[:, self.column] > self.threshold
        found = np.empty((len(x), len(self.answer)))
        found[~high], found[high] = self.below.predict(x[~high]), self.above.predict(x[high])
        return found

    def leaves(self, path: tuple[Threshold, ...] = ()) -> Iterator[tuple[tuple[Threshold, ...], "TreeNode"]]:
        """Every leaf with the conditions that lead to it, from the lowest values to the highest."""
        if self.below is None or self.above is None:
            yield path, self
            return
        yield from self.below.leaves((*path, Threshold(self.column, self.threshold, False)))
        yield from self.above.leaves((*path, Threshold(self.column, self.threshold, True)))


def grow(x: Float[np.ndarray, "rows columns"], answers: Answers, *, depth: int, least: int) -> TreeNode:
    """A tree of at most `depth` thresholds one after another, each leaf with at least so many rows.

    >>> tree = grow(np.arange(6.0)[:, None], np.array([[0.0], [0], [0], [1], [1], [1]]), depth=1, least=1)
    >>> tree.threshold, tree.predict(np.array([[2.4], [9.0]])).tolist()
    (2.5, [[0.0], [1.0]])
    """
    mean = answers.mean(axis=0)
    leaf = TreeNode(mean, len(x))
    if depth == 0 or len(x) < 2 * least:
        return leaf
    column, threshold, gain = _best(x, answers, least)
    if gain <= 1e-12 * max(float(np.square(answers).sum()), 1.0):
        return leaf
    high = x[:, column] > threshold
    below, above = (grow(x[side], answers[side], depth=depth - 1, least=least) for side in (~high, high))
    if _same(below, above):
        return leaf
    return TreeNode(mean, len(x), column, threshold, below, above)


def _same(below: TreeNode, above: TreeNode) -> bool:
    """Two leaves that give the same class tell nothing apart; neither do two equal values."""
    if below.column >= 0 or above.column >= 0:
        return False
    if len(below.answer) > 1:
        return bool(below.answer.argmax() == above.answer.argmax())
    return bool(below.answer[0] == above.answer[0])


def _best(x: np.ndarray, answers: np.ndarray, least: int) -> tuple[int, float, float]:
    """The column and threshold that lower the squared distance from the means most, and by how much."""
    count = len(x)
    order = np.argsort(x, axis=0, kind="stable")
    values = np.take_along_axis(x, order, axis=0)
    sums = np.cumsum(answers[order], axis=0)  # (rows, columns, answers)
    left, total = sums[:-1], sums[-1:]
    size = np.arange(1, count, dtype=float)[:, None]
    gain = np.square(left).sum(axis=2) / size + np.square(total - left).sum(axis=2) / (count - size)
    gain -= np.square(total).sum(axis=2) / count
    allowed = (values[1:] > values[:-1]) & (size >= least) & (count - size >= least)
    gain = np.where(allowed, gain, -np.inf)
    row, column = np.unravel_index(int(gain.argmax()), gain.shape)
    middle = (values[row, column] + values[row + 1, column]) / 2
    # Between neighbours that differ by a rounding the middle can be the upper one, which belongs above.
    threshold = middle if middle < values[row + 1, column] else values[row, column]
    return int(column), float(threshold), float(gain[row, column])


__all__ = ["Answers", "Threshold", "TreeNode", "grow"]
