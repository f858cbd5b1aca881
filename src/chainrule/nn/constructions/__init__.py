"""Networks made on purpose instead of by training: exact piecewise-linear functions, truth tables, polygons."""

from chainrule.nn.constructions.boolean import corners, truth_table, xor
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

__all__ = [
    "Network",
    "PiecewiseLinear",
    "affine",
    "collapse",
    "compile_piecewise",
    "corners",
    "extract",
    "from_columns",
    "maximum",
    "mlp",
    "pieces",
    "states",
    "to_columns",
    "truth_table",
    "xor",
]
