"""Linear programs in standard form, with derivatives in everything that defines them.

A solution (x, y) satisfies Ax = b and x_i s_i = 0 with s = c - A'y. These are as many equations as unknowns, so the
implicit function theorem gives its derivatives. At a vertex x moves with b and not with c; `mu` rounds the corners off.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Scalar
from chainrule.derive.implicit.linear.sparse import Sparse
from chainrule.derive.implicit.optimization import arguments, convex_solver, failures, highs
from chainrule.derive.implicit.optimization.convex_solver import ConvexOutcome
from chainrule.derive.implicit.optimization.failures import Doubt
from chainrule.derive.implicit.optimization.forms import PrimalDualPoint, Standard
from chainrule.derive.implicit.optimization.matrices import (
    SparseMatrix,
    assembled,
    conditions_pattern,
    is_sparse,
    sparse_matrix,
)
from chainrule.derive.implicit.optimization.primal_dual import is_resolved, norm
from chainrule.derive.implicit.optimization.results import LinearSolution, Status
from chainrule.derive.implicit.theorem import attach

SOLVERS = ("interior", "highs")
_WHERE = "linear_program"
Solver = Callable[[Array, Any, Array], tuple[Array, Array]]


def linear_program(
    c: Any,
    A: Any,
    b: Any,
    *,
    mu: Any = 0.0,
    solver: str | Solver = "interior",
    linear: Any = None,
    on_failure: str = "raise",
    on_singular: str = "raise",
    max_steps: int = 100,
) -> LinearSolution:
    """Minimise c'x subject to Ax = b and x >= 0; the result has derivatives in c, A, b and mu, to every order.

    >>> A = [[1.0, 0, 1, 0, 0], [0, 2, 0, 1, 0], [3, 2, 0, 0, 1]]
    >>> solution = linear_program([-3.0, -5, 0, 0, 0], A, [4.0, 12, 18])
    >>> [round(float(x), 4) for x in solution.x], round(float(solution.value), 4)
    ([2.0, 6.0, 2.0, 0.0, 0.0], -36.0)

    `mu > 0` asks for the point where x_i s_i = mu for all i instead of the vertex: smooth in c as well. `solver` is
    "interior" (compiled; scales, checks and polishes), "highs" (SciPy's, on the host) or a function
    (c, A, b) -> (x, y). Double precision gives vertices to about 1e-14, single precision to about 1e-6.

    What cannot be solved is named: `InfeasibleError`, `UnboundedError` (both with a proof), dependent rows. What can
    be solved but not differentiated (degenerate vertices, several solutions) is refused when a derivative is taken;
    `on_singular="lstsq"` takes the shortest least-squares answer instead. `on_failure="nan"` gives NaN for every
    failure, with the reason in `stats.status`. `linear` chooses how derivatives are solved for: "lu" or another way.

    A may be sparse (SciPy, or BCOO for derivatives in its entries) with `solver="highs"`; derivatives then come from a
    sparse factorisation, unless `linear` says otherwise.
    """
    sparse = sparse_matrix(_WHERE, "A", A) if is_sparse(A) else None
    data = arguments.arrays(_WHERE, c=c, A=A if sparse is None else sparse.entries, b=b)
    c, A, b = data["c"], data["A"], data["b"]
    if sparse is not None:
        A = SparseMatrix(A, sparse.pattern)
        linear = Sparse(conditions_pattern(A.pattern)) if linear is None else linear
    else:
        arguments.dimensions(_WHERE, "A", A, 2)
    arguments.shape(_WHERE, "c", c, (A.shape[1],), f"A has {A.shape[1]} columns")
    arguments.shape(_WHERE, "b", b, (A.shape[0],), f"A has {A.shape[0]} rows")
    arguments.some_variables(_WHERE, c.size)
    mu, smooth = arguments.smoothing(_WHERE, mu, c.dtype)
    way = arguments.policies(_WHERE, "lu" if linear is None else linear, on_failure, on_singular, max_steps)
    strict = on_singular == "raise"
    held = Standard(*jax.tree.map(jax.lax.stop_gradient, (c, A, b)))
    outcome = _solve(held, jax.lax.stop_gradient(mu), solver, smooth, max_steps, strict)
    valid = failures.gate(_WHERE, outcome, on_failure)
    x, y, scale, doubt = _judged(held, outcome.point, valid)
    if strict and not smooth:
        c, A, b = failures.guard(_WHERE, (c, A, b), doubt, on_failure)
    x, y = attach(_scaled_conditions, (x, y), (c, A, b, mu, scale), way, on_failure=on_failure, name=_WHERE)
    s, value = _prices(x, y, c, A)
    return LinearSolution(x, y, s, value, outcome.stats)


def conditions(w: tuple[Array, Array], c: Array, A: Any, b: Array, mu: Any = 0.0) -> tuple[Array, Array]:
    """What a solution w = (x, y) makes zero: Ax - b and x (c - A'y) - mu.

    >>> w = (jnp.array([1.0, 0.0]), jnp.array([2.0]))
    >>> [part.tolist() for part in conditions(w, jnp.array([2.0, 3.0]), jnp.ones((1, 2)), jnp.ones(1))]
    [[0.0], [0.0, 0.0]]
    """
    x, y = w
    return A @ x - b, x * (c - A.T @ y) - mu


def _scaled_conditions(
    w: tuple[Array, Array], c: Array, A: Any, b: Array, mu: Array, scale: Array
) -> tuple[Array, Array]:
    """The same with rows of similar size, so that the condition number speaks of the vertex and not of units."""
    equations, products = conditions(w, c, A, b, mu)
    return equations, scale * products


@jax.jit
def _prices(x: Array, y: Array, c: Array, A: Any) -> tuple[Array, Scalar]:
    """Reduced costs and value."""
    return c - A.T @ y, jnp.vdot(c, x)


@jax.jit
def _judged(form: Standard, point: PrimalDualPoint, valid: Scalar) -> tuple[Array, Array, Array, Doubt]:
    """The solution (NaN where it is not valid), the size of its products, and whether it has derivatives."""
    x, y = point.x * valid, point.y * valid
    return x, y, _scale(form, x, y), _doubt(form, x, y)


def _scale(form: Standard, x: Array, y: Array) -> Array:
    size = jnp.abs(x) + jnp.abs(form.q - form.A.T @ y)
    return jax.lax.stop_gradient(1.0 / jnp.where(size > 0.0, size, 1.0))


def _solve(
    form: Standard, mu: Array, solver: str | Solver, smooth: bool, max_steps: int, independent: bool
) -> ConvexOutcome:
    """The outcome in the signs of a linear program: A'y + s = c."""
    if solver == "interior":
        if isinstance(form.A, SparseMatrix):
            raise ArgumentError(
                f'{_WHERE}(solver="interior"): A is sparse', remedy='use solver="highs", or A.todense()'
            )
        outcome = convex_solver.interior_point(
            form, mu, smooth=smooth, max_steps=max_steps, independent=independent
        )
    else:
        point, status = _foreign(form, solver, smooth)
        outcome = convex_solver.given_point(form, point, status, mu, smooth=smooth, independent=independent)
    point, stats = outcome.point, outcome.stats
    point = point._replace(x=point.t, y=-point.y)  # t is x with exact zeros
    stats = eqx.tree_at(lambda one: one.ray.y, stats, -stats.ray.y)
    return outcome._replace(point=point, stats=stats)


def _foreign(form: Standard, solver: str | Solver, smooth: bool) -> tuple[PrimalDualPoint, Array]:
    """A point (or a ray) from another solver, and what it says about it."""
    if callable(solver):
        found = solver(form.q, form.A, form.b)
        if not (isinstance(found, tuple) and len(found) == 2):
            raise ArgumentError(
                f"{_WHERE}: the solver returned {type(found).__name__}, expected a pair (x, y)"
            )
        made = arguments.arrays(f"{_WHERE}, solver", x=found[0], y=found[1])
        arguments.shape(_WHERE, "x of the solver", made["x"], form.q.shape, "that of c")
        arguments.shape(_WHERE, "y of the solver", made["y"], form.b.shape, "that of b")
        x, y = (jax.lax.stop_gradient(one).astype(form.q.dtype) for one in (made["x"], made["y"]))
        return PrimalDualPoint(x, -y, form.q - form.A.T @ y, x), jnp.asarray(int(Status.SOLVED))
    check_choice(_WHERE, "solver", solver, SOLVERS)
    if smooth:
        raise ArgumentError(
            f'{_WHERE}(solver="highs", mu=...): HiGHS finds vertices', remedy='use solver="interior"'
        )
    if isinstance(form.A, SparseMatrix):
        return highs.solve(form.q, form.A.entries, form.b, partial(assembled, form.A.pattern))
    return highs.solve(form.q, form.A, form.b, np.asarray)


def _doubt(form: Standard, x: Array, y: Array) -> Doubt:
    """Whether the vertex is nondegenerate (as many positive x as equations) and s > 0 elsewhere."""
    s = form.q - form.A.T @ y
    tiny = math.sqrt(jnp.finfo(x.dtype).eps)
    made, priced = form.A @ x, form.A.T @ y
    # Where b or c are zero, x or y are zero up to rounding, and rounding must not decide what is positive.
    placed = is_resolved(made - form.b, made, form.b)
    up = (x > tiny * norm(x)) & placed
    balanced = is_resolved(jnp.where(x > 0.0, s, 0.0), form.q, priced)
    costly = s > jnp.maximum(tiny * norm(form.q), jnp.where(balanced, tiny, 2.0 * len(y)) * norm(priced))
    neither = ~up & ~costly
    index, count, m = jnp.argmax(neither), jnp.sum(up), len(form.b)
    code = jnp.select([jnp.any(neither), count < m, count > m], [1, 2, 3], 0)
    return Doubt(code, index, count, jnp.asarray(m), x[index], s[index])


__all__ = ["SOLVERS", "Solver", "conditions", "linear_program"]
