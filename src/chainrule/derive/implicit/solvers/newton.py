"""Newton's method with a backtracking line search, sharing the factorisation of the derivative.

Steps are halved until the residual falls. The iteration ends when a step changes nothing but the last digits, when the
residual is zero, or when no step makes it smaller: derivatives need the solution to full precision, and the last step
of Newton's method costs as much as any other.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Int, Scalar
from chainrule.derive.implicit.linear.linear_solver import Factor, Product, Refined, factorise
from chainrule.derive.implicit.solvers.solver import Solver, SolverOutcome, SolverTask

_SHORTEST = 2.0**-30


@final
@dataclass(frozen=True)
class Newton(Solver):
    """Damped Newton steps, at most `max_steps` of them.

    `rtol` is the relative length of the last step; by default eps^(3/4), whose square is far below rounding.
    """

    max_steps: int = 100
    rtol: float | None = None
    inherit: bool = False
    """Let derivatives use the factor of the last step, each solution corrected once, instead of one at the solution."""

    def run(self, task: SolverTask) -> SolverOutcome:
        """One factorisation per step, unless solves with A iterate."""
        rtol = jnp.finfo(task.x.dtype).eps ** 0.75 if self.rtol is None else self.rtol

        def factor_at(x: Array) -> Factor:
            return factorise(task.linear, replace(task.start, x=x))

        def advance(state: _State) -> _State:
            factor = factor_at(state.x)
            direction = -factor.solve(replace(task.start, x=state.x).matvec, state.residual)
            share, x, residual = _search(task.f, state, direction)
            gained = jnp.linalg.norm(residual) < jnp.linalg.norm(state.residual)
            short = share * jnp.linalg.norm(direction) <= rtol * jnp.linalg.norm(x)
            done = ~gained | short | (jnp.linalg.norm(residual) == 0)
            kept = jnp.where(gained, x, state.x), jnp.where(gained, residual, state.residual)
            return _State(*kept, state.steps + 1, done, factor if self.inherit else None)

        residual = task.f(task.x)
        # A solution from the start still needs a factor to hand on, and takes a step for it.
        done = jnp.asarray(False) if self.inherit else jnp.linalg.norm(residual) == 0
        blank = jax.tree.map(_zeros, jax.eval_shape(factor_at, task.x)) if self.inherit else None
        first = _State(task.x, residual, jnp.zeros((), jnp.int32), done, blank)
        last = jax.lax.while_loop(lambda s: ~s.done & (s.steps < self.max_steps), advance, first)
        factorisations = last.steps if task.linear.factorises else jnp.zeros_like(last.steps)
        factor = None if last.factor is None else Refined(last.factor)
        return SolverOutcome(last.x, last.steps, factorisations, factor)


class _State(NamedTuple):
    x: Array
    residual: Array
    steps: Int[Array, ""]
    done: Array
    factor: Factor | None


def _zeros(shape: Any) -> Array:
    return jnp.zeros(shape.shape, shape.dtype)


def _search(f: Product, state: _State, direction: Array) -> tuple[Scalar, Array, Array]:
    """The longest of the steps 1, 1/2, 1/4, ... that lowers the residual by a share of what Newton's model promises."""
    size = jnp.linalg.norm(state.residual)

    def at(share: Array) -> tuple[Array, Array, Array]:
        x = state.x + share * direction
        return share, x, f(x)

    def too_long(tried: tuple[Array, Array, Array]) -> Array:
        share, _, residual = tried
        # A comparison with NaN is false, so a step out of the domain of f counts as too long.
        lower = jnp.linalg.norm(residual) <= (1 - 1e-4 * share) * size
        return ~lower & (share > _SHORTEST)

    return jax.lax.while_loop(too_long, lambda tried: at(tried[0] / 2), at(jnp.ones((), state.x.dtype)))


__all__ = ["Newton"]
