"""Linear solvers for the Jacobian A = dF/dw: one factorisation, one handle, every product."""

from chainrule.derive.implicit.linear.banded import Banded
from chainrule.derive.implicit.linear.dense import LU, Cholesky, LeastSquares
from chainrule.derive.implicit.linear.krylov import Krylov
from chainrule.derive.implicit.linear.linear_solver import Factor, LinearSolver, PreparedSolver, System
from chainrule.derive.implicit.linear.neumann import Neumann
from chainrule.derive.implicit.linear.sparse import Sparse

__all__ = [
    "LU",
    "Banded",
    "Cholesky",
    "Factor",
    "Krylov",
    "LeastSquares",
    "LinearSolver",
    "Neumann",
    "PreparedSolver",
    "Sparse",
    "System",
]
