"""Division of examples into training, validation and test.

A division depends on the seed and the number of examples alone (and on their classes, whose shares it keeps), so the
same call divides in the same way on every machine. Every example belongs to exactly one split, and no split is empty
unless it is the test part and its share is 0.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from chainrule.core.errors import ArgumentError, DataError
from chainrule.data.batches import permute

NAMES = ("train", "val", "test")
# The epoch under which the training stream's shuffle is borrowed: far from any a run reaches.
_EPOCH = 2**62

Positions = Int[np.ndarray, " _"]


def check_shares(split: object) -> tuple[float, float, float]:
    """The three shares, if they can be used.

    >>> check_shares((0.8, 0.2))
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: split=(0.8, 0.2): split must be three positive numbers that add up to 1
           for example split=(0.8, 0.1, 0.1), or without a test part split=(0.9, 0.1, 0)
    """
    shares = list(split) if isinstance(split, list | tuple) else []
    fit = len(shares) == 3 and all(isinstance(share, int | float) and share >= 0 for share in shares)
    if not fit or min(shares[:2]) == 0 or abs(sum(shares) - 1) > 1e-6:
        raise ArgumentError(
            f"split={split!r}: split must be three positive numbers that add up to 1",
            remedy="for example split=(0.8, 0.1, 0.1), or without a test part split=(0.9, 0.1, 0)",
        )
    return float(shares[0]), float(shares[1]), float(shares[2])


def sizes(examples: int, shares: Sequence[float]) -> list[int]:
    """How many examples each share gets: the nearest number, at least one, and the rest for the first.

    >>> sizes(1797, (0.8, 0.1, 0.1)), sizes(4, (0.8, 0.1, 0.1)), sizes(4, (0.9, 0.1, 0))
    ([1437, 180, 180], [2, 1, 1], [3, 1, 0])
    """
    parts = sum(share > 0 for share in shares)
    if examples < parts:
        raise DataError(
            f"{examples} example{'s' * (examples != 1)} cannot be divided into {parts} parts",
            remedy=f"each of {', '.join(NAMES[:parts])} needs at least one",
        )
    others = [max(1, round(examples * share)) if share else 0 for share in shares[1:]]
    while sum(others) >= examples:
        others[others.index(max(others))] -= 1
    return [examples - sum(others), *others]


def divide(
    examples: int, shares: Sequence[float], seed: int, classes: Positions | None = None
) -> list[Positions]:
    """Positions of the examples of each share, in ascending order; classes keep their proportions within one example.

    >>> [part.tolist() for part in divide(10, (0.6, 0.2, 0.2), seed=0)]
    [[0, 2, 3, 5, 6, 7], [1, 4], [8, 9]]
    """
    order = permute(np.arange(examples, dtype=np.uint64), examples, seed, _EPOCH).astype(np.int64)
    if classes is not None:
        # The k-th of n members of a class stands at (k + 1/2) / n. In this order, any leading share of all examples
        # holds that share of every class.
        shuffled = classes[order]
        by_class = np.argsort(shuffled, kind="stable")
        _, start, count = np.unique(shuffled[by_class], return_index=True, return_counts=True)
        rank = np.empty(examples)
        rank[by_class] = (np.arange(examples) - np.repeat(start, count) + 0.5) / np.repeat(count, count)
        order = order[np.argsort(rank, kind="stable")]
    cuts = np.cumsum(sizes(examples, shares))[:-1]
    return [np.sort(part) for part in np.split(order, cuts)]


def complete(
    parts: Positions, shares: Sequence[float], seed: int, classes: Positions | None = None
) -> list[Positions]:
    """Positions of a division that comes with the data, with the splits it lacks taken out of training.

    Training and the missing splits share the official training examples in proportion to their shares.
    """
    given = [np.flatnonzero(parts == code) for code in range(3)]
    missing = [code for code in (1, 2) if not len(given[code]) and shares[code]]
    if not missing:
        return given
    codes = [0, *missing]
    whole = sum(shares[code] for code in codes)
    pool = given[0]
    taken = divide(
        len(pool), [shares[c] / whole for c in codes], seed, None if classes is None else classes[pool]
    )
    for code, indices in zip(codes, taken, strict=True):
        given[code] = pool[indices]
    return given


__all__ = ["NAMES", "Positions", "check_shares", "complete", "divide", "sizes"]
