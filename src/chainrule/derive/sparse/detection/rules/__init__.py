"""Propagation rules of operations, one module per kind; importing the package registers all of them."""

from chainrule.derive.sparse.detection.rules import (
    calling,
    contracting,
    elementwise,
    looping,
    moving,
    solving,
    sparse_matrices,
    summing,
)

__all__ = [
    "calling",
    "contracting",
    "elementwise",
    "looping",
    "moving",
    "solving",
    "sparse_matrices",
    "summing",
]
