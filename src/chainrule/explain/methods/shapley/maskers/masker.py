"""Maskers: what stands in for features that are absent.

A model cannot be called with half of an input, so "without feature j" has to be given a meaning, and the meaning
decides what a Shapley value answers. A masker is that meaning: from one input and a coalition it makes inputs in which
the features of the coalition are kept, with weights over which the function is averaged.

Reference: Covert, Lundberg and Lee, Explaining by removing, 2021, arXiv:2011.14878.
"""

import abc
import hashlib
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import equinox as eqx
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from chainrule.core.errors import ArgumentError

Groups: TypeAlias = Mapping[str, Sequence[int]] | None
"""Names of groups with the columns, pixels or tokens of each; none: every entry for itself."""
GroupsByName: TypeAlias = Mapping[str, Sequence[int | str]] | None
"""The same, where columns may be given by their names."""


class Masker(eqx.Module):
    """Makes inputs in which some features are absent."""

    names: eqx.AbstractVar[tuple[str, ...]]
    """The players: features, or groups of them."""
    kind: eqx.AbstractVar[str]
    """What "absent" means, in words that pictures print."""
    fingerprint: eqx.AbstractVar[str]
    """A short hash of the background; empty where there is none."""
    owners: eqx.AbstractVar[Int[Array, "..."]]
    """The player that each entry of an input belongs to, -1 where none: for one input, or with a batch axis."""

    @property
    @abc.abstractmethod
    def samples(self) -> int:
        """How many inputs stand for one coalition."""

    @abc.abstractmethod
    def mixed(
        self, x: Array, mask: Bool[Array, " players"], which: Int[Array, ""]
    ) -> tuple[Array, Float[Array, " samples"]]:
        """Inputs (samples, ...) that keep what the coalition has of one input, and their weights, which sum to 1.

        `which` is the number of the input in its batch, for maskers that prepare something for each.
        """


def fingerprint_of(*arrays: np.ndarray) -> str:
    """A short hash of some arrays.

    >>> fingerprint_of(np.zeros(3)) == fingerprint_of(np.zeros(3)), len(fingerprint_of(np.ones(2)))
    (True, 12)
    """
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype}{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:12]


def grouped(
    where: str, count: int, names: Sequence[str] | None, groups: Groups
) -> tuple[tuple[str, ...], Int[np.ndarray, " features"]]:
    """The names of the players, and the player that each of `count` features belongs to.

    Features outside of all groups are players of their own.

    >>> grouped("shapley", 4, ["age", "red", "green", "blue"], {"colour": [1, 2, 3]})
    (('age', 'colour'), array([0, 1, 1, 1]))
    """
    own = [f"x{i + 1}" for i in range(count)] if names is None else [str(name) for name in names]
    if len(own) != count:
        raise ArgumentError(
            f"{where}: there are {len(own)} names for {count} features", remedy=f"give {count} names"
        )
    owner = np.full(count, -1)
    titles = list(groups or {})
    for number, title in enumerate(titles):
        for column in (groups or {})[title]:
            if not 0 <= column < count:
                raise ArgumentError(
                    f"{where}: group {title!r} has column {column}, inputs have {count}",
                    remedy=f"number columns from 0 to {count - 1}",
                )
            if owner[column] >= 0:
                raise ArgumentError(
                    f"{where}: column {column} is in the groups {titles[owner[column]]!r} and {title!r}",
                    remedy="put every column into one group",
                )
            owner[column] = number
    alone = [name for name, number in zip(own, owner.tolist(), strict=True) if number < 0]
    twice = [name for name in alone if alone.count(name) > 1 or name in titles]
    if twice:
        raise ArgumentError(
            f"{where}: two players are called {twice[0]!r}",
            remedy=f"give every feature a name of its own, or make them one player: groups={{{twice[0]!r}: [...]}}",
        )
    # Players stand in the order in which their first feature does.
    seen: dict[str, int] = {}
    found = np.zeros(count, np.int64)
    for column in range(count):
        title = titles[owner[column]] if owner[column] >= 0 else own[column]
        found[column] = seen.setdefault(title, len(seen))
    return tuple(seen), found


def windows(length: int, size: int) -> dict[str, list[int]]:
    """Stretches of a sequence as groups.

    >>> windows(5, 2)
    {'1-2': [0, 1], '3-4': [2, 3], '5-5': [4]}
    """
    return {
        f"{start + 1}-{min(start + size, length)}": list(range(start, min(start + size, length)))
        for start in range(0, length, size)
    }


__all__ = ["Groups", "GroupsByName", "Masker", "fingerprint_of", "grouped", "windows"]
