"""Classes of independent entries with few values each, from counts: naive Bayes for bits, levels and tokens.

Every entry of a class takes value v with probability `(n_v + a) / (n + a V)`, n_v being how often it did and a the
pseudo-count: the mean of the posterior under a symmetric Dirichlet prior. With a = 0 it is that of maximum likelihood,
and what never came is impossible.

Reference: Manning, Raghavan and Schütze, Introduction to Information Retrieval, chapter 13, 2008.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from chainrule.core.errors import ArgumentError


class CountedClasses(NamedTuple):
    """What was found."""

    counts: Float[np.ndarray, " classes"]
    """Examples of each class, by their weights."""
    log_probs: Float[np.ndarray, "classes entries values"]
    """Logarithm of the probability of every value of every entry."""


def count_classes(
    x: Int[np.ndarray, "rows entries"],
    y: Int[np.ndarray, " rows"],
    classes: int,
    values: int,
    *,
    pseudo_count: float = 1.0,
    weights: Float[np.ndarray, " rows"] | None = None,
) -> CountedClasses:
    """Probabilities of the values 0 to `values - 1` of every entry in every class.

    A negative value is no value: it is not counted.

    >>> found = count_classes(np.array([[1], [1], [0]]), np.array([0, 0, 1]), 2, 2)
    >>> np.exp(found.log_probs[:, 0]).round(3).tolist()
    [[0.25, 0.75], [0.667, 0.333]]
    """
    each = np.ones(len(x)) if weights is None else np.asarray(weights, np.float64)
    totals = np.bincount(y, each, minlength=classes)
    if not (totals > 0).all():
        raise ArgumentError(
            f"count_classes: class {int(np.flatnonzero(totals <= 0)[0])} has no examples",
            remedy="leave the class out, or give examples of it",
        )
    entries = x.shape[1]
    where = (np.asarray(y)[:, None] * entries + np.arange(entries)) * values + x
    seen = x >= 0
    mass = np.broadcast_to(each[:, None], x.shape)[seen]
    counted = np.bincount(where[seen], mass, minlength=classes * entries * values)
    found = counted.reshape(classes, entries, values) + pseudo_count
    with np.errstate(divide="ignore"):  # what is impossible has probability 0
        return CountedClasses(totals, np.log(found) - np.log(found.sum(axis=-1, keepdims=True)))


__all__ = ["CountedClasses", "count_classes"]
