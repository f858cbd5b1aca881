"""Solution of a convex program in one compiled function per shape: scale, check, iterate, polish."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from chainrule.core.types import Scalar
from chainrule.derive.implicit.optimization import polishing, primal_dual
from chainrule.derive.implicit.optimization.forms import Form, General, PrimalDualPoint
from chainrule.derive.implicit.optimization.matrices import SparseMatrix
from chainrule.derive.implicit.optimization.results import ProgramStats, Ray, Status


class ConvexOutcome(NamedTuple):
    """A point, how it was found, and the numbers that explain a failure."""

    point: PrimalDualPoint
    stats: ProgramStats
    row: Array
    """The first row of A that depends on those before it, where the status says so."""
    eigenvalue: Scalar
    """The smallest eigenvalue of P."""


def tolerance(dtype: Any) -> float:
    """The relative accuracy the interior-point method stops at; polishing follows."""
    return 1e-9 if jnp.finfo(dtype).bits >= 64 else 1e-4


def accepted(dtype: Any) -> float:
    """The largest relative error of a point that counts as a solution."""
    return 1e-7 if jnp.finfo(dtype).bits >= 64 else 1e-3


@partial(jax.jit, static_argnames=("smooth", "max_steps", "independent"))
def interior_point(
    form: Form, mu: Array, *, smooth: bool, max_steps: int, independent: bool
) -> ConvexOutcome:
    """Solve by the interior-point method; `smooth` asks for the point where slack times multiplier is mu."""
    scaled, scales = form.equilibrated()
    state = primal_dual.solve(scaled, tolerance(form.q.dtype), max_steps, mu if smooth else 0.0)
    if smooth:
        point, more = polishing.center(scaled, state.point, mu, max_steps)
        polished = jnp.asarray(False)
    else:
        point, polished = polishing.polish(scaled, state.point)
        more = jnp.asarray(1)
    solved = (state.verdict != Status.INFEASIBLE) & (state.verdict != Status.UNBOUNDED)
    point = jax.tree.map(lambda new, old: jnp.where(solved, new, old), point, state.point)
    active = polishing.is_active(point) & (not smooth)
    stats = (state.steps, state.steps + more, polished & solved, active)
    return _conclude(
        form, scaled, scales.restore(point), mu if smooth else 0.0, state.verdict, stats, independent
    )


@partial(jax.jit, static_argnames=("smooth", "independent"))
def given_point(
    form: Form, point: PrimalDualPoint, verdict: Array, mu: Array, *, smooth: bool, independent: bool
) -> ConvexOutcome:
    """Judge, and if not smooth polish, a point that another solver found."""
    polished = jnp.asarray(False)
    sparse = isinstance(form.A, SparseMatrix)
    scaled, scales = (form, None) if sparse else form.equilibrated()
    if scales is not None and not smooth:
        inside = PrimalDualPoint(
            point.x / scales.x, point.y / scales.y, point.z / scales.z, point.t * scales.z
        )
        found, polished = polishing.polish(scaled, inside)
        solved = verdict == Status.SOLVED
        polished = polished & solved
        point = jax.tree.map(lambda new, old: jnp.where(solved, new, old), scales.restore(found), point)
    none = jnp.asarray(0)
    stats = (none, none + (0 if smooth or sparse else 1), polished, polishing.is_active(point) & (not smooth))
    return _conclude(form, scaled, point, mu if smooth else 0.0, verdict, stats, independent)


def _conclude(
    form: Form,
    scaled: Form,
    point: PrimalDualPoint,
    mu: Array | float,
    verdict: Array,
    stats: tuple[Array, Array, Array, Array],
    independent: bool,
) -> ConvexOutcome:
    """The verdict in the units of the program: what the solver says counts only if the numbers agree."""
    limit = accepted(form.q.dtype)
    found = polishing.errors(form, point, mu)
    row, dependent = dependent_row(scaled.A)
    eigenvalue, bent = smallest_eigenvalue(form)
    claims = (verdict == Status.INFEASIBLE) | (verdict == Status.UNBOUNDED)
    status = jnp.select(
        [bent, dependent & independent, claims, found.worst <= limit],
        [int(Status.NONCONVEX), int(Status.DEPENDENT), verdict, int(Status.SOLVED)],
        int(Status.STUCK),
    )
    lost, open_ended = (status == int(one) for one in (Status.INFEASIBLE, Status.UNBOUNDED))
    ray = Ray(
        jnp.where(open_ended, point.x, 0.0), jnp.where(lost, point.y, 0.0), jnp.where(lost, point.z, 0.0)
    )
    steps, factorisations, polished, active = stats
    made = ProgramStats(
        status, steps, factorisations, found.primal, found.dual, found.gap, polished, active, ray
    )
    return ConvexOutcome(point, made, row, eigenvalue)


def dependent_row(A: Array | SparseMatrix) -> tuple[Array, Array]:
    """The first row that is a combination of those before it, and whether there is one; not sought in sparse ones."""
    m, n = A.shape
    if not m or isinstance(A, SparseMatrix):
        return jnp.asarray(0), jnp.asarray(False)
    diagonal = jnp.abs(jnp.diagonal(jnp.linalg.qr(A.T, mode="r")))
    size = jnp.sqrt(jnp.sum(A * A, axis=1))
    # The diagonal of R holds the distance of each row from the span of the rows before it.
    short = diagonal <= float(jnp.finfo(A.dtype).eps) ** 0.75 * size[: len(diagonal)]
    if m > n:
        short = jnp.concatenate([short, jnp.ones(m - n, bool)])
    return jnp.argmax(short), jnp.any(short)


def smallest_eigenvalue(form: Form) -> tuple[Scalar, Array]:
    """Of P, and whether it is negative beyond rounding."""
    if not isinstance(form, General):
        return jnp.zeros((), form.q.dtype), jnp.asarray(False)
    values = jnp.linalg.eigvalsh(form.P)
    slack = 100.0 * len(values) * float(jnp.finfo(values.dtype).eps)
    return values[0], values[0] < -slack * jnp.max(jnp.abs(values))


__all__ = [
    "ConvexOutcome",
    "accepted",
    "dependent_row",
    "given_point",
    "interior_point",
    "smallest_eigenvalue",
    "tolerance",
]
