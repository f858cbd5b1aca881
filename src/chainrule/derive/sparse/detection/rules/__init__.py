"""What operations hand on, one module per kind. Importing the package enters all rules."""

from chainrule.derive.sparse.detection.rules import (
    calling,
    contracting,
    elementwise,
    looping,
    moving,
    sparse_matrices,
    summing,
)

__all__ = ["calling", "contracting", "elementwise", "looping", "moving", "sparse_matrices", "summing"]
