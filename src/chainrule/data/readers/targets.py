"""What targets mean: classes, labels or values.

Words are classes. Numbers are classes if they are whole and few, and values otherwise; several numbers for each example
are labels if all of them are 0 or 1. `target_as` overrules this.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Shaped

from chainrule.data.loading.options import Option, choice
from chainrule.data.loading.problems import Refused
from chainrule.data.schema import Target

MOST_CLASSES = 20
"""Whole numbers with more different values than this are taken for values."""

TARGET_AS = Option(
    "auto",
    choice("auto", "class", "labels", "value"),
    "whether targets are classes, labels (several of 0 or 1 for each example) or values",
)


def several(parse: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """What a parser takes, or a list of two or more of it."""
    return lambda value: [parse(one) for one in value] if isinstance(value, list | tuple) else parse(value)


class Targets(NamedTuple):
    """Targets in the form a split keeps them: class numbers, zeros and ones, or values."""

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


def of_numbers(
    values: Shaped[np.ndarray, "examples ..."], where: str, target_as: str, names: Sequence[str] = ()
) -> Targets:
    """Classes, labels or values from numbers; `names` are those of the columns where there are several.

    >>> of_numbers(np.array([3.0, 5.0, 3.0]), "dice.csv", "auto").classes
    ('3', '5')
    >>> of_numbers(np.array([0.5, 5.0, 3.0]), "lengths.csv", "auto").target
    'value'
    >>> of_numbers(np.array([[0, 1], [1, 1], [0, 0]]), "tags.npz", "auto").target
    'labels'
    """
    if target_as == "labels" or (target_as == "auto" and values.ndim == 2 and np.isin(values, (0, 1)).all()):
        return _labels(values, where, names)
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


def _labels(values: np.ndarray, where: str, names: Sequence[str]) -> Targets:
    """Zeros and ones; a label that never changes cannot be learnt and is refused."""
    if values.ndim != 2 or not np.isin(values, (0, 1)).all():
        detail = "several numbers for each example" if values.ndim != 2 else "every number to be 0 or 1"
        raise Refused("not labels", where, f"labels need {detail}", "use data.target_as=value or class")
    names = names or [f"label {place}" for place in range(values.shape[1])]
    for name, column in zip(names, values.T, strict=True):
        if np.all(column == column[0]):
            detail = f"label {name!r} is {int(column[0])} for every example"
            raise Refused("one class only", where, detail, "leave it out: it cannot be learnt")
    return Targets("labels", values.astype(np.uint8), tuple(names))


def _name(value: Any) -> str:
    return str(int(value))


__all__ = ["MOST_CLASSES", "TARGET_AS", "Targets", "of_numbers", "of_words", "several"]
