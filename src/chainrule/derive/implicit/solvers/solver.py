"""Interface of solvers: iterations on vectors that are never differentiated and report how far they went."""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, final

from chainrule.core.types import Array, Int, Scalar
from chainrule.derive.implicit.linear.linear_solver import Factor, PreparedSolver, Product, System


@final
@dataclass(frozen=True)
class SolverTask:
    """Find the x with f(x) = 0, from a first guess."""

    start: System
    """f, and the first guess."""
    linear: PreparedSolver
    """How to solve with the Jacobian of f, for those who want to."""
    objective: Callable[[Array], Scalar] | None = None
    """What f is the gradient of, if it is to be minimised."""
    residuals: Product | None = None
    """What the objective is half the sum of squares of, if it is."""

    @property
    def f(self) -> Product:
        """The function."""
        return self.start.f

    @property
    def x(self) -> Array:
        """The first guess."""
        return self.start.x


class SolverOutcome(NamedTuple):
    """Where a solver stopped."""

    x: Array
    steps: Int[Array, ""]
    factorisations: Int[Array, ""]
    factor: Factor | None = None
    """For derivatives to inherit."""


class Solver(abc.ABC):
    """An iteration. Instances are immutable and compare by value, so that their programs are compiled once."""

    @abc.abstractmethod
    def run(self, task: SolverTask) -> SolverOutcome:
        """Iterate until nothing more is to be gained; whether that is a solution is checked elsewhere."""


__all__ = ["Solver", "SolverOutcome", "SolverTask"]
