"""Colourings: the method, the colours, and how far they can be from the fewest possible."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

import numpy as np

from chainrule.core import notebook
from chainrule.derive.sparse.coloring import checking
from chainrule.derive.sparse.patterns import Pattern

TWO_SIDED = ("bidirectional", "bidirectional-acyclic")
"""Methods that colour rows as well as columns."""


class SideColors(NamedTuple):
    """Colours of rows and of columns; -1 stands for no product."""

    rows: np.ndarray
    columns: np.ndarray


@final
@dataclass(frozen=True)
class Coloring:
    """Colours for a pattern.

    Products of one colour are computed together, so `num_colors` is what a derivative costs: forward products for
    "column", reverse ones for "row", both for the bidirectional methods, second-order ones for "star" and "acyclic".
    """

    pattern: Pattern
    method: str
    order: str
    """The order, or other means, that gave these colours."""
    colors: np.ndarray | SideColors
    """One colour per column, row or vertex; for the bidirectional methods those of `rows` and of `columns`."""
    num_colors: int
    lower_bound: int
    """Fewer colours are impossible."""
    seconds: float
    counts: dict[str, int] = field(default_factory=dict)
    """Number of colours by order tried."""
    considered: dict[str, int] = field(default_factory=dict)
    """Number of colours by method, where "auto" chose among several."""

    @property
    def optimal(self) -> bool:
        """Whether no colouring of this kind can have fewer colours, as far as is known."""
        return self.num_colors <= self.lower_bound

    @property
    def forward(self) -> int:
        """Forward products (second-order ones for a symmetric method)."""
        return 0 if self.column_colors is None else int(self.column_colors.max(initial=-1)) + 1

    @property
    def reverse(self) -> int:
        """Reverse products."""
        return 0 if self.row_colors is None else int(self.row_colors.max(initial=-1)) + 1

    @property
    def row_colors(self) -> np.ndarray | None:
        """Colours of the rows, where reverse products are used."""
        if isinstance(self.colors, SideColors):
            return self.colors.rows
        return self.colors if self.method == "row" else None

    @property
    def column_colors(self) -> np.ndarray | None:
        """Colours of the columns, where forward products are used."""
        if isinstance(self.colors, SideColors):
            return self.colors.columns
        return None if self.method == "row" else self.colors

    def check(self) -> None:
        """Raise `ColoringError`, naming an entry, unless the colours do what the method promises."""
        pattern = self.pattern
        if isinstance(self.colors, SideColors):
            checking.check_sides(pattern, *self.colors, forests=self.method == "bidirectional-acyclic")
        elif self.method == "column":
            checking.check_groups(pattern.rows, pattern.cols, self.colors, ("row", "column"))
        elif self.method == "row":
            checking.check_groups(pattern.cols, pattern.rows, self.colors, ("column", "row"))
        else:
            checking.check_symmetric(pattern, self.colors, self.method)

    def groups(self) -> np.ndarray:
        """For every entry, in the order of the pattern, the product it is read from; forward ones come first."""
        from chainrule.derive.sparse.compression import recipe

        return recipe(self).groups

    def to_json(self) -> dict[str, Any]:
        """Plain values, without the colours themselves."""
        return {
            "method": self.method,
            "order": self.order,
            "num_colors": self.num_colors,
            "lower_bound": self.lower_bound,
            "seconds": self.seconds,
            "counts": self.counts,
            "considered": self.considered,
        }

    def to_svg(self) -> str:
        """The pattern with every entry in the colour it is read from."""
        from chainrule.derive.sparse.spy import spy

        return spy(self.pattern, self)

    def __repr__(self) -> str:
        bound = "the fewest possible" if self.optimal else f"at least {self.lower_bound} needed"
        return f"Coloring({self.method}, {self.num_colors} colours by {self.order}, {bound})"

    def _repr_html_(self) -> str:
        return notebook.drawing(self.to_svg(), repr(self))


__all__ = ["TWO_SIDED", "Coloring", "SideColors"]
