"""Networks constructed instead of trained, and the pieces of piecewise-linear networks.

Exact piecewise-linear functions, truth tables, polygons, approximations with a bound, tent maps; the regions on which a
ReLU network is affine.
"""

from chainrule.nn.constructions import regions
from chainrule.nn.constructions.approximation import (
    Approximation,
    approximate,
    approximate_cells,
    interpolate,
)
from chainrule.nn.constructions.boolean import corners, truth_table, xor
from chainrule.nn.constructions.depth import separation, tent
from chainrule.nn.constructions.graph import GraphLayer
from chainrule.nn.constructions.linear import least_squares
from chainrule.nn.constructions.maximum import maximum
from chainrule.nn.constructions.network import (
    Network,
    affine,
    collapse,
    from_columns,
    mlp,
    states,
    to_columns,
)
from chainrule.nn.constructions.piecewise import PiecewiseLinear, compile_piecewise, extract, pieces
from chainrule.nn.constructions.polygons import convex, polygon, union

__all__ = [
    "Approximation",
    "GraphLayer",
    "Network",
    "PiecewiseLinear",
    "affine",
    "approximate",
    "approximate_cells",
    "collapse",
    "compile_piecewise",
    "convex",
    "corners",
    "extract",
    "from_columns",
    "interpolate",
    "least_squares",
    "maximum",
    "mlp",
    "pieces",
    "polygon",
    "regions",
    "separation",
    "states",
    "tent",
    "to_columns",
    "truth_table",
    "union",
    "xor",
]
