"""Ways to solve with the Jacobian A = dF/dw: one factorisation, one handle, every product."""

from chainrule.derive.implicit.linear.base import Factor, Linear, System
from chainrule.derive.implicit.linear.dense import LU, Cholesky, LeastSquares

__all__ = ["LU", "Cholesky", "Factor", "LeastSquares", "Linear", "System"]
