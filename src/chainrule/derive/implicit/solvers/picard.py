"""Fixed-point iteration: x = g(x) applied again and again, plainly or with Anderson acceleration."""

from dataclasses import dataclass
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Int
from chainrule.derive.implicit.solvers.solver import Solver, SolverOutcome, SolverTask

_DIGITS_LEFT = 32
"""The last change, in units of rounding; less is not to be expected of a function with more than a few operations."""


@final
@dataclass(frozen=True)
class Picard(Solver):
    """x, g(x), g(g(x)), ...: converges where g contracts, at the rate of the largest eigenvalue of its Jacobian."""

    max_steps: int = 1000
    rtol: float | None = None

    def run(self, task: SolverTask) -> SolverOutcome:
        """f is x - g(x), so a step subtracts it."""

        def advance(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            x = state[0] - state[1]
            return x, task.f(x), state[2] + 1

        def going(state: tuple[Array, Array, Array]) -> Array:
            x, change, steps = state
            return (steps < self.max_steps) & ~small(x, change, self.rtol)

        start = (task.x, task.f(task.x), jnp.zeros((), jnp.int32))
        x, _, steps = jax.lax.while_loop(going, advance, start)
        return SolverOutcome(x, steps, jnp.zeros((), jnp.int32))


@final
@dataclass(frozen=True)
class Anderson(Solver):
    """Anderson's acceleration: the next point from the last `memory` changes, by least squares.

    D. G. Anderson, "Iterative procedures for nonlinear integral equations", J. ACM 12 (1965).
    """

    memory: int = 5
    max_steps: int = 1000
    rtol: float | None = None

    def run(self, task: SolverTask) -> SolverOutcome:
        """The point with the smallest change is returned, whatever came after it."""

        def advance(state: _Memory) -> _Memory:
            x, change = state.x, state.change
            weights = _least_squares(state.changes, change)
            new = x - change - weights @ (state.points - state.changes)
            new_change = task.f(new)
            slot = state.steps % self.memory
            points = state.points.at[slot].set(new - x)
            changes = state.changes.at[slot].set(new_change - change)
            better = jnp.linalg.norm(new_change) < jnp.linalg.norm(state.best_change)
            best = jnp.where(better, new, state.best), jnp.where(better, new_change, state.best_change)
            return _Memory(new, new_change, points, changes, *best, state.steps + 1)

        def going(state: _Memory) -> Array:
            return (state.steps < self.max_steps) & ~small(state.best, state.best_change, self.rtol)

        change = task.f(task.x)
        empty = jnp.zeros((self.memory, task.x.size), task.x.dtype)
        first = _Memory(task.x, change, empty, empty, task.x, change, jnp.zeros((), jnp.int32))
        last = jax.lax.while_loop(going, advance, first)
        return SolverOutcome(last.best, last.steps, jnp.zeros((), jnp.int32))


class _Memory(NamedTuple):
    x: Array
    change: Array
    points: Float[Array, "memory n"]
    """Differences of successive points."""
    changes: Float[Array, "memory n"]
    """Differences of successive changes."""
    best: Array
    best_change: Array
    steps: Int[Array, ""]


def _least_squares(changes: Float[Array, "memory n"], change: Array) -> Array:
    """Weights of past differences that make up for the change best; rows that are still zero get none."""
    gram = changes @ changes.T
    size = jnp.trace(gram)
    ridge = jnp.finfo(change.dtype).eps * size + jnp.finfo(change.dtype).tiny
    return jnp.linalg.solve(gram + ridge * jnp.eye(len(gram), dtype=gram.dtype), changes @ change)


def small(x: Array, change: Array, rtol: Any) -> Array:
    """Whether a change is within rounding, or has left the numbers."""
    limit = _DIGITS_LEFT * jnp.finfo(x.dtype).eps if rtol is None else rtol
    size = jnp.linalg.norm(change)
    return (size <= limit * (1 + jnp.linalg.norm(x))) | ~jnp.isfinite(size)


__all__ = ["Anderson", "Picard", "small"]
