"""Optimal checkpointing of a chain by binomial schedules, after Griewank and Walther (2000).

With s snapshots (the starting state is one of them) and every step advanced at most r times, a chain of up to
C(s + r, s) steps can be reversed; the least number of advances for l steps is r l - C(s + r, r - 1).
"""

from math import comb

from chainrule.core.errors import ArgumentError


def reversible(snapshots: int, repeats: int) -> int:
    """The longest chain that s snapshots and r repeats reverse.

    >>> reversible(3, 3)
    20
    """
    return comb(snapshots + repeats, snapshots)


def repeats_needed(length: int, snapshots: int) -> int:
    """How often some step must be advanced at least.

    >>> repeats_needed(20, 3), repeats_needed(21, 3)
    (3, 4)
    """
    if snapshots < 1:
        raise ArgumentError(
            f"checkpoint(snapshots={snapshots}): at least one snapshot, the starting state, is needed"
        )
    repeats = 0
    while reversible(snapshots, repeats) < length:
        repeats += 1
    return repeats


def advances(length: int, snapshots: int) -> int:
    """The least number of steps run forward beyond recording each step once.

    >>> advances(20, 3)
    45
    """
    repeats = repeats_needed(length, snapshots)
    return repeats * length - comb(snapshots + repeats, repeats - 1) if repeats else 0


def split(length: int, snapshots: int) -> int:
    """How far to advance before the next snapshot, for a chain of at least two steps."""
    if snapshots == 1:
        return length - 1
    repeats = repeats_needed(length, snapshots)
    # The right part is reversed first, with one snapshot fewer; the left part later with all of them.
    least = max(length - reversible(snapshots - 1, repeats), reversible(snapshots, max(repeats - 2, 0)), 1)
    most = min(reversible(snapshots, repeats - 1), length - 1)
    return min(least, most)


def balanced(length: int) -> int:
    """As many snapshots as repeats: memory and recomputation both grow like the logarithm of the length.

    >>> balanced(20), balanced(1)
    (3, 1)
    """
    snapshots = 1
    while reversible(snapshots, snapshots) < length:
        snapshots += 1
    return snapshots


__all__ = ["advances", "balanced", "repeats_needed", "reversible", "split"]
