"""Standard and general form of a convex program, and the linear system a solver needs of each.

A program is: minimise 1/2 x'Px + q'x subject to Ax = b and Gx + t = h with t >= 0. Its multipliers are y (of the
equations) and z >= 0 (of the inequalities). `Standard` is a linear program in standard form, where P = 0, G = -I and
h = 0, so that a step costs one Cholesky factor with as many rows as there are equations; `General` has everything and
factorises a matrix with as many rows as there are variables and equations.
"""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.scipy.linalg as linalg
from jaxtyping import Array, Float

from chainrule.core.types import Scalar

_EQUILIBRATIONS = 8
_REFINEMENTS = 2
Solve = Callable[[Array, Array, Array], tuple[Array, Array, Array]]


class PrimalDualPoint(NamedTuple):
    """Unknowns of a program: variables, multipliers of equations and of inequalities, slacks of inequalities."""

    x: Array
    y: Array
    z: Array
    t: Array


class Scales(NamedTuple):
    """Positive factors that take a point of the scaled program to a point of the original one."""

    x: Array
    y: Array
    z: Array

    def restore(self, point: PrimalDualPoint) -> PrimalDualPoint:
        """The point in the units of the original program."""
        return PrimalDualPoint(point.x * self.x, point.y * self.y, point.z * self.z, point.t / self.z)


class Form(eqx.Module):
    """A convex program as its solvers see it."""

    q: eqx.AbstractVar[Array]
    A: eqx.AbstractVar[Any]
    b: eqx.AbstractVar[Array]

    @property
    @abc.abstractmethod
    def h(self) -> Array:
        """Right-hand sides of the inequalities."""

    @abc.abstractmethod
    def curve(self, x: Array) -> Array:
        """P x."""

    @abc.abstractmethod
    def bound(self, x: Array) -> Array:
        """G x."""

    @abc.abstractmethod
    def pull(self, z: Array) -> Array:
        """G' z."""

    @abc.abstractmethod
    def factor(self, weights: Array) -> Solve:
        """Factorise K = [[P, A', G'], [A, 0, 0], [G, 0, -1/weights]]; returns right-hand sides -> (dx, dy, dz)."""

    @abc.abstractmethod
    def equilibrated(self) -> tuple["Form", Scales]:
        """The same program with rows and columns of similar size."""

    def value(self, x: Array) -> Scalar:
        """1/2 x'Px + q'x."""
        return 0.5 * jnp.vdot(x, self.curve(x)) + jnp.vdot(self.q, x)

    def times(self, weights: Array, dx: Array, dy: Array, dz: Array) -> tuple[Array, Array, Array]:
        """K times a direction, for refinement."""
        return (
            self.curve(dx) + self.A.T @ dy + self.pull(dz),
            self.A @ dx,
            self.bound(dx) - dz / weights,
        )


@final
class Standard(Form):
    """Minimise q'x subject to Ax = b, x >= 0. With a sparse matrix there are products, but no factors of this form."""

    q: Float[Array, "n"]
    A: Any  # an array or a SparseMatrix
    b: Float[Array, "m"]

    @property
    def h(self) -> Array:
        return jnp.zeros_like(self.q)

    def curve(self, x: Array) -> Array:
        return jnp.zeros_like(x)

    def bound(self, x: Array) -> Array:
        return -x

    def pull(self, z: Array) -> Array:
        return -z

    def factor(self, weights: Array) -> Solve:
        normal = (self.A / weights[None, :]) @ self.A.T
        # Scaled to a unit diagonal, and moved a little: at a degenerate vertex the matrix becomes singular.
        size = 1.0 / jnp.sqrt(jnp.maximum(jnp.diagonal(normal), jnp.finfo(normal.dtype).tiny))
        moved = normal * size[:, None] * size[None, :] + _nudge(normal.dtype) * jnp.eye(
            len(size), dtype=normal.dtype
        )
        triangle = jnp.linalg.cholesky(moved)

        def solve(rx: Array, ry: Array, rz: Array) -> tuple[Array, Array, Array]:
            right = rx - weights * rz
            dy = size * linalg.cho_solve((triangle, True), size * (self.A @ (right / weights) - ry))
            dx = (right - self.A.T @ dy) / weights
            return dx, dy, -weights * (dx + rz)

        return refined(self, weights, solve)

    def equilibrated(self) -> tuple["Standard", Scales]:
        rows, columns = _ruiz(self.A)
        A = rows[:, None] * self.A * columns[None, :]
        return Standard(columns * self.q, A, rows * self.b), Scales(columns, rows, 1.0 / columns)


@final
class General(Form):
    """Minimise 1/2 x'Px + q'x subject to Ax = b, Gx <= h."""

    P: Float[Array, "n n"]
    q: Float[Array, "n"]
    A: Float[Array, "p n"]
    b: Float[Array, "p"]
    G: Float[Array, "m n"]
    limit: Float[Array, "m"]

    @property
    def h(self) -> Array:
        return self.limit

    def curve(self, x: Array) -> Array:
        return self.P @ x

    def bound(self, x: Array) -> Array:
        return self.G @ x

    def pull(self, z: Array) -> Array:
        return self.G.T @ z

    def factor(self, weights: Array) -> Solve:
        n, p = len(self.q), len(self.b)
        curved = self.P + (self.G.T * weights[None, :]) @ self.G
        nudge = _nudge(curved.dtype) * jnp.maximum(1.0, jnp.max(jnp.abs(jnp.diagonal(self.P)), initial=0.0))
        matrix = jnp.block(
            [
                [curved + nudge * jnp.eye(n, dtype=curved.dtype), self.A.T],
                [self.A, -nudge * jnp.eye(p, dtype=curved.dtype)],
            ]
        )
        factor = linalg.lu_factor(matrix)

        def solve(rx: Array, ry: Array, rz: Array) -> tuple[Array, Array, Array]:
            both = linalg.lu_solve(factor, jnp.concatenate([rx + self.G.T @ (weights * rz), ry]))
            dx, dy = both[:n], both[n:]
            return dx, dy, weights * (self.G @ dx - rz)

        return refined(self, weights, solve)

    def equilibrated(self) -> tuple["General", Scales]:
        p = len(self.b)
        rows, columns = _ruiz(jnp.concatenate([self.A, self.G]), self.P)
        P, A = columns[:, None] * self.P * columns[None, :], rows[:p, None] * self.A * columns[None, :]
        G = rows[p:, None] * self.G * columns[None, :]
        scaled = General(P, columns * self.q, A, rows[:p] * self.b, G, rows[p:] * self.limit)
        return scaled, Scales(columns, rows[:p], rows[p:])


def refined(form: Form, weights: Array, solve: Solve) -> Solve:
    """A solve followed by steps of iterative refinement against the matrix that was meant."""

    def better(*right: Array) -> tuple[Array, Array, Array]:
        def again(_: Array, found: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            dx, dy, dz = form.times(weights, *found)
            mx, my, mz = solve(right[0] - dx, right[1] - dy, right[2] - dz)
            return found[0] + mx, found[1] + my, found[2] + mz

        nothing = jax.tree.map(jnp.zeros_like, right)
        return jax.lax.fori_loop(0, 1 + _REFINEMENTS, again, nothing)

    return better


def _nudge(dtype: Any) -> float:
    return 16.0 * float(jnp.finfo(dtype).eps)


def _ruiz(matrix: Array, symmetric: Array | None = None) -> tuple[Array, Array]:
    """Row and column factors that bring the largest entry of every row and column near one."""

    def balance(_: Array, factors: tuple[Array, Array]) -> tuple[Array, Array]:
        rows, columns = factors
        size = jnp.abs(matrix) * rows[:, None] * columns[None, :]
        tall = jnp.max(size, axis=0, initial=0.0)
        if symmetric is not None:
            curved = jnp.abs(symmetric) * columns[:, None] * columns[None, :]
            tall = jnp.maximum(tall, jnp.max(curved, axis=0, initial=0.0))
        return rows * _inverse_root(jnp.max(size, axis=1, initial=0.0)), columns * _inverse_root(tall)

    m, n = matrix.shape
    start = jnp.ones(m, matrix.dtype), jnp.ones(n, matrix.dtype)
    return jax.lax.fori_loop(0, _EQUILIBRATIONS, balance, start)


def _inverse_root(size: Array) -> Array:
    return jnp.where(size > 0.0, 1.0 / jnp.sqrt(jnp.where(size > 0.0, size, 1.0)), 1.0)


__all__ = ["Form", "General", "PrimalDualPoint", "Scales", "Solve", "Standard", "refined"]
