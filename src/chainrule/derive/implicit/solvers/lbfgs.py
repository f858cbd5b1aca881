"""Minimisation: limited-memory BFGS, finished by Newton's method."""

from dataclasses import dataclass, replace
from typing import Any, final

import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.derive.implicit.solvers.newton import Newton
from chainrule.derive.implicit.solvers.solver import Solver, SolverOutcome, SolverTask


@final
@dataclass(frozen=True)
class LBFGS(Solver):
    """Optimistix' L-BFGS down to relative and absolute changes of `tolerance`, then Newton steps on the gradient.

    A quasi-Newton method stops at half of the digits, where the objective no longer changes; derivatives need them all.
    """

    max_steps: int = 1000
    memory: int = 10
    tolerance: float = 1e-4
    polish_steps: int = 20

    def run(self, task: SolverTask) -> SolverOutcome:
        """Needs the objective itself, not only its gradient."""
        import optimistix  # it takes a moment to load, and only this solver needs it

        if task.objective is None:
            raise ArgumentError("solver: LBFGS minimises; use it with minimum")
        objective = task.objective
        method: Any = optimistix.LBFGS(rtol=self.tolerance, atol=self.tolerance, history_length=self.memory)
        found: Any = optimistix.minimise(
            lambda x, _: objective(x), method, task.x, max_steps=self.max_steps, throw=False
        )
        near = replace(task, start=replace(task.start, x=found.value))
        last = Newton(self.polish_steps).run(near)
        return last._replace(steps=last.steps + jnp.asarray(found.stats["num_steps"], jnp.int32))


__all__ = ["LBFGS"]
