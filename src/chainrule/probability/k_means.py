"""Clusters around means: rows far apart as a start, then rounds of assigning rows and moving means (Lloyd).

Reference: Arthur and Vassilvitskii, k-means++: the advantages of careful seeding, 2007.
"""

from typing import NamedTuple

import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Float, Int

Rows = Float[np.ndarray, "rows features"]
Centres = Float[np.ndarray, "clusters features"]


class Clusters(NamedTuple):
    """What `k_means` found."""

    centres: Centres
    nearest: Int[np.ndarray, " rows"]
    """The number of each row's centre."""
    rounds: int
    """Rounds until no row changed its cluster, or as many as were allowed."""


def k_means(rows: Rows, k: int, random: np.random.Generator, *, rounds: int = 100) -> Clusters:
    """k centres of which each is the mean of the rows nearest to it, or nearly so after so many rounds.

    A centre that no row is nearest to stays where it was. There have to be k different rows.

    >>> rows = np.array([[0.0], [1.0], [10.0], [11.0]])
    >>> sorted(k_means(rows, 2, np.random.default_rng(0)).centres[:, 0].tolist())
    [0.5, 10.5]
    """
    centres = distant_rows(rows, k, random)
    nearest = squares(rows, centres).argmin(axis=1)
    done = 0
    while done < rounds:
        counts = np.bincount(nearest, minlength=k)
        sums = np.zeros_like(centres)
        np.add.at(sums, nearest, rows)
        centres = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centres)
        before, nearest = nearest, squares(rows, centres).argmin(axis=1)
        done += 1
        if (before == nearest).all():
            break
    return Clusters(centres, nearest, done)


def distant_rows(rows: Rows, k: int, random: np.random.Generator) -> Centres:
    """Rows drawn one after another with the square of their distance from those drawn before as weight."""
    chosen = [rows[random.integers(len(rows))]]
    apart = squares(rows, chosen[0][None])[:, 0]
    for _ in range(k - 1):
        total = apart.sum()
        if not total > 0:
            raise ArgumentError(
                f"k_means(k={k}): there are only {len(np.unique(rows, axis=0))} different rows",
                remedy=f"use k={len(np.unique(rows, axis=0))} or less",
            )
        number = random.choice(len(rows), p=apart / total)
        chosen.append(rows[number])
        apart = np.minimum(apart, squares(rows, rows[number][None])[:, 0])
    return np.stack(chosen)


def squares(rows: Rows, centres: Centres) -> Float[np.ndarray, "rows clusters"]:
    """Squared distances of rows and centres by one matrix product, beside their middle lest digits cancel."""
    middle = centres.mean(axis=0, keepdims=True)
    rows, centres = rows - middle, centres - middle
    both = np.square(rows).sum(axis=1)[:, None] + np.square(centres).sum(axis=1)[None] - 2 * rows @ centres.T
    return np.maximum(both, 0.0)


__all__ = ["Clusters", "distant_rows", "k_means", "squares"]
