"""Mutual information by nearest neighbours: of numbers, and of numbers and labels.

Around each pair lies the square that reaches to its k-th neighbour; how many values fall into either side of it tells
how much denser pairs are than they would be if their parts had nothing in common. No bins are chosen, and the bias is
small as long as there are few dimensions.

References: Kraskov, Stögbauer and Grassberger, Estimating mutual information, Physical Review E 69, 2004, first
estimator; Ross, Mutual information between discrete and continuous data sets, PLoS ONE 9, 2014.
"""

import math

import numpy as np
from jaxtyping import Float, Int
from scipy.spatial import cKDTree
from scipy.special import digamma

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.information.estimates.result import MutualInformationEstimate, around
from chainrule.information.estimates.samples import NotSuited, Variable, sentences, standardised

TIES = 1e-10
"""Deviation of the noise that breaks ties, in deviations of a column."""
_MANY = 10
"""Dimensions above which neighbours are far away."""
_DISTINCT = 0.9
"""Share of different values below which those that are equal count."""
_CEILING = 0.8
"""Share of the largest value that n pairs can have above which dependence may be stronger than they tell."""


def ksg(
    where: str, x: Variable, y: Variable, rng: np.random.Generator, *, k: int = 3
) -> MutualInformationEstimate:
    """Mutual information in nats, from the distances to the k-th neighbours in the largest coordinate."""
    whole(where, "k", k)
    n = len(x)
    if k >= n:
        raise ArgumentError(
            f"{where}(k={k}): each of {n} pairs has {n - 1} neighbours", remedy="use a k of 3 to 10"
        )
    if x.is_discrete and y.is_discrete:
        raise NotSuited(
            f'{where}(method="ksg"): labels have no neighbours',
            remedy='method="binning" counts pairs of labels; discrete="none" takes whole numbers for numbers',
        )
    if x.labels is not None:
        terms = _with_labels(_jittered(y, rng), x.labels, k)
    elif y.labels is not None:
        terms = _with_labels(_jittered(x, rng), y.labels, k)
    else:
        terms = _of_numbers(_jittered(x, rng), _jittered(y, rng), k)
    value, error = float(terms.mean()), float(terms.std(ddof=1) / math.sqrt(len(terms)))
    most = float(digamma(n) - digamma(k))
    dimensions = sum(one.rows.shape[1] for one in (x, y) if not one.is_discrete)
    return MutualInformationEstimate(
        "ksg",
        value,
        around(value, error),
        "nats",
        "estimate",
        "95 % over draws of the pairs; bias is not in it",
        sentences(
            [
                f"It takes densities to be even within {k} neighbours; the bias grows with dependence and dimension.",
                f"{dimensions} dimensions are more than {_MANY}: neighbours are far away and the value is too low."
                if dimensions > _MANY
                else "",
                f"It is near what {n:,} pairs can tell at most, log n less a little: {most:.3g} nats."
                if value > _CEILING * most
                else "",
                *(_repeated(name, one) for name, one in (("x", x), ("y", y))),
                f"{n - len(terms)} pairs with a label of their own are left out." if len(terms) < n else "",
            ]
        ),
        n,
    )


def _repeated(name: str, one: Variable) -> str:
    """What to say of numbers that are there more than once, as those of labels and of rounded measurements are."""
    if one.is_discrete:
        return ""
    different = len(np.unique(one.rows, axis=0) if one.rows.shape[1] > 1 else np.unique(one.rows))
    if different > _DISTINCT * len(one):
        return ""
    return (
        f"{name} has only {different:,} different values: equal ones are told apart by chance, which makes the value "
        f'wrong; discrete="{name}" takes them for labels.'
    )


def _jittered(one: Variable, rng: np.random.Generator) -> Float[np.ndarray, "n features"]:
    """Standardised columns, because both sides of a square are measured by one length, with no two values the same."""
    rows = standardised(one.rows)
    return rows + TIES * rng.standard_normal(rows.shape)


def _of_numbers(
    x: Float[np.ndarray, "n first"], y: Float[np.ndarray, "n second"], k: int
) -> Float[np.ndarray, " n"]:
    both = np.concatenate([x, y], axis=1)
    reach = cKDTree(both).query(both, [k + 1], p=np.inf, workers=-1)[0][:, 0]
    nearer = [
        digamma(_within(side, reach)) for side in (x, y)
    ]  # each value counts itself, which is the one to add
    return digamma(k) + digamma(len(x)) - nearer[0] - nearer[1]


def _with_labels(
    rows: Float[np.ndarray, "n features"], labels: Int[np.ndarray, " n"], k: int
) -> Float[np.ndarray, " pairs"]:
    """Neighbours are those of the same label; values with a label of their own have none and are left out."""
    counts = np.bincount(labels)[labels]
    kept = counts > 1
    if not kept.any():
        raise NotSuited(
            "every label is there once: neighbours of the same label are needed",
            remedy='discrete="none" takes labels that are numbers for numbers',
        )
    rows, labels, counts = rows[kept], labels[kept], counts[kept]
    reach, used = np.zeros(len(rows)), np.minimum(k, counts - 1)
    for label in np.unique(labels):
        same = np.flatnonzero(labels == label)
        near = int(used[same[0]])
        reach[same] = cKDTree(rows[same]).query(rows[same], [near + 1], p=np.inf, workers=-1)[0][:, 0]
    return digamma(len(rows)) + digamma(used) - digamma(counts) - digamma(_within(rows, reach))


def _within(rows: Float[np.ndarray, "n features"], reach: Float[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """How many rows, each itself among them, are strictly nearer than its reach in the largest coordinate."""
    if rows.shape[1] > 1:
        closer = np.nextafter(reach, 0)
        return cKDTree(rows).query_ball_point(rows, closer, p=np.inf, workers=-1, return_length=True)
    return _within_line(rows[:, 0], reach)


def _within_line(values: Float[np.ndarray, " n"], reach: Float[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """The same on a line, where sorting answers; the sums that are searched for are rounded, so the ends are compared.

    >>> _within_line(np.array([0.0, 1.0, 3.0]), np.array([1.0, 2.5, 2.0])).tolist()
    [1, 3, 1]
    """
    order = np.argsort(values, kind="stable")
    sorted_, far = values[order], reach[order]
    last = len(values) - 1
    low = np.searchsorted(sorted_, sorted_ - far, side="right")
    low += sorted_ - sorted_[np.minimum(low, last)] >= far
    low -= (low > 0) & (sorted_ - sorted_[np.maximum(low - 1, 0)] < far)
    high = np.searchsorted(sorted_, sorted_ + far, side="left")
    high -= sorted_[np.maximum(high - 1, 0)] - sorted_ >= far
    high += (high <= last) & (sorted_[np.minimum(high, last)] - sorted_ < far)
    counts = np.empty(len(values), np.int64)
    counts[order] = np.maximum(high - low, 1)
    return counts


__all__ = ["TIES", "ksg"]
