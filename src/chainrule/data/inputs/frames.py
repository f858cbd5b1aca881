"""Data frames of whatever library: something with named columns, each of which NumPy can read.

No such library is needed or imported.
"""

from collections.abc import Iterable
from typing import Any, Protocol, runtime_checkable

import numpy as np


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
        written = np.datetime_as_string(column, unit="s").tolist()
        return ["" if text == "NaT" else text.removesuffix("T00:00:00").replace("T", " ") for text in written]
    return ["" if value is None or value != value else str(value) for value in column.tolist()]


__all__ = ["Frame", "cells", "columns_of"]
