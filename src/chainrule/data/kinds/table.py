"""Tables: rows of numbers under named columns."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, final

import numpy as np

from chainrule.core.pictures import Picture, Table
from chainrule.data import targets
from chainrule.data.kind import Arranged, Kind
from chainrule.data.loading.levels import counted
from chainrule.data.previews import feature_cells, some, table, title_of
from chainrule.data.schema import Schema
from chainrule.data.target import Cells

if TYPE_CHECKING:
    from chainrule.data.dataset import Data
    from chainrule.data.inputs.protocol import Given, Inputs, Preparation

_SHOWN = 10


@final
class TableKind(Kind):
    """Features, standardised by the training rows; words are one feature for each."""

    noun: ClassVar[str] = "rows of a table"
    sample_count: ClassVar[int] = 10
    comparable: ClassVar[bool] = True
    can_be_binary: ClassVar[bool] = True
    has_rows: ClassVar[bool] = True
    axes: ClassVar[tuple[int, ...]] = (1, 2)

    def describe(self, schema: Schema, total: int) -> str:
        """How many rows and columns."""
        shape = "×".join(str(n) for n in schema.shape)
        return f"{total:,} rows of {shape} columns{targets.of(schema).describe(schema)}"

    def claims(self, x: np.ndarray, where: str) -> bool:
        """Numbers, or rows of anything but two."""
        del where
        return x.ndim == 1 or (x.ndim == 2 and x.shape[1] != 2)

    def arranged(self, x: np.ndarray, rows: np.ndarray | None, levels: int | None, where: str) -> Arranged:
        """Columns named by their numbers; they are standardised, unless they count levels."""
        columns = tuple(f"column {j}" for j in range(x.shape[1]))
        if levels is not None:
            return Arranged(counted(x, rows, levels, where), levels, columns)
        return Arranged(x, columns=columns, standardise=np.ones(x.shape[-1], bool))

    def inputs(self, given: "Given", prepared: "Preparation") -> "Inputs":
        """Rows of a CSV file, an array or a data frame."""
        from chainrule.data.inputs import tables

        return tables.inputs(given, prepared)

    def preview(self, data: "Data") -> Picture:
        """Some rows, with their targets behind."""
        x, y = some(data, _SHOWN)[:2]
        schema, target = data.schema, targets.of(data.schema)
        heads, behind = target.cells(schema, y) if target.given else ((), [()] * len(x))
        rows = [
            [*(float(f"{value:.6g}") for value in row), *cells] for row, cells in zip(x, behind, strict=True)
        ]
        return Table("data-table", title_of(data, len(x), "rows"), [*schema.columns, *heads], rows)

    def picture(
        self,
        schema: Schema,
        drawn: np.ndarray,
        names: Sequence[str] = (),
        *,
        real: np.ndarray | None = None,
        follows: np.ndarray | None = None,
        title: str = "Samples",
        caption: str = "",
    ) -> Picture:
        """The first rows."""
        del real, follows
        return table(schema, drawn, names, title, caption)

    def cells(self, schema: Schema, x: np.ndarray, most: int) -> Cells:
        """The first features."""
        return feature_cells(schema, x, most)


kind = TableKind()

__all__ = ["TableKind", "kind"]
