"""Targets from words and numbers: classes, labels or values.

Words are classes. Numbers are what one of the targets claims them to be (few whole ones are classes, several zeros and
ones for each example are labels) and values otherwise; `target_as` overrules this.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Shaped

from chainrule.data import targets
from chainrule.data.loading.options import Option, choice
from chainrule.data.target import ReadTargets

AUTO = "auto"
"""The value of `target_as` that leaves the choice to the targets themselves."""


def _target_as(value: Any) -> str:
    return choice(AUTO, *(name for name in targets.names() if targets.get(name).of_numbers))(value)


TARGET_AS = Option(
    AUTO,
    _target_as,
    "whether targets are classes, labels (several of 0 or 1 for each example) or values",
)


def several(parse: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """What a parser takes, or a list of two or more of it."""
    return lambda value: [parse(one) for one in value] if isinstance(value, list | tuple) else parse(value)


def wants_words(target_as: str) -> bool:
    """Whether `target_as` says that targets are to be read as words."""
    return target_as != AUTO and targets.get(target_as).of_words


def wants_numbers(target_as: str) -> bool:
    """Whether `target_as` says that targets are to be read as numbers and nothing else."""
    return target_as != AUTO and not targets.get(target_as).of_words


def wants_identities(target_as: str) -> bool:
    """Whether `target_as` says that targets are identities, of which a list may also tell angles."""
    return target_as != AUTO and targets.get(target_as).has_identity


def wants_labels(target_as: str) -> bool:
    """Whether `target_as` says that an example may have several labels."""
    return target_as != AUTO and targets.get(target_as).has_labels


def of_tags(tags: Sequence[Sequence[str]], where: str) -> ReadTargets:
    """Labels from the names of those that each example has; empty names are none.

    >>> of_tags([["dog", "cat"], ["cat"], [""]], "pets.csv").y.tolist()
    [[1, 1], [1, 0], [0, 0]]
    """
    names = sorted({tag for own in tags for tag in own if tag})
    marks = np.array([[name in own for name in names] for own in tags], np.float64)
    return targets.get("labels").from_numbers(marks.reshape(len(tags), -1), where, names)


def of_words(words: Sequence[str], where: str, target_as: str = AUTO) -> ReadTargets:
    """Classes from words, or what else `target_as` says that words are.

    >>> of_words(["dog", "cat", "dog"], "pets.csv").classes
    ('cat', 'dog')
    """
    return targets.get(target_as if wants_words(target_as) else "class").from_words(words, where)


def of_numbers(
    values: Shaped[np.ndarray, "examples ..."], where: str, target_as: str, names: Sequence[str] = ()
) -> ReadTargets:
    """Classes, labels or values from numbers; `names` are those of the columns where there are several.

    >>> of_numbers(np.array([0.5, 5.0, 3.0]), "lengths.csv", "auto").target
    'value'
    >>> of_numbers(np.array([[0, 1], [1, 1], [0, 0]]), "tags.npz", "auto").target
    'labels'
    """
    if target_as == AUTO:
        target_as = next((name for name in targets.names() if targets.get(name).claims(values)), "value")
    return targets.get(target_as).from_numbers(values, where, names)


__all__ = [
    "AUTO",
    "TARGET_AS",
    "of_numbers",
    "of_tags",
    "of_words",
    "several",
    "wants_identities",
    "wants_labels",
    "wants_numbers",
    "wants_words",
]
