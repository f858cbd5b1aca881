"""Pairs of values as users give them: numbers in rows, or labels, checked once at the public edge."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, final

import numpy as np
from jaxtyping import Float, Int

from chainrule.core.errors import ArgumentError, check_choice

Discrete: TypeAlias = Literal["auto", "none", "x", "y", "both"]
DISCRETE = ("auto", "none", "x", "y", "both")
LEAST = 20
"""Pairs below which no method says anything."""
_MOST_ENTRIES = 2**26
"""Numbers of a table with a column for each label, at most."""


class NotSuited(ArgumentError):
    """A method does not apply to variables of this kind."""


@final
@dataclass(frozen=True, eq=False)
class Variable:
    """One of the two variables: numbers, or labels."""

    numbers: Float[np.ndarray, "n features"] | None
    """Values, a row each; none of labels."""
    labels: Int[np.ndarray, " n"] | None
    """Numbers of the labels; none of a variable of numbers."""

    @property
    def is_discrete(self) -> bool:
        """Whether it has labels."""
        return self.labels is not None

    @functools.cached_property
    def rows(self) -> Float[np.ndarray, "n features"]:
        """Values, a row each; of labels a column for each, one where it is the label, where these are not too many."""
        if self.numbers is not None:
            return self.numbers
        assert self.labels is not None, "a variable has numbers or labels"
        count = int(self.labels.max()) + 1
        if count * len(self) > _MOST_ENTRIES:
            raise NotSuited(
                f"{len(self):,} values are {count:,} different labels, and a network needs a column for each",
                remedy='discrete="none" takes labels that are numbers for numbers; method="binning" counts pairs',
            )
        return (self.labels[:, None] == np.arange(count)[None]).astype(np.float64)

    def __len__(self) -> int:
        one = self.labels if self.numbers is None else self.numbers
        return 0 if one is None else len(one)


def pair(where: str, x: Any, y: Any, discrete: str = "auto") -> tuple[Variable, Variable]:
    """Both variables; whole numbers, truth values and words are labels unless `discrete` says otherwise.

    >>> first, second = pair("mi", np.linspace(0, 1, 20), np.arange(20) % 3)
    >>> first.is_discrete, second.is_discrete, second.rows.shape
    (False, True, (20, 3))
    """
    check_choice(where, "discrete", discrete, DISCRETE)
    arrays = [_array(where, name, given) for name, given in (("x", x), ("y", y))]
    if len(arrays[0]) != len(arrays[1]):
        raise ArgumentError(
            f"{where}: x has {len(arrays[0]):,} values and y {len(arrays[1]):,}; they come in pairs",
            remedy="give both as many rows, in the same order",
        )
    if len(arrays[0]) < LEAST:
        raise ArgumentError(
            f"{where}: {len(arrays[0])} pairs tell nothing about how two variables depend on each other",
            remedy=f"give at least {LEAST}",
        )
    first, second = (
        _variable(where, name, array, discrete) for name, array in zip(("x", "y"), arrays, strict=True)
    )
    return first, second


def _array(where: str, name: str, given: Any) -> np.ndarray:
    try:
        array = np.asarray(given)
    except ValueError:
        raise ArgumentError(f"{where}({name}): needs one row as long as the other") from None
    if not array.ndim:
        raise ArgumentError(f"{where}({name}): one value for each pair, along the first axis, is needed")
    if len(array) and not array.size:
        raise ArgumentError(f"{where}({name}): has no columns, shape {array.shape}")
    return array.reshape(len(array), -1 if array.size else 1)


def _variable(where: str, name: str, array: np.ndarray, discrete: str) -> Variable:
    labelled = array.dtype.kind not in "f" if discrete == "auto" else discrete in (name, "both")
    if labelled:
        return labels_of(array)
    try:
        rows = array.astype(np.float64)
    except (TypeError, ValueError):
        raise ArgumentError(
            f"{where}({name}): these are not numbers", remedy=f'discrete="{name}" takes them for labels'
        ) from None
    wrong = ~np.isfinite(rows).all(axis=1)
    if wrong.any():
        raise ArgumentError(
            f"{where}({name}): value {int(np.argmax(wrong))} has an entry that is not finite",
            remedy="leave such pairs out of both x and y",
        )
    return Variable(rows, None)


def labels_of(array: np.ndarray) -> Variable:
    """A variable whose different values (rows) are its labels."""
    flat = array[:, 0] if array.shape[1] == 1 else array
    if flat.dtype.kind == "O":
        flat = flat.astype(str)
    _, numbers = np.unique(flat, axis=0 if flat.ndim > 1 else None, return_inverse=True)
    return Variable(None, numbers.reshape(-1))


def standardised(rows: Float[np.ndarray, "n features"]) -> Float[np.ndarray, "n features"]:
    """Every column with mean zero and variance one; constant ones stay constant."""
    largest = np.abs(rows).max(axis=0, initial=0.0)
    rows = (
        rows / np.where(largest > 0, largest, 1.0)[None]
    )  # squares of very large and small numbers have no room
    spread = rows.std(axis=0)
    return (rows - rows.mean(axis=0)[None]) / np.where(spread > 0, spread, 1.0)[None]


def sentences(parts: Sequence[str]) -> str:
    """Those that say anything, one after the other."""
    return " ".join(part for part in parts if part)


__all__ = [
    "DISCRETE",
    "LEAST",
    "Discrete",
    "NotSuited",
    "Variable",
    "labels_of",
    "pair",
    "sentences",
    "standardised",
]
