"""Optimal checkpointing of a chain by binomial schedules, after Griewank and Walther (2000).

With s snapshots (the starting state is one of them) and every step advanced at most r times, a chain of up to
C(s + r, s) steps can be reversed; the least number of advances for l steps is r l - C(s + r, r - 1).
"""

from dataclasses import dataclass
from math import comb
from typing import final

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


@final
@dataclass(frozen=True)
class BinomialSchedule:
    """What is run when, with a stack of snapshots of which the starting state is the first."""

    sweep: tuple[int, ...]
    """Forward: from each snapshot so many steps on, to the next; from the last to the end."""
    stores: tuple[tuple[int, int, int], ...]
    """Backward: (slot, step it holds, steps to advance): the state arrived at goes to the next slot."""
    reversals: tuple[tuple[int, int, int, int], ...]
    """Backward, the last step first: (stores before it, slot, step it holds, steps to advance) to the step's state."""

    @property
    def slots(self) -> int:
        """How many snapshots there are at once."""
        return 1 + max([len(self.sweep) - 1, *(slot + 1 for slot, _, _ in self.stores)])


def schedule(length: int, snapshots: int) -> BinomialSchedule:
    """The optimal schedule of a chain.

    >>> schedule(4, 2).sweep
    (1, 3)
    """
    sweep: list[int] = []
    stores: list[tuple[int, int, int]] = []
    reversals: list[tuple[int, int, int, int]] = []
    # (start, end, slot of the state at the start, snapshots, whether the forward pass stored the next one)
    parts = [(0, length, 0, snapshots, True)]
    waiting = 0
    while parts:
        start, end, slot, free, swept = parts.pop()
        if end - start == 1 or free == 1:
            if swept:
                sweep.append(end - start)
            for step in reversed(range(start, end)):
                reversals.append((waiting, slot, start, step - start))
                waiting = 0
            continue
        middle = start + split(end - start, free)
        if swept:
            sweep.append(middle - start)
        else:
            stores.append((slot, start, middle - start))
            waiting += 1
        parts += [(start, middle, slot, free, False), (middle, end, slot + 1, free - 1, swept)]
    return BinomialSchedule(tuple(sweep), tuple(stores), tuple(reversals))


__all__ = ["BinomialSchedule", "advances", "balanced", "repeats_needed", "reversible", "schedule", "split"]
