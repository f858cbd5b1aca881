"""Graph colouring for compressing sparse matrices: problem (a pattern) and method in, `Coloring` out."""

from chainrule.derive.sparse.coloring.checking import ColoringError
from chainrule.derive.sparse.coloring.methods import METHODS, choose, color
from chainrule.derive.sparse.coloring.orders import ORDERS
from chainrule.derive.sparse.coloring.result import TWO_SIDED, Coloring, SideColors

__all__ = ["METHODS", "ORDERS", "TWO_SIDED", "Coloring", "ColoringError", "SideColors", "choose", "color"]
