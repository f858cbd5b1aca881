"""Pairs of values as users give them: numbers in rows, or labels, checked once at the public edge."""

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


class NotSuited(ArgumentError):
    """A method does not apply to variables of this kind."""


@final
@dataclass(frozen=True)
class Variable:
    """One of the two variables: numbers, or the numbers of labels."""

    rows: Float[np.ndarray, "n features"]
    """Values, a row each; of labels a column for each, one where it is the label."""
    labels: Int[np.ndarray, " n"] | None
    """Numbers of the labels; none of a variable of numbers."""

    @property
    def is_discrete(self) -> bool:
        """Whether it has labels."""
        return self.labels is not None

    def __len__(self) -> int:
        return len(self.rows)

    def taken(self, which: Any) -> "Variable":
        """Some of the values, in any order."""
        return Variable(self.rows[which], None if self.labels is None else self.labels[which])


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
    array = np.asarray(given)
    if not array.ndim:
        raise ArgumentError(f"{where}({name}): one value for each pair, along the first axis, is needed")
    return array.reshape(len(array), -1) if array.size else array.reshape(len(array), 0)


def _variable(where: str, name: str, array: np.ndarray, discrete: str) -> Variable:
    labelled = array.dtype.kind not in "f" if discrete == "auto" else discrete in (name, "both")
    if labelled:
        return labels_of(array)
    try:
        rows = array.astype(np.float64)
    except (TypeError, ValueError):
        raise ArgumentError(f"{where}({name}): these are not numbers", remedy=f"discrete={name}") from None
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
    known, numbers = np.unique(flat, axis=0 if flat.ndim > 1 else None, return_inverse=True)
    labels = numbers.reshape(-1)
    return Variable((labels[:, None] == np.arange(len(known))[None]).astype(np.float64), labels)


def standardised(rows: Float[np.ndarray, "n features"]) -> Float[np.ndarray, "n features"]:
    """Every column with mean zero and variance one; constant ones stay constant."""
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
