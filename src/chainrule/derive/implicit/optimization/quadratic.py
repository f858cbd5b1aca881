"""Convex quadratic programs, with derivatives in everything that defines them.

A solution (x, y, z) makes Px + q + A'y + G'z, Ax - b and z_i (Gx - h)_i zero. Projections onto polytopes are the
everyday case: P = I and q minus the point.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Scalar
from chainrule.derive.implicit.optimization import arguments, convex_solver, failures
from chainrule.derive.implicit.optimization.convex_solver import ConvexOutcome
from chainrule.derive.implicit.optimization.failures import Doubt
from chainrule.derive.implicit.optimization.forms import General, PrimalDualPoint
from chainrule.derive.implicit.optimization.primal_dual import is_resolved, norm
from chainrule.derive.implicit.optimization.results import QuadraticSolution, Status
from chainrule.derive.implicit.theorem import attach

_WHERE = "quadratic_program"
Solver = Callable[..., tuple[Array, Array, Array]]


def quadratic_program(
    P: Any,
    q: Any,
    A: Any = None,
    b: Any = None,
    G: Any = None,
    h: Any = None,
    *,
    mu: Any = 0.0,
    solver: str | Solver = "interior",
    linear: Any = "lu",
    on_failure: str = "raise",
    on_singular: str = "raise",
    max_steps: int = 100,
) -> QuadraticSolution:
    """Minimise 1/2 x'Px + q'x subject to Ax = b and Gx <= h; differentiable in all of them and in mu, to every order.

    The point of a triangle nearest to another point:

    >>> point = jnp.array([0.5, 0.3, -1.0])
    >>> nearest = quadratic_program(jnp.eye(3), -point, jnp.ones((1, 3)), [1.0], -jnp.eye(3), jnp.zeros(3))
    >>> [round(float(x), 4) + 0.0 for x in nearest.x]
    [0.6, 0.4, 0.0]

    Leave out A and b, or G and h, where there are none. P must be positive semidefinite; only its symmetric part
    counts. `solver` is "interior" or a function (P, q, A, b, G, h) -> (x, y, z). `mu > 0` asks for z_i (h - Gx)_i = mu
    instead of 0, which is smooth where constraints become active. `linear`, `on_failure`, `on_singular` and errors are
    those of `linear_program`.
    """
    data = _data(P, q, A, b, G, h)
    mu, smooth = arguments.smoothing(_WHERE, mu, data[0].dtype)
    way = arguments.policies(_WHERE, linear, on_failure, on_singular, max_steps)
    strict = on_singular == "raise"
    held = General(*(jax.lax.stop_gradient(one) for one in data))
    outcome = _solve(held, jax.lax.stop_gradient(mu), solver, smooth, max_steps, strict)
    valid = failures.gate(_WHERE, outcome, on_failure)
    w, scale, doubt = _judged(held, outcome.point, valid)
    if strict and not smooth:
        data = failures.guard(_WHERE, data, doubt, on_failure)
    params = (data, mu, scale)
    x, y, z = attach(_scaled_conditions, w, params, way, on_failure=on_failure, name=_WHERE)
    return QuadraticSolution(x, y, z, _value(x, data[0], data[1]), outcome.stats)


def conditions(
    w: tuple[Array, Array, Array],
    P: Array,
    q: Array,
    A: Array,
    b: Array,
    G: Array,
    h: Array,
    mu: Any = 0.0,
) -> tuple[Array, Array, Array]:
    """What a solution w = (x, y, z) makes zero: Px + q + A'y + G'z, Ax - b and z (Gx - h) + mu."""
    x, y, z = w
    return P @ x + q + A.T @ y + G.T @ z, A @ x - b, z * (G @ x - h) + mu


def _scaled_conditions(
    w: tuple[Array, Array, Array], data: tuple[Array, ...], mu: Array, scale: Array
) -> tuple[Array, Array, Array]:
    """The same with rows of similar size, so that the condition number speaks of the solution and not of units."""
    P, q, A, b, G, h = data
    forces, equations, products = conditions(w, P, q, A, b, G, h, mu)
    return forces, equations, scale * products


@jax.jit
def _value(x: Array, P: Array, q: Array) -> Scalar:
    return 0.5 * jnp.vdot(x, P @ x) + jnp.vdot(q, x)


@jax.jit
def _judged(
    form: General, point: PrimalDualPoint, valid: Scalar
) -> tuple[tuple[Array, Array, Array], Array, Doubt]:
    """The solution (NaN where it is not valid), the size of its products, and whether it has derivatives."""
    found = PrimalDualPoint(*(part * valid for part in point))
    return (found.x, found.y, found.z), _scale(found), _doubt(form, found)


def _scale(point: PrimalDualPoint) -> Array:
    size = jnp.abs(point.z) + jnp.abs(point.t)
    return jax.lax.stop_gradient(1.0 / jnp.where(size > 0.0, size, 1.0))


def _data(P: Any, q: Any, A: Any, b: Any, G: Any, h: Any) -> tuple[Array, ...]:
    """The arguments as arrays that fit together, P symmetric."""
    for (name, matrix), (other, vector) in (("A", A), ("b", b)), (("G", G), ("h", h)):
        if (matrix is None) != (vector is None):
            there, missing = (other, name) if matrix is None else (name, other)
            raise ArgumentError(
                f"{_WHERE}: {there} is given but {missing} is not", remedy="give both or none of them"
            )
    given = {"P": P, "q": q, "A": A, "b": b, "G": G, "h": h}
    made = arguments.arrays(_WHERE, **{name: one for name, one in given.items() if one is not None})
    arguments.dimensions(_WHERE, "q", made["q"], 1)
    n, dtype = len(made["q"]), made["q"].dtype
    arguments.some_variables(_WHERE, n)
    arguments.shape(_WHERE, "P", made["P"], (n, n), f"q has {n} entries")
    for name, other in ("A", "b"), ("G", "h"):
        matrix = made.setdefault(name, jnp.zeros((0, n), dtype))
        vector = made.setdefault(other, jnp.zeros(0, dtype))
        arguments.dimensions(_WHERE, name, matrix, 2)
        rows = len(matrix)
        arguments.shape(_WHERE, name, matrix, (rows, n), f"q has {n} entries")
        arguments.shape(_WHERE, other, vector, (rows,), f"{name} has {rows} rows")
    made["P"] = _symmetric(made["P"])
    return tuple(made[name] for name in given)


@jax.jit
def _symmetric(matrix: Array) -> Array:
    return 0.5 * (matrix + matrix.T)


def _solve(
    form: General, mu: Array, solver: str | Solver, smooth: bool, max_steps: int, independent: bool
) -> ConvexOutcome:
    if solver == "interior":
        return convex_solver.interior_point(
            form, mu, smooth=smooth, max_steps=max_steps, independent=independent
        )
    if not callable(solver):
        raise ArgumentError(f'{_WHERE}(solver={solver!r}): solver must be "interior" or a function')
    found = solver(form.P, form.q, form.A, form.b, form.G, form.limit)
    if not (isinstance(found, tuple) and len(found) == 3):
        raise ArgumentError(
            f"{_WHERE}: the solver returned {type(found).__name__}, expected a triple (x, y, z)"
        )
    made = arguments.arrays(f"{_WHERE}, solver", x=found[0], y=found[1], z=found[2])
    for name, like, of in ("x", form.q, "q"), ("y", form.b, "b"), ("z", form.limit, "h"):
        arguments.shape(_WHERE, f"{name} of the solver", made[name], like.shape, f"that of {of}")
    x, y, z = (jax.lax.stop_gradient(made[name]).astype(form.q.dtype) for name in "xyz")
    point = PrimalDualPoint(x, y, z, form.limit - form.G @ x)
    solved = jnp.asarray(int(Status.SOLVED))
    return convex_solver.given_point(form, point, solved, mu, smooth=smooth, independent=independent)


def _doubt(form: General, point: PrimalDualPoint) -> Doubt:
    """Whether every inequality is either slack or pressed against, and no more of them are active than can be."""
    x, y, z, t = point
    tiny = math.sqrt(jnp.finfo(x.dtype).eps)
    rows = jnp.max(jnp.abs(form.G), axis=1, initial=0.0)
    curved, held, pushed, bound = form.P @ x, form.A.T @ y, form.G.T @ z, form.G @ x
    balanced = is_resolved(curved + form.q + held + pushed, curved, form.q, held, pushed)
    placed = is_resolved(form.A @ x - form.b, form.A @ x, form.b)
    placed &= is_resolved(bound + t - form.limit, bound, t, form.limit)
    # Where all data are zero a point is zero up to rounding, and rounding must not decide what is active: what counts
    # then is only more than such a point can account for.
    most = 2.0 * len(x)
    reach = jnp.where(balanced & placed, tiny, most)
    force = reach * norm(curved) + jnp.where(balanced, tiny, most) * norm(held)
    loose = t > tiny * jnp.abs(form.limit) + reach * rows * norm(x)
    pressed = z * rows > jnp.maximum(tiny * norm(form.q), force)
    neither = ~loose & ~pressed
    empty = ~loose & (rows == 0.0)
    n, p = len(form.q), len(form.b)
    count = jnp.sum(~loose) + p
    code = jnp.select([jnp.any(empty), jnp.any(neither), count > n], [4, 1, 2], 0)
    if not len(form.limit):
        nothing = jnp.zeros((), form.q.dtype)
        return Doubt(code, jnp.asarray(0), count, jnp.asarray(n), nothing, nothing)
    index = jnp.argmax(jnp.where(jnp.any(empty), empty, neither))
    return Doubt(code, index, count, jnp.asarray(n), t[index], z[index])


__all__ = ["Solver", "conditions", "quadratic_program"]
