"""Sinkhorn iterations as a search for a fixed point of one potential, with Anderson's acceleration.

A sweep takes the potential g of the columns, finds the f that makes the rows right, and returns the g that would make
the columns right again. How far the two g are apart is the error of the columns, which the sweep did not enforce: it
costs nothing to know. Near the solution errors shrink by the same factors in every sweep, and the combination of the
last few sweeps that would have shrunk them most is a far better step (Anderson, 1965; Walker and Ni, 2011). A step that
makes the error much larger, or after which the potentials earn less in the dual problem, is taken back, and an ordinary
one, which never does either, follows. The error alone would not tell: where mass has to pass from column to column it
stays as large as it is while potentials get there step by step, and a leap back to where they began is not seen.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Scalar

DEPTH = 5
"""Sweeps that a step combines."""
_WORSE = 5.0
"""An accelerated step that multiplies the error by more than this is taken back. Errors rise and fall on the best way
to a solution between groups of points that are far apart: a bound of two took ten times as many sweeps there."""

_LEAP = 30.0
"""How many eps an accelerated step may lie from the ordinary one."""

_ROUNDINGS = 10.0
"""So many roundings of what potentials earn are no loss."""

Sweep: TypeAlias = Callable[[Array], tuple[Array, Array, "Earned"]]
"""From g to the f that makes rows right, to the g that makes columns right given that f, and to what g and f earn."""


class Earned(NamedTuple):
    """What potentials achieve in the dual problem, and how large the numbers are that add up to it."""

    value: Scalar
    size: Scalar


class StoppingRule(NamedTuple):
    """When to stop: at which error of the marginals, and after how many sweeps."""

    tolerance: Scalar | float
    most: Scalar | int


class SweepState(NamedTuple):
    """Potentials, the error of the columns, and how many sweeps it took."""

    f: Float[Array, " some"]
    g: Float[Array, " others"]
    error: Scalar
    sweeps: Array


class Memory(NamedTuple):
    """The last steps: how values and residuals changed, what the last were and earned, how many changes are known."""

    values: Float[Array, "depth others"]
    residuals: Float[Array, "depth others"]
    value: Float[Array, " others"]
    residual: Float[Array, " others"]
    earned: Scalar
    known: Array

    @classmethod
    def empty(cls, g: Float[Array, " others"], depth: int) -> "Memory":
        """Nothing known yet."""
        changes = jnp.zeros((depth, *g.shape), g.dtype)
        return cls(changes, changes, g, g, jnp.asarray(-jnp.inf, g.dtype), jnp.zeros((), int))

    def forgotten(self, where: Array) -> "Memory":
        """Nothing known any more, where so."""
        earned = jnp.where(where, -jnp.inf, self.earned)
        return self._replace(known=jnp.where(where, 0, self.known), earned=earned)


class _Walk(NamedTuple):
    """Where the search is: a pair of potentials with its error, and where g goes next."""

    f: Float[Array, " some"]
    g: Float[Array, " others"]
    error: Scalar
    sweeps: Array
    ahead: Float[Array, " others"]
    memory: Memory
    near: Array


def converge(
    sweep: Sweep,
    start: SweepState,
    memory: Memory,
    b: Float[Array, " others"],
    eps: Any,
    limits: StoppingRule,
    near: Callable[[Array, Array], Array],
) -> tuple[SweepState, Float[Array, " others"], Memory, Array]:
    """Sweeps until the columns are right, the limit is reached, or potentials leave where the sweep is safe.

    Returns the last pair of potentials, which has right rows; where g would go next; what is remembered; and whether
    both potentials are still `near`.
    """

    def unfinished(walk: _Walk) -> Array:
        return (walk.error > limits.tolerance) & (walk.sweeps < limits.most) & walk.near

    def step(walk: _Walk) -> _Walk:
        f, value, earned = sweep(walk.ahead)
        residual = value - walk.ahead
        error = jnp.where(b > 0, b * jnp.abs(jnp.expm1(-residual / eps)), 0.0).sum()
        slack = _ROUNDINGS * jnp.finfo(value.dtype).eps * earned.size
        worse = ~(error <= _WORSE * walk.error) | (earned.value < walk.memory.earned - slack)
        ahead, memory = _combined(walk.memory, value, residual, b)
        ahead = jnp.where(jnp.abs(ahead - value).max() <= _LEAP * eps, ahead, value)
        # Back to the ordinary step from the last good pair, and on from there without memory.
        ahead = jnp.where(worse & (walk.memory.known > 0), walk.memory.value, ahead)
        memory = memory._replace(known=jnp.where(worse, 0, memory.known), earned=earned.value)
        return _Walk(f, walk.ahead, error, walk.sweeps + 1, ahead, memory, near(f, ahead))

    walk = jax.lax.while_loop(
        unfinished,
        step,
        _Walk(
            start.f,
            start.g,
            jnp.asarray(jnp.inf, start.g.dtype),
            jnp.zeros((), int),
            start.g,
            memory,
            jnp.asarray(True),
        ),
    )
    state = SweepState(walk.f, walk.g, walk.error, start.sweeps + walk.sweeps)
    return state, walk.ahead, walk.memory, walk.near


def _combined(memory: Memory, value: Array, residual: Array, weights: Array) -> tuple[Array, Memory]:
    """The next g: the value, less the combination of past changes that explains the residual best."""
    depth = len(memory.values)
    if not depth:
        return value, memory._replace(value=value, residual=residual)
    slot = jnp.where(memory.known > 0, (memory.known - 1) % depth, 0)
    fits = memory.known > 0
    keep = (jnp.arange(depth) < memory.known - 1)[:, None]
    here = ((jnp.arange(depth) == slot) & fits)[:, None]
    values = jnp.where(here, (value - memory.value)[None], jnp.where(keep, memory.values, 0.0))
    residuals = jnp.where(here, (residual - memory.residual)[None], jnp.where(keep, memory.residuals, 0.0))
    weighted = residuals * weights[None]
    share = _solved(weighted @ residuals.T, weighted @ residual)
    known = memory.known + 1
    return value - share @ values, Memory(values, residuals, value, residual, memory.earned, known)


def _solved(matrix: Float[Array, "depth depth"], right: Float[Array, " depth"]) -> Float[Array, " depth"]:
    """A few linear equations by elimination, written out: for many small problems at once there is nothing faster."""
    depth = len(right)
    slack = 10 * jnp.finfo(matrix.dtype).eps * jnp.trace(matrix) + jnp.finfo(matrix.dtype).tiny
    rows = jnp.concatenate([matrix + slack * jnp.eye(depth, dtype=matrix.dtype), right[:, None]], axis=1)
    for i in range(depth):
        pivot = rows[i] / rows[i, i]
        rows = rows - rows[:, i][:, None] * pivot[None]
        rows = rows.at[i].set(pivot)
    return rows[:, -1]


__all__ = ["DEPTH", "Earned", "StoppingRule", "Sweep", "SweepState", "converge"]
