"""Results of programs: solutions, statistics, status."""

import enum
from typing import NamedTuple, final

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from chainrule.core.types import Scalar, Tree
from chainrule.derive.implicit.report import SolutionReport, first_failure, largest


class Status(enum.IntEnum):
    """How solving a program ended, as the number in `stats.status`."""

    SOLVED = 0
    INFEASIBLE = 1
    """No point satisfies all constraints."""
    UNBOUNDED = 2
    """The objective has no lower bound on the points that do."""
    STUCK = 3
    """Neither a solution nor a proof that there is none was found."""
    DEPENDENT = 4
    """A row of A is a combination of the rows before it."""
    NONCONVEX = 5
    """P has a negative eigenvalue."""


class Ray(NamedTuple):
    """A proof that a program has no solution; all zero where it has one.

    Infeasible: A'y + G'z = 0, z >= 0 and b'y + h'z = -1 (for a linear program A'y <= 0 and b'y = 1). Unbounded:
    Ax = 0, Gx <= 0, Px = 0 and q'x = -1 (for a linear program Ax = 0, x >= 0 and c'x = -1).
    """

    x: Array | np.ndarray
    y: Array | np.ndarray
    z: Array | np.ndarray


@final
class ProgramStats(eqx.Module):
    """How a program was solved. `Status(int(stats.status)).name` is the verdict in a word."""

    status: Int[Array, ""]
    steps: Int[Array, ""]
    """Steps of the solver; each has one factorisation."""
    factorisations: Int[Array, ""]
    """Of the solver, its finish included. Derivatives of every order and mode add one in all."""
    primal_error: Scalar
    """Largest violation of a constraint, relative to the numbers in it."""
    dual_error: Scalar
    """Largest violation of stationarity or of the sign of a multiplier, relative to the numbers in it."""
    gap: Scalar
    """Sum of slack times multiplier (their distance from mu, if smoothed), relative to the value."""
    polished: Bool[Array, ""]
    """Whether the active constraints were solved exactly, to the last few digits."""
    active: Bool[Array, "inequalities"]
    """Inequalities that hold with equality (for a linear program, variables at zero)."""
    ray: Ray

    def report(self, what: str, x: Tree) -> SolutionReport:
        """The same to read or to keep, of a program with such variables; outside of compiled code."""
        where = f"report of {what}"
        failed, code = first_failure(where, self.status)
        count = int(np.size(self.status))
        return SolutionReport(
            what=what,
            unknowns=sum(int(np.size(leaf)) for leaf in jax.tree.leaves(x)) // max(count, 1),
            solutions=count,
            failed=failed,
            condition="none" if not failed else Status(code).name.lower(),
            steps=int(largest(where, self.steps)),
            factorisations=int(largest(where, self.factorisations)),
            checks={
                "primal error": largest(where, self.primal_error),
                "dual error": largest(where, self.dual_error),
                "gap": largest(where, self.gap),
            },
        )


@final
class LinearSolution(eqx.Module):
    """The solution of a linear program in standard form."""

    x: Float[Array, "n"]
    y: Float[Array, "m"]
    """Multipliers of the equations: the derivative of the value in b."""
    s: Float[Array, "n"]
    """Reduced costs c - A'y, the multipliers of x >= 0."""
    value: Scalar
    stats: ProgramStats

    @property
    def report(self) -> SolutionReport:
        """How it was found, and what was checked, to read or to keep; outside of compiled code."""
        return self.stats.report("linear_program", self.x)


@final
class QuadraticSolution(eqx.Module):
    """The solution of a quadratic program, with Px + q + A'y + G'z = 0."""

    x: Float[Array, "n"]
    y: Float[Array, "p"]
    """Multipliers of the equations: minus the derivative of the value in b."""
    z: Float[Array, "m"]
    """Multipliers of the inequalities, not negative: minus the derivative of the value in h."""
    value: Scalar
    stats: ProgramStats

    @property
    def report(self) -> SolutionReport:
        """How it was found, and what was checked, to read or to keep; outside of compiled code."""
        return self.stats.report("quadratic_program", self.x)


@final
class NonlinearSolution(eqx.Module):
    """A local solution of a nonlinear program, with grad f + y grad e + z grad i = 0."""

    x: Tree
    y: Float[Array, "p"]
    """Multipliers of the equalities."""
    z: Float[Array, "m"]
    """Multipliers of the inequalities, not negative."""
    value: Scalar
    stats: ProgramStats

    @property
    def report(self) -> SolutionReport:
        """How it was found, and what was checked, to read or to keep; outside of compiled code."""
        return self.stats.report("nonlinear_program", self.x)


__all__ = ["LinearSolution", "NonlinearSolution", "ProgramStats", "QuadraticSolution", "Ray", "Status"]
