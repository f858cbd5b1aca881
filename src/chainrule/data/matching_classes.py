"""Classes of two domains under one numbering: by position where the names agree, by a map where they do not.

Names that differ only by case or order are most likely the same classes, but a guess would be silent and a wrong one
would look like a bad method. So the mapping is shown, and used when it is asked for.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from jaxtyping import Int

from chainrule.core.errors import ArgumentError, DataError

LabelMap = Mapping[str, str] | Literal["names"]
"""Names of target classes to names of source classes; "names": those that agree but for case."""


def matched(source: Sequence[str], target: Sequence[str], label_map: LabelMap | None) -> list[int] | None:
    """For each class of the target its number in the source; none where the two have different classes.

    >>> matched(["cat", "dog"], ["Dog", "Cat"], "names")
    [1, 0]
    """
    if label_map is None:
        if tuple(source) == tuple(target):
            return list(range(len(source)))
        if sorted(map(str.casefold, source)) == sorted(map(str.casefold, target)):
            found = _by_name(source, target)
            shown = ", ".join(f"{name} → {source[i]}" for name, i in zip(target, found, strict=True))
            raise DataError(
                "the classes of source and target differ by case or order only",
                remedy=f'to take them for each other ({shown}): label_map="names", or give a map of your own',
            )
        return None
    if label_map == "names":
        found = _by_name(source, target)
        if -1 in found:
            raise ArgumentError(
                f'label_map="names": the source has no class {target[found.index(-1)]!r}',
                remedy="give a map of names: label_map={'target class': 'source class'}",
            )
        return found
    return [_number(name, source, label_map) for name in target]


def _by_name(source: Sequence[str], target: Sequence[str]) -> list[int]:
    exact = {name: number for number, name in enumerate(source)}
    folded = {name.casefold(): number for number, name in enumerate(source)}
    return [exact.get(name, folded.get(name.casefold(), -1)) for name in target]


def _number(name: str, source: Sequence[str], label_map: Mapping[str, str]) -> int:
    wanted = label_map.get(name)
    if wanted is None:
        raise ArgumentError(f"label_map: the target class {name!r} is not in it", remedy="name every class")
    if wanted not in source:
        raise ArgumentError(
            f"label_map: {name!r} goes to {wanted!r}, which is no class of the source",
            remedy=f"its classes: {', '.join(source[:12])}",
        )
    return list(source).index(wanted)


def some_of_each(y: Int[np.ndarray, " rows"], count: int, seed: int) -> Int[np.ndarray, " chosen"]:
    """Rows drawn at random, so many of each class, all where a class has fewer.

    >>> some_of_each(np.array([0, 0, 1, 1, 1]), 1, seed=0).shape
    (2,)
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    return np.sort(np.concatenate([order[y[order] == label][:count] for label in np.unique(y)]))


__all__ = ["LabelMap", "matched", "some_of_each"]
