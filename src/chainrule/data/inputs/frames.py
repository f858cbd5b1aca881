"""Data frames of whatever library: something with named columns, each of which NumPy can read.

No such library is needed or imported.
"""

from collections.abc import Collection, Iterable
from typing import Any, Protocol, runtime_checkable

import numpy as np

from chainrule.data.readers.raw import cell_text


@runtime_checkable
class Frame(Protocol):
    """What pandas, Polars and others call a data frame."""

    @property
    def columns(self) -> Iterable[Any]:
        """Names of the columns."""

    def __getitem__(self, name: Any, /) -> Any:
        """A column by its name."""


def columns_of(frame: Frame) -> dict[str, np.ndarray]:
    """The columns of a data frame by their names."""
    return {str(name): np.asarray(frame[name]) for name in frame.columns}


def cells(column: np.ndarray) -> list[str]:
    """The values of a column as a table in a file would have them; what is missing is an empty cell.

    >>> cells(np.array([1.5, np.nan])), cells(np.array(["a", None], object)), cells(np.array(["2024-05-01"], "M8[ns]"))
    (['1.5', ''], ['a', ''], ['2024-05-01'])
    """
    if column.dtype.kind == "M":
        column = column.astype("M8[us]")  # what Python has dates for
    return ["" if value != value else cell_text(value) for value in column.tolist()]


def as_written(name: str, column: np.ndarray, features: Collection[str]) -> np.ndarray:
    """A column of truth values in the words that the training table has for them; numbers if it has none.

    >>> as_written("new", np.array([True, False]), ["size", "new=False", "new=True"]).tolist()
    ['True', 'False']
    """
    if column.dtype != np.bool_:
        return column
    for words in (("True", "False"), ("true", "false"), ("TRUE", "FALSE"), ("yes", "no")):
        if any(f"{name}={word}" in features for word in words):
            return np.where(column, *words)
    return column.astype(np.int64)


__all__ = ["Frame", "as_written", "cells", "columns_of"]
