"""The interface of column readings: how the cells of one column of a table become numbers.

Each way of reading is one file in `data/columns`, and the file is the registration. A cell is read in two steps: its
code, one number (the number itself, the position of a word in a list, the days of a date), and the features that the
code stands for. The reader of a table chooses a reading for every column once; training rows and rows that come years
later go through the same object.
"""

import abc
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

_MISSING = frozenset({"", "na", "n/a", "null"})


class CellFault(NamedTuple):
    """What is wrong with a cell."""

    kind: str
    """A word or two, the same for every fault of the kind."""
    detail: str

    @property
    def reason(self) -> str:
        """Kind and detail in one phrase."""
        return f"{self.kind}: {self.detail}"


class Hints(NamedTuple):
    """What is known about the writing of a table beforehand: options, and what other columns show."""

    where: str
    plain: bool = False
    """Whether numbers are written as 1234.5 only, and dates are words."""
    decimal: str = "auto"
    """"point", "comma", or "auto" where nothing is known."""
    dates: str = "auto"
    """"day-first", "month-first", or "auto" where nothing is known."""


class ColumnReading(abc.ABC):
    """How the cells of one column are read."""

    read_as: ClassVar[str]
    """The name of the file."""
    tells_time: ClassVar[bool] = False
    """Whether a cell says when a row was taken."""

    @property
    def way(self) -> str:
        """Default: the name of the file is what such columns are counted under."""
        return self.read_as

    @abc.abstractmethod
    def features(self, name: str) -> tuple[str, ...]:
        """Names of the features that a column of this name becomes."""

    @property
    @abc.abstractmethod
    def scaled(self) -> tuple[bool, ...]:
        """For each feature whether it is a quantity, to be standardised; marks and angles stay as they are."""

    @abc.abstractmethod
    def codes(self, cells: Sequence[str]) -> Float[np.ndarray, " rows"]:
        """One number for each cell, not finite where the cell cannot be read."""

    @abc.abstractmethod
    def expand(self, codes: Float[np.ndarray, " rows"]) -> Float[np.ndarray, "rows features"]:
        """The features that codes stand for; all of them NaN where the code is not finite."""

    @abc.abstractmethod
    def fault(self, cell: str, name: str) -> CellFault:
        """Why a cell that is not missing has no code; `name` is that of the column."""

    @abc.abstractmethod
    def describe(self) -> str:
        """What the cells are taken for, in a few words."""

    @abc.abstractmethod
    def shown(self, codes: Float[np.ndarray, " rows"]) -> str:
        """The range or some examples of finite codes, as a person would write them."""

    @abc.abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Plain values; `from_json` of the same class takes them."""

    @classmethod
    @abc.abstractmethod
    def from_json(cls, values: Mapping[str, Any]) -> "ColumnReading":
        """The reading written by `to_json`."""

    def restored(self, x: Float[np.ndarray, "rows features"]) -> Sequence[str | float] | None:
        """Default: features do not tell the cell again; otherwise the cell nearest to each row of them."""
        del x
        return None

    def impossible(self, x: Float[np.ndarray, "rows features"]) -> Bool[np.ndarray, " rows"]:
        """Default: any features may be those of a cell; otherwise the rows of features that are those of none."""
        return np.zeros(len(x), bool)

    def absent(self, cell: str) -> bool:
        """Default: a cell that says so in one of the usual ways holds nothing."""
        return is_missing(cell)


def is_missing(cell: str) -> bool:
    """Whether a cell says that there is no value.

    >>> is_missing("NA"), is_missing(""), is_missing("0")
    (True, True, False)
    """
    return cell.lower() in _MISSING


__all__ = ["CellFault", "ColumnReading", "Hints", "is_missing"]
