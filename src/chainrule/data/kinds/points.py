"""Points of a plane or a space, whose coordinates and distances mean something."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, final

import numpy as np

from chainrule.core.pictures import Picture, Scatter
from chainrule.data import targets
from chainrule.data.kind import Arranged, Kind
from chainrule.data.loading.levels import counted
from chainrule.data.previews import feature_cells, heads, some, table, title_of
from chainrule.data.schema import Schema
from chainrule.data.target import Cells

if TYPE_CHECKING:
    from chainrule.data.dataset import Data
    from chainrule.data.inputs.protocol import Given, Inputs, Preparation

_SHOWN = 2000


@final
class PointsKind(Kind):
    """Coordinates."""

    noun: ClassVar[str] = "points"
    sample_count: ClassVar[int] = 1000
    has_distances: ClassVar[bool] = True
    comparable: ClassVar[bool] = True
    can_be_binary: ClassVar[bool] = True
    has_rows: ClassVar[bool] = True
    axes: ClassVar[tuple[int, ...]] = (1, 2)

    def is_plane(self, schema: Schema) -> bool:
        """Two coordinates."""
        return schema.dimensions == 2

    def describe(self, schema: Schema, total: int) -> str:
        """How many, and of how many dimensions."""
        shape = "×".join(str(n) for n in schema.shape)
        dimensions = "dimension" if shape == "1" else "dimensions"
        return f"{total:,} points in {shape} {dimensions}{targets.of(schema).describe(schema)}"

    def claims(self, x: np.ndarray, where: str) -> bool:
        """Pairs of numbers."""
        del where
        return x.ndim == 2 and x.shape[1] == 2

    def arranged(self, x: np.ndarray, rows: np.ndarray | None, levels: int | None, where: str) -> Arranged:
        """Every coordinate is standardised, unless it counts levels."""
        if levels is not None:
            return Arranged(counted(x, rows, levels, where), levels)
        return Arranged(x, standardise=np.ones(x.shape[-1], bool))

    def inputs(self, given: "Given", prepared: "Preparation") -> "Inputs":
        """Rows of a CSV file, an array or a data frame."""
        from chainrule.data.inputs import tables

        return tables.inputs(given, prepared)

    def preview(self, data: "Data") -> Picture:
        """The first two coordinates, by class where there are classes."""
        x, y = some(data, _SHOWN)[:2]
        strata = targets.of(data.schema).strata(y)
        if strata is None:
            groups = {"points": x[:, :2]}
        else:
            groups = {name: x[strata == i, :2] for i, name in enumerate(data.schema.classes)}
        labels = (*data.schema.columns, "first coordinate", "second coordinate")
        return Scatter("data-points", title_of(data, len(x), "points"), labels[0], labels[1], groups)

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
        """The first two coordinates, beside those of real points where they are given."""
        del follows
        flat = drawn.reshape(len(drawn), -1)
        if flat.shape[1] < 2:
            return table(schema, drawn, names, title, caption)
        x_label, y_label = heads(schema, 2)
        groups = {} if real is None else {"data": real.reshape(len(real), -1)[:, :2]}
        if names:
            chosen = np.array(names)
            groups |= {name: flat[chosen == name, :2] for name in dict.fromkeys(names)}
        else:
            groups["samples"] = flat[:, :2]
        return Scatter("samples", title, x_label, y_label, groups, caption=caption)

    def cells(self, schema: Schema, x: np.ndarray, most: int) -> Cells:
        """The first coordinates."""
        return feature_cells(schema, x, most)


kind = PointsKind()

__all__ = ["PointsKind", "kind"]
