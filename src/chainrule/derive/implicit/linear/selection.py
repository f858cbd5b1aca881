"""Linear solvers by name, and the automatic choice by size."""

from dataclasses import dataclass
from typing import Any, final

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.derive.implicit.linear.banded import Banded
from chainrule.derive.implicit.linear.dense import LU, Cholesky
from chainrule.derive.implicit.linear.krylov import Krylov
from chainrule.derive.implicit.linear.linear_solver import LinearSolver, PreparedSolver
from chainrule.derive.implicit.linear.sparse import Sparse

_MOST_DENSE = 2000
_NAMED: dict[str, LinearSolver] = {
    "lu": LU(),
    "cholesky": Cholesky(),
    "banded": Banded(),
    "sparse": Sparse(),
    "gmres": Krylov("gmres"),
    "bicgstab": Krylov("bicgstab"),
    "cg": Krylov("cg"),
}


def chosen(where: str, linear: Any) -> LinearSolver:
    """The way of that name, or the one given."""
    if isinstance(linear, LinearSolver):
        return linear
    if not isinstance(linear, str):
        raise ArgumentError(
            f"{where}(linear={linear!r}): a name or a Linear is needed", remedy=f"names: {', '.join(_NAMED)}"
        )
    check_choice(where, "linear", linear, _NAMED)
    return _NAMED[linear]


@final
@dataclass(frozen=True)
class Automatic(LinearSolver):
    """Dense LU while n x n numbers are no trouble, GMRES above that."""

    def prepare(self, structure: Any, /) -> PreparedSolver:
        """Decide by the number of unknowns."""
        return LU() if structure.x.size <= _MOST_DENSE else Krylov("gmres")


__all__ = ["Automatic", "chosen"]
