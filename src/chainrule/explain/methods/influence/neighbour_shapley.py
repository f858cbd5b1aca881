"""Data Shapley values of a k-nearest-neighbour classifier: exact, in the time it takes to sort.

The players are the training rows, and a set of them is worth the share of a test row's k nearest neighbours among them
that have its class. Sorted by distance, the values of two rows that follow each other differ by
`([same class as the test row] - [the next one is]) / k * min(k, i) / i`, so that one pass from the farthest row gives
all of them.

Reference: Jia et al., Efficient task-specific data valuation for nearest neighbor algorithms, 2019, arXiv:1908.08619.
"""

from typing import Any

import numpy as np
from jaxtyping import Float

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError

_BLOCK = 1 << 22
"""Distances that are held at once."""


def neighbour_shapley(
    x: Any, y: Any, test_x: Any, test_y: Any, *, k: int = 5
) -> Float[np.ndarray, "test train"]:
    """The Shapley value of every training row for every test row; a row's values over test rows may be averaged.

    >>> x, y = np.array([[0.0], [1.0], [2.0]]), np.array([0, 1, 0])
    >>> neighbour_shapley(x, y, np.array([[0.1]]), np.array([0]), k=1).round(3).tolist()
    [[0.833, -0.167, 0.333]]
    """
    near = whole("neighbour_shapley", "k", k)
    rows, tests = (np.asarray(one, float).reshape(len(one), -1) for one in (x, test_x))
    classes, wanted = np.asarray(y), np.asarray(test_y)
    if rows.shape[1] != tests.shape[1] or len(rows) != len(classes) or len(tests) != len(wanted):
        raise ArgumentError(
            f"neighbour_shapley: {rows.shape} rows with {len(classes)} classes against {tests.shape} with "
            f"{len(wanted)}",
            remedy="give a class for every row, and test rows with the same columns",
        )
    count = len(rows)
    rank = np.arange(1, count)
    share = np.minimum(near, rank) / (near * rank)
    size = max(1, _BLOCK // max(count, 1))
    found = np.empty((len(tests), count))
    squares = np.square(rows).sum(axis=1)
    for first in range(0, len(tests), size):
        some = tests[first : first + size]
        apart = squares[None] - 2 * some @ rows.T  # the test row's own length is common to all
        order = np.argsort(apart, axis=1, kind="stable")
        same = (classes[order] == wanted[first : first + size, None]).astype(float)
        steps = (same[:, :-1] - same[:, 1:]) * share[None]
        last = same[:, -1:] * min(near, count) / (near * count)
        sums = np.concatenate([np.cumsum(steps[:, ::-1], axis=1)[:, ::-1], np.zeros_like(last)], axis=1)
        np.put_along_axis(found[first : first + size], order, last + sums, axis=1)
    return found


__all__ = ["neighbour_shapley"]
