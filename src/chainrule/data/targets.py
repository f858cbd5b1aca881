"""What a column of targets means: classes or values.

Words are classes. Numbers are classes if they are whole and few, and values otherwise; `target_as` overrules this.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Shaped

from chainrule.data.base import Target
from chainrule.data.options import Option, choice
from chainrule.data.scan import Refused

MOST_CLASSES = 20
"""Whole numbers with more different values than this are taken for values."""

TARGET_AS = Option("auto", choice("auto", "class", "value"), "whether targets are classes or values")


class Targets(NamedTuple):
    """Targets in the form a split keeps them: class numbers or values."""

    target: Target
    y: np.ndarray
    classes: tuple[str, ...] = ()


def of_words(words: Sequence[str], where: str) -> Targets:
    """Classes from words, in alphabetical order.

    >>> of_words(["dog", "cat", "dog"], "pets.csv").y.tolist()
    [1, 0, 1]
    """
    classes = sorted(set(words))
    if len(classes) > max(MOST_CLASSES, len(words) // 2):
        raise Refused(
            "too many classes",
            where,
            f"the target has {len(classes):,} different words in {len(words):,} rows",
            "name another target: data.target=COLUMN, or none: data.target=none",
        )
    number = {name: i for i, name in enumerate(classes)}
    return Targets("class", np.array([number[word] for word in words], np.int32), tuple(classes))


def of_numbers(values: Shaped[np.ndarray, "examples ..."], where: str, target_as: str) -> Targets:
    """Classes or values from numbers.

    >>> of_numbers(np.array([3.0, 5.0, 3.0]), "dice.csv", "auto").classes
    ('3', '5')
    >>> of_numbers(np.array([0.5, 5.0, 3.0]), "lengths.csv", "auto").target
    'value'
    """
    whole = values.ndim == 1 and bool(np.all(values == np.rint(values)))
    distinct = np.unique(values) if whole else np.empty(0)
    if target_as == "class" and not whole:
        detail = (
            "classes must be whole numbers, one for each example"
            if values.ndim == 1
            else "one class per example"
        )
        raise Refused("not classes", where, detail, "use data.target_as=value")
    if target_as == "class" or (target_as == "auto" and whole and len(distinct) <= MOST_CLASSES):
        return Targets(
            "class", np.searchsorted(distinct, values).astype(np.int32), tuple(_name(v) for v in distinct)
        )
    return Targets("value", values.astype(np.float64))


def _name(value: Any) -> str:
    return str(int(value))


__all__ = ["MOST_CLASSES", "TARGET_AS", "Targets", "of_numbers", "of_words"]
