"""Sequential quadratic programming: a local solution of a nonlinear program, compiled.

Every step minimises a convex model of the objective plus a penalty for violated linearised constraints (the elastic,
or Sl1QP, form of Fletcher), so that each subproblem has a solution even where the linearised constraints have no common
point. A line search makes the penalised objective fall. Where steps become small, Newton's method on the active
constraints, with the true second derivatives, takes over and gives the last digits.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from chainrule.core.types import Scalar
from chainrule.derive.implicit.optimization import polishing, primal_dual
from chainrule.derive.implicit.optimization.convex_solver import accepted, tolerance
from chainrule.derive.implicit.optimization.forms import General
from chainrule.derive.implicit.optimization.primal_dual import norm

_HALVINGS = 30
_NEWTON_STEPS = 20
_MOST_PENALTY = 1e8
_QP_STEPS = 60


class ProgramFunctions(NamedTuple):
    """A nonlinear program at fixed parameters: minimise objective, equalities = 0, inequalities <= 0."""

    objective: Callable[[Array], Array]
    equalities: Callable[[Array], Array]
    inequalities: Callable[[Array], Array]

    def lagrangian(self, x: Array, y: Array, z: Array) -> Scalar:
        """The objective plus multipliers times constraints."""
        return self.objective(x) + jnp.vdot(y, self.equalities(x)) + jnp.vdot(z, self.inequalities(x))

    def errors(self, x: Array, y: Array, z: Array) -> polishing.Errors:
        """How far the point is from satisfying the optimality conditions, relative to the numbers involved."""
        force, slope = jax.grad(self.lagrangian)(x, y, z), jax.grad(self.objective)(x)
        e, i = self.equalities(x), self.inequalities(x)
        size = 1.0 + norm(x)
        return polishing.Errors(
            jnp.maximum(norm(e), norm(jnp.maximum(i, 0.0))) / size,
            jnp.maximum(norm(force), norm(jnp.minimum(z, 0.0))) / (1.0 + norm(slope)),
            jnp.sum(jnp.abs(z * i)) / (1.0 + jnp.abs(self.objective(x))),
        )


class SequentialState(NamedTuple):
    """Where the method is."""

    x: Array
    y: Array
    z: Array
    penalty: Scalar
    error: Scalar
    moved: Scalar
    """Length of the last step, relative to x."""
    steps: Array
    inner: Array
    """Factorisations so far."""


def solve(functions: ProgramFunctions, x: Array, max_steps: int) -> SequentialState:
    """A local solution near x; `error` says whether it is one."""
    p, m = len(functions.equalities(x)), len(functions.inequalities(x))
    dtype = x.dtype
    y, z = jnp.zeros(p, dtype), jnp.zeros(m, dtype)
    penalty = 10.0 * (1.0 + norm(jax.grad(functions.objective)(x)))
    start = SequentialState(
        x, y, z, penalty, functions.errors(x, y, z).worst, jnp.ones((), dtype), jnp.asarray(0), jnp.asarray(0)
    )
    goal = tolerance(dtype)

    def going(now: SequentialState) -> Array:
        return (now.error > goal) & (now.moved > goal) & (now.steps < max_steps) & jnp.isfinite(now.error)

    state = jax.lax.while_loop(going, lambda now: _advance(functions, now), start)
    return _newton(functions, state)


def _advance(functions: ProgramFunctions, state: SequentialState) -> SequentialState:
    """One convex subproblem and a line search."""
    x = state.x
    slope, (je, ji) = jax.grad(functions.objective)(x), _jacobians(functions, x)
    e, i = functions.equalities(x), functions.inequalities(x)
    bend = _convex(jax.hessian(functions.lagrangian)(x, state.y, state.z))
    form, scales = _elastic(bend, slope, je, e, ji, i, state.penalty).equilibrated()
    found = primal_dual.solve(form, tolerance(x.dtype), _QP_STEPS)
    point = scales.restore(polishing.polish(form, found.point)[0])
    n, m = len(x), len(i)
    d, y, z = point.x[:n], point.y, jnp.maximum(point.z[:m], 0.0)
    left = jnp.sum(point.x[n:])
    before = _violation(e, i)
    expected = -jnp.vdot(slope, d) - 0.5 * jnp.vdot(d, bend @ d) + state.penalty * (before - left)
    length = _search(functions, x, d, state.penalty, jnp.maximum(expected, 0.0))
    stuck = left > accepted(x.dtype) * (1.0 + norm(x))
    penalty = jnp.where(stuck, jnp.minimum(10.0 * state.penalty, _MOST_PENALTY), state.penalty)
    new = x + length * d
    moved = jnp.where(stuck & (penalty > state.penalty), 1.0, length * norm(d) / (1.0 + norm(x)))
    error = functions.errors(new, y, z).worst
    return SequentialState(new, y, z, penalty, error, moved, state.steps + 1, state.inner + found.steps + 1)


def _elastic(bend: Array, slope: Array, je: Array, e: Array, ji: Array, i: Array, penalty: Scalar) -> General:
    """Minimise the model over (d, s, u, v) with je d + u - v = -e, ji d - s <= -i and a price on s, u, v >= 0."""
    n, p, m = len(slope), len(e), len(i)
    extra = m + 2 * p
    dtype = slope.dtype
    P = jnp.zeros((n + extra, n + extra), dtype).at[:n, :n].set(bend)
    q = jnp.concatenate([slope, jnp.broadcast_to(penalty, (extra,))])
    eye = jnp.eye(extra, dtype=dtype)
    A = jnp.concatenate(
        [je, jnp.zeros((p, m), dtype), jnp.eye(p, dtype=dtype), -jnp.eye(p, dtype=dtype)], axis=1
    )
    upper = jnp.concatenate([ji, -jnp.eye(m, extra, dtype=dtype)], axis=1)
    lower = jnp.concatenate([jnp.zeros((extra, n), dtype), -eye], axis=1)
    return General(
        P, q, A, -e, jnp.concatenate([upper, lower]), jnp.concatenate([-i, jnp.zeros(extra, dtype)])
    )


def _search(functions: ProgramFunctions, x: Array, d: Array, penalty: Scalar, expected: Scalar) -> Scalar:
    """The first of the lengths 1, 1/2, 1/4, ... at which the penalised objective falls by a part of what it could."""

    def merit(length: Array) -> Scalar:
        there = x + length * d
        total = _violation(functions.equalities(there), functions.inequalities(there))
        return functions.objective(there) + penalty * total

    now = merit(jnp.zeros((), x.dtype))
    noise = 16.0 * float(jnp.finfo(x.dtype).eps) * (1.0 + jnp.abs(now))

    def refused(at: tuple[Array, Array]) -> Array:
        length, count = at
        value = merit(length)
        enough = value <= now - 1e-4 * length * expected + noise
        return ~(enough & jnp.isfinite(value)) & (count < _HALVINGS)

    one = jnp.ones((), x.dtype)
    return jax.lax.while_loop(refused, lambda at: (0.5 * at[0], at[1] + 1), (one, jnp.asarray(0)))[0]


def _newton(functions: ProgramFunctions, state: SequentialState) -> SequentialState:
    """Newton's method on the conditions of the active inequalities, while it makes the point better."""

    def going(now: tuple[SequentialState, Array]) -> Array:
        return now[1] & (now[0].inner < state.inner + _NEWTON_STEPS)

    def step(now: tuple[SequentialState, Array]) -> tuple[SequentialState, Array]:
        old, _ = now
        e, i = functions.equalities(old.x), functions.inequalities(old.x)
        active = old.z > -i
        je, ji = _jacobians(functions, old.x)
        n, p = len(old.x), len(e)
        z = jnp.where(active, old.z, 0.0)
        ji = jnp.where(active[:, None], ji, 0.0)
        bend = jax.hessian(functions.lagrangian)(old.x, old.y, z)
        corner = jnp.diag(jnp.where(active, 0.0, 1.0).astype(z.dtype))
        matrix = jnp.block(
            [
                [bend, je.T, ji.T],
                [je, jnp.zeros((p, p), z.dtype), jnp.zeros((p, len(i)), z.dtype)],
                [ji, jnp.zeros((len(i), p), z.dtype), corner],
            ]
        )
        force = jax.grad(functions.lagrangian)(old.x, old.y, z)
        change = jnp.linalg.solve(matrix, -jnp.concatenate([force, e, jnp.where(active, i, 0.0)]))
        x, y, z = old.x + change[:n], old.y + change[n : n + p], z + change[n + p :]
        error = functions.errors(x, y, z).worst
        better = error < old.error
        new = old._replace(x=x, y=y, z=z, error=error)
        kept = jax.tree.map(lambda one, two: jnp.where(better, one, two), new, old)
        return kept._replace(inner=old.inner + 1), better

    return jax.lax.while_loop(going, step, (state, jnp.asarray(True)))[0]


def _jacobians(functions: ProgramFunctions, x: Array) -> Any:
    return jax.jacrev(functions.equalities)(x), jax.jacrev(functions.inequalities)(x)


def _violation(e: Array, i: Array) -> Scalar:
    return jnp.sum(jnp.abs(e)) + jnp.sum(jnp.maximum(i, 0.0))


def _convex(matrix: Array) -> Array:
    """The matrix with its eigenvalues made positive."""
    values, vectors = jnp.linalg.eigh(0.5 * (matrix + matrix.T))
    least = 1e-6 * jnp.maximum(1.0, norm(values))
    return (vectors * jnp.maximum(jnp.abs(values), least)[None, :]) @ vectors.T


__all__ = ["ProgramFunctions", "SequentialState", "solve"]
