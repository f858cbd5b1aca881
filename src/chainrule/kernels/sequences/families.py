"""Families of made-up sequences: ancestors drawn at random, and descendants that mutated from them.

They look like families of proteins in that relatives share stretches and strangers do not, and in nothing else.
"""

from typing import NamedTuple

import numpy as np

from chainrule.core.checks import share, whole
from chainrule.core.types import Int
from chainrule.kernels.sequences.encoding import PROTEIN


class Families(NamedTuple):
    """Sequences by family."""

    names: list[str]
    sequences: list[str]
    labels: Int[np.ndarray, " sequences"]
    """The number of each sequence's family."""


def mutated_families(
    families: int = 4,
    members: int = 8,
    *,
    length: int = 60,
    mutation: float = 0.15,
    alphabet: str = PROTEIN,
    seed: int = 0,
) -> Families:
    """Random ancestors, one a family, and members in which each letter was replaced, lost or doubled by chance.

    Of the mutations four in five replace a letter; the others leave it out or put another one before it.

    >>> found = mutated_families(2, 3, length=8, mutation=0.1)
    >>> found.names[:2], found.labels.tolist(), len(found.sequences)
    (['family 1, member 1', 'family 1, member 2'], [0, 0, 0, 1, 1, 1], 6)
    """
    whole("mutated_families", "families", families)
    whole("mutated_families", "members", members)
    whole("mutated_families", "length", length)
    rate = share("mutated_families", "mutation", mutation, "the share of letters that change")
    random = np.random.default_rng(seed)
    letters = np.array(list(alphabet))
    names, sequences = [], []
    for family in range(families):
        ancestor = random.integers(len(letters), size=length)
        for member in range(members):
            names.append(f"family {family + 1}, member {member + 1}")
            sequences.append("".join(letters[_descendant(ancestor, len(letters), rate, random)]))
    return Families(names, sequences, np.repeat(np.arange(families), members))


def _descendant(ancestor: np.ndarray, size: int, rate: float, random: np.random.Generator) -> np.ndarray:
    fate, other = random.uniform(size=len(ancestor)), random.integers(size, size=len(ancestor))
    replaced = np.where(fate < 0.8 * rate, other, ancestor)
    lost = (fate >= 0.8 * rate) & (fate < 0.9 * rate)
    joined = (fate >= 0.9 * rate) & (fate < rate)
    copies = np.where(lost, 0, np.where(joined, 2, 1))
    if not copies.any():
        copies[0] = 1
    child = np.repeat(replaced, copies)
    child[(np.cumsum(copies) - copies)[joined]] = other[joined]
    return child


__all__ = ["Families", "mutated_families"]
