"""Accelerated fixed-point iteration for maps that take gradient steps: proximal and projected gradient."""

from dataclasses import dataclass
from typing import NamedTuple, final

import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Int, Scalar
from chainrule.derive.implicit.solvers.picard import small
from chainrule.derive.implicit.solvers.solver import Solver, SolverOutcome, SolverTask


@final
@dataclass(frozen=True)
class Nesterov(Solver):
    """x = g(y) with a growing share of the last change added to y; the share starts anew when it leads uphill.

    A. Beck and M. Teboulle, "A fast iterative shrinkage-thresholding algorithm", SIAM J. Imaging Sciences 2 (2009);
    B. O'Donoghue and E. Candès, "Adaptive restart for accelerated gradient schemes", Found. Comput. Math. 15 (2015).
    """

    max_steps: int = 100_000
    rtol: float | None = None

    def run(self, task: SolverTask) -> SolverOutcome:
        """f is y - g(y), so a step subtracts it."""

        def advance(state: _Momentum) -> _Momentum:
            x = state.y - state.change
            uphill = jnp.vdot(state.change, x - state.x) > 0
            share = jnp.where(uphill, 1.0, state.share)
            grown = (1 + jnp.sqrt(1 + 4 * share**2)) / 2
            y = x + (share - 1) / grown * (x - state.x)
            return _Momentum(x, y, task.f(y), grown, state.steps + 1)

        def going(state: _Momentum) -> Array:
            return (state.steps < self.max_steps) & ~small(state.y, state.change, self.rtol)

        one = jnp.ones((), task.x.dtype)
        first = _Momentum(task.x, task.x, task.f(task.x), one, jnp.zeros((), jnp.int32))
        last = jax.lax.while_loop(going, advance, first)
        return SolverOutcome(last.y - last.change, last.steps, jnp.zeros((), jnp.int32))


class _Momentum(NamedTuple):
    x: Array
    y: Array
    change: Array
    """y - g(y)."""
    share: Scalar
    steps: Int[Array, ""]


__all__ = ["Nesterov"]
