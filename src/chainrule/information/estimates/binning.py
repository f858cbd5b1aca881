"""Mutual information of binned values: the plug-in number of a table of counts, corrected as by Miller and Madow.

Counts of few pairs in many cells look dependent whatever they are of. What shuffled pairs read is the size of that for
variables that have nothing in common, and is told beside the value, never subtracted: strong dependence leaves fewer
cells occupied, and what is subtracted would be too much.

References: Miller, Note on the bias of information estimates, 1955; Harris, The statistical estimation of entropy in
the non-parametric case, 1975.
"""

import math
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float, Int

from chainrule.core.checks import whole
from chainrule.core.errors import check_choice
from chainrule.information.estimates.result import MutualInformationEstimate, around
from chainrule.information.estimates.samples import Variable, sentences

Edges: TypeAlias = Literal["width", "quantile"]
EDGES = ("width", "quantile")
_CROWDED = 5.0
"""Pairs for each occupied cell below which counts say little."""


class Counted(NamedTuple):
    """Numbers of a table of counts, in nats."""

    plug_in: float
    corrected: float
    """With (cells - 1) / 2n added to each of the three entropies, where cells are those that are occupied."""
    error: float
    """Standard error of the plug-in number."""
    cells: int
    """Occupied cells of the table."""


def binning(
    where: str,
    x: Variable,
    y: Variable,
    rng: np.random.Generator,
    *,
    bins: int = 30,
    edges: str = "width",
    correct: bool = True,
    shuffles: int = 40,
) -> MutualInformationEstimate:
    """Mutual information in nats of values in bins; labels are cells of their own."""
    whole(where, "bins", bins, least=2)
    whole(where, "shuffles", shuffles, least=0)
    check_choice(where, "edges", edges, EDGES)
    first, second = (cells(one, bins, edges) for one in (x, y))
    found = counted(first, second)
    value = found.corrected if correct else found.plug_in
    null = None
    if shuffles:
        drawn = [counted(first, rng.permutation(second)) for _ in range(shuffles)]
        read = [one.corrected if correct else one.plug_in for one in drawn]
        low, high = np.quantile(read, [0.025, 0.975])
        null = float(low), float(high)
    counts_labels = x.is_discrete and y.is_discrete
    return MutualInformationEstimate(
        "binning",
        value,
        around(value, found.error),
        "nats",
        "estimate",
        "95 % over draws of the pairs; what the bins leave out is not in it",
        sentences(
            [
                "It is that of a table of counts."
                if counts_labels
                else f"It is that of {bins} bins ({edges}) for each number and changes with them.",
                f"Only {len(x) / found.cells:.1f} pairs for each occupied cell: the counts themselves look dependent."
                if len(x) < _CROWDED * found.cells
                else "",
                "Shuffled pairs read as much: no dependence is shown." if null and value <= null[1] else "",
            ]
        ),
        len(x),
        null,
        {"plug_in": found.plug_in, "miller_madow": found.corrected, "n_cells": float(found.cells)},
    )


def cells(one: Variable, bins: int, edges: str) -> Int[np.ndarray, " n"]:
    """The number of the cell of each value: labels as they are, numbers in bins of equal width or of equal counts."""
    if one.labels is not None:
        return one.labels
    return joint(np.stack([_digits(column, bins, edges) for column in one.rows.T], axis=1))


def joint(digits: Int[np.ndarray, "n columns"]) -> Int[np.ndarray, " n"]:
    """One number for each different row.

    >>> joint(np.array([[0, 1], [2, 1], [0, 1]])).tolist()
    [0, 1, 0]
    """
    base = int(digits.max(initial=0)) + 1
    if digits.shape[1] * math.log2(base + 1) < 62:  # a row is one whole number, which is quicker to compare
        digits = (digits * base ** np.arange(digits.shape[1], dtype=np.int64)[None]).sum(axis=1)
    return np.unique(digits, axis=0, return_inverse=True)[1].reshape(-1)


def _digits(column: Float[np.ndarray, " n"], bins: int, edges: str) -> Int[np.ndarray, " n"]:
    inner = (
        np.unique(np.quantile(column, np.linspace(0, 1, bins + 1)[1:-1]))
        if edges == "quantile"
        else np.linspace(column.min(), column.max(), bins + 1)[1:-1]
    )
    return np.searchsorted(inner, column, side="right")


def counted(first: Int[np.ndarray, " n"], second: Int[np.ndarray, " n"]) -> Counted:
    """What a table of counts says of two columns of numbers of cells.

    >>> same = np.repeat(np.arange(2), 50)
    >>> print(round(counted(same, same).plug_in / np.log(2), 6))
    1.0
    """
    n, width = len(first), int(second.max()) + 1
    keys, where, both = np.unique(
        first.astype(np.int64) * width + second, return_inverse=True, return_counts=True
    )
    one, two = np.bincount(first), np.bincount(second)
    densities = np.log(both * n / (one[keys // width] * two[keys % width]))
    terms = densities[where.reshape(-1)]
    plug_in = float(terms.mean())
    used = [int((counts > 0).sum()) for counts in (one, two, both)]
    corrected = plug_in + (used[0] + used[1] - used[2] - 1) / (2 * n)
    # What is left of the variance where all pairs say the same: that of half a sum of squares of normal deviations of
    # the counts, by the trace of its matrix squared (Harris, 1975, for one variable).
    squares = used[2] + 1 - used[0] - used[1] + 2 * (float(np.exp(densities) @ both) / n - 1)
    variance = float(terms.var(ddof=1)) + max(squares, 0.0) / (2 * n)
    return Counted(plug_in, corrected, math.sqrt(variance / n), used[2])


__all__ = ["EDGES", "Counted", "Edges", "binning", "cells", "counted", "joint"]
