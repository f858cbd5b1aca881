"""Nonlinear least squares: Gauss-Newton and Levenberg-Marquardt, finished by Newton's method.

Both replace the Hessian of half the sum of squares by JᵀJ, with J the Jacobian of the residuals; Levenberg-Marquardt
adds as much of the identity as it takes to go down. Where residuals remain, JᵀJ is not the Hessian, so the last digits
come slowly; Newton steps with the whole Hessian give them, and derivatives need them.
"""

from dataclasses import dataclass, replace
from typing import Any, final

import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.derive.implicit.solvers.newton import Newton
from chainrule.derive.implicit.solvers.solver import Solver, SolverOutcome, SolverTask


@final
@dataclass(frozen=True)
class LevenbergMarquardt(Solver):
    """Optimistix' Levenberg-Marquardt down to relative and absolute changes of `tolerance`, then Newton steps.

    D. W. Marquardt, "An algorithm for least-squares estimation of nonlinear parameters", J. SIAM 11 (1963).
    """

    max_steps: int = 1000
    tolerance: float = 1e-6
    polish_steps: int = 20

    def run(self, task: SolverTask) -> SolverOutcome:
        """Needs the residuals."""
        import optimistix  # it takes a moment to load

        return _fitted(self, optimistix.LevenbergMarquardt, task)


@final
@dataclass(frozen=True)
class GaussNewton(Solver):
    """Optimistix' Gauss-Newton, likewise: fewer steps from a good first guess, none that are safe from a bad one."""

    max_steps: int = 1000
    tolerance: float = 1e-6
    polish_steps: int = 20

    def run(self, task: SolverTask) -> SolverOutcome:
        """Needs the residuals."""
        import optimistix  # it takes a moment to load

        return _fitted(self, optimistix.GaussNewton, task)


def _fitted(solver: LevenbergMarquardt | GaussNewton, method: Any, task: SolverTask) -> SolverOutcome:
    import optimistix

    if task.residuals is None:
        raise ArgumentError(f"solver: {type(solver).__name__} fits residuals; use it with least_squares")
    residuals = task.residuals
    found: Any = optimistix.least_squares(
        lambda x, _: residuals(x),
        method(rtol=solver.tolerance, atol=solver.tolerance),
        task.x,
        max_steps=solver.max_steps,
        throw=False,
    )
    near = replace(task, start=replace(task.start, x=found.value))
    last = Newton(solver.polish_steps).run(near)
    return last._replace(steps=last.steps + jnp.asarray(found.stats["num_steps"], jnp.int32))


__all__ = ["GaussNewton", "LevenbergMarquardt"]
