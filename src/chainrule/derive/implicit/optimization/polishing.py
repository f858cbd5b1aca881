"""Polishing: from the nearly optimal point of the interior-point method to an exact one.

`polish` takes the inequalities whose multiplier outweighs their slack for active and solves the equations that are
left; a vertex comes out to the last few digits. It is written as a few proximal steps with one factorisation, which
also converge where the equations are dependent (degenerate vertices, several solutions). `center` goes to the point
where every product of slack and multiplier equals `mu`, the smooth solution.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from chainrule.core.types import Scalar
from chainrule.derive.implicit.optimization.forms import Form, PrimalDualPoint
from chainrule.derive.implicit.optimization.primal_dual import norm

_PROXIMITY = 1e-6
_POLISHING_STEPS = 6


class Errors(NamedTuple):
    """How far a point is from optimal, relative to the numbers involved."""

    primal: Scalar
    dual: Scalar
    gap: Scalar

    @property
    def worst(self) -> Scalar:
        """The largest of them."""
        return jnp.max(jnp.stack(list(self)))


def errors(form: Form, point: PrimalDualPoint, mu: Array | float = 0.0) -> Errors:
    """Violations of feasibility, stationarity (signs included) and complementarity."""
    x, y, z, t = point
    curved, pulled = form.curve(x), form.pull(z)
    forces = (curved, form.A.T @ y, pulled, form.q)
    equations, bounds = form.A @ x, form.bound(x)
    primal = jnp.maximum(
        norm(equations - form.b), jnp.maximum(norm(bounds + t - form.h), norm(jnp.minimum(t, 0.0)))
    )
    dual = jnp.maximum(norm(curved + form.A.T @ y + pulled + form.q), norm(jnp.minimum(z, 0.0)))
    products = jnp.abs(t * z - mu)
    return Errors(
        primal / (1.0 + jnp.max(jnp.stack([norm(part) for part in (equations, bounds, t, form.b, form.h)]))),
        dual / (1.0 + jnp.max(jnp.stack([norm(part) for part in forces]))),
        jnp.sum(products) / (1.0 + jnp.abs(form.value(x)) + len(t) * mu),
    )


def is_active(point: PrimalDualPoint) -> Array:
    """Inequalities whose multiplier outweighs their slack, each measured by the largest of its kind."""
    return point.z * (1.0 + norm(point.t)) > point.t * (1.0 + norm(point.z))


def polish(form: Form, point: PrimalDualPoint) -> tuple[PrimalDualPoint, Array]:
    """The point moved onto its active inequalities, if that makes it better, and whether it did."""
    active = is_active(point)
    near = jnp.asarray(_PROXIMITY, form.q.dtype)
    solve = form.factor(jnp.where(active, 1.0 / near, near))

    def step(_: Array, now: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        x, y, z = now
        dx, dy, dz = solve(
            -(form.curve(x) + form.A.T @ y + form.pull(z) + form.q),
            form.b - form.A @ x,
            jnp.where(active, form.h - form.bound(x), 0.0),
        )
        return x + dx, y + dy, z + jnp.where(active, dz, 0.0)

    start = (point.x, point.y, jnp.where(active, point.z, 0.0))
    x, y, z = jax.lax.fori_loop(0, _POLISHING_STEPS, step, start)
    moved = PrimalDualPoint(x, y, z, jnp.where(active, 0.0, form.h - form.bound(x)))
    better = errors(form, moved).worst <= errors(form, point).worst
    return jax.tree.map(lambda new, old: jnp.where(better, new, old), moved, point), better


def center(
    form: Form, point: PrimalDualPoint, mu: Array | float, max_steps: int
) -> tuple[PrimalDualPoint, Array]:
    """The point where t_i z_i = mu for all i, by Newton's method from the inside, and the number of steps."""
    goal = 64.0 * float(jnp.finfo(form.q.dtype).eps)

    def going(now: tuple[PrimalDualPoint, Scalar, Scalar, Array]) -> Array:
        _, error, before, steps = now
        settled = (error < 1e-3) & (error > 0.5 * before)  # rounding is all that is left
        return (error > goal) & ~settled & (steps < max_steps)

    def step(
        now: tuple[PrimalDualPoint, Scalar, Scalar, Array],
    ) -> tuple[PrimalDualPoint, Scalar, Scalar, Array]:
        (x, y, z, t), error, _, steps = now
        products = t * z - mu
        dx, dy, dz = form.factor(z / t)(
            -(form.curve(x) + form.A.T @ y + form.pull(z) + form.q),
            form.b - form.A @ x,
            form.h - form.bound(x) - t + products / z,
        )
        dt = -(products + t * dz) / z
        shrinking = jnp.concatenate([-dz / z, -dt / t])
        length = jnp.minimum(1.0, 0.9 / jnp.max(shrinking, initial=0.1))
        moved = PrimalDualPoint(x + length * dx, y + length * dy, z + length * dz, t + length * dt)
        return moved, _distance(form, moved, mu), error, steps + 1

    start = (point, _distance(form, point, mu), jnp.asarray(jnp.inf, form.q.dtype), jnp.asarray(0))
    point, _, _, steps = jax.lax.while_loop(going, step, start)
    return point, steps


def _distance(form: Form, point: PrimalDualPoint, mu: Array | float) -> Scalar:
    return jnp.maximum(errors(form, point, mu).worst, norm(point.t * point.z / mu - 1.0))


__all__ = ["Errors", "center", "errors", "is_active", "polish"]
