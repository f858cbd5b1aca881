"""A primal-dual interior-point method for linear and convex quadratic programs, compiled.

The homogeneous embedding adds two numbers to the unknowns, tau and kappa: where the program has a solution, tau stays
positive and x/tau is one; where it has none, tau goes to zero and the unknowns become a proof of that. Steps are
Mehrotra's predictor and corrector with one factorisation each. The embedding of a quadratic objective follows Goulart
and Chen, "Clarabel: an interior-point solver for conic programs with quadratic objectives" (2024).
"""

from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Array

from chainrule.core.types import Scalar
from chainrule.derive.implicit.optimization.forms import Form, PrimalDualPoint, Solve
from chainrule.derive.implicit.optimization.results import Status

RUNNING = -1
SOLVED, INFEASIBLE, UNBOUNDED, STUCK = (int(one) for one in Status if one <= Status.STUCK)
Step: TypeAlias = tuple[PrimalDualPoint, Scalar, Scalar]
"""A change of the unknowns, of tau and of kappa."""
_STEP = 0.99
_SHORTEST = 1e-10
_ROUNDING = 0.1
"""Share of its largest term from which the residual of an equation says that its terms are rounding."""


class InteriorState(NamedTuple):
    """Where the method is: the unknowns of the embedding, the verdict so far and the number of steps."""

    point: PrimalDualPoint
    tau: Scalar
    kappa: Scalar
    verdict: Array
    steps: Array


class _Residual(NamedTuple):
    x: Array
    y: Array
    z: Array
    tau: Scalar


def solve(form: Form, tolerance: float, max_steps: int, floor: Array | float = 0.0) -> InteriorState:
    """Run the method; `point` is divided by tau if there is a solution, and a ray if there is none.

    `floor` ends the run as soon as the point is feasible and its average complementarity is that small, for solvers
    that continue at a fixed one.
    """
    n, p, m = len(form.q), len(form.b), len(form.h)
    dtype = form.q.dtype
    one = jnp.ones((), dtype)
    start = PrimalDualPoint(jnp.zeros(n, dtype), jnp.zeros(p, dtype), jnp.ones(m, dtype), jnp.ones(m, dtype))
    state = InteriorState(start, one, one, jnp.asarray(RUNNING), jnp.asarray(0))
    state = jax.lax.while_loop(
        lambda now: (now.verdict == RUNNING) & (now.steps < max_steps),
        lambda now: _advance(form, now, tolerance, floor),
        state,
    )
    verdict = jnp.where(state.verdict == RUNNING, STUCK, state.verdict)
    gain = -(jnp.vdot(form.b, state.point.y) + jnp.vdot(form.h, state.point.z))
    size = jnp.select(
        [verdict == INFEASIBLE, verdict == UNBOUNDED], [gain, -jnp.vdot(form.q, state.point.x)], state.tau
    )
    return state._replace(point=PrimalDualPoint(*(part / size for part in state.point)), verdict=verdict)


def _residual(form: Form, state: InteriorState) -> _Residual:
    (x, y, z, t), tau = state.point, state.tau
    curved = form.curve(x)
    linear = jnp.vdot(form.q, x) + jnp.vdot(form.b, y) + jnp.vdot(form.h, z)
    return _Residual(
        curved + form.A.T @ y + form.pull(z) + form.q * tau,
        form.A @ x - form.b * tau,
        form.bound(x) + t - form.h * tau,
        state.kappa + linear + jnp.vdot(x, curved) / tau,
    )


def _advance(form: Form, state: InteriorState, tolerance: float, floor: Array | float) -> InteriorState:
    """One predictor and one corrector."""
    (_, _, z, t), tau, kappa = state.point, state.tau, state.kappa
    residual = _residual(form, state)
    solve = form.factor(z / t)
    fixed = solve(-form.q, form.b, form.h)
    average = (jnp.vdot(t, z) + tau * kappa) / (len(t) + 1)

    def improve(_: Array, guess: tuple[Step, Scalar]) -> tuple[Step, Scalar]:
        """The predictor, from a guess of nothing; from that the corrector, which aims at products of even size."""
        ((_, _, dz, dt), dtau, dkappa), centring = guess
        step = _direction(
            form,
            state,
            fixed,
            solve,
            _Residual(*((1.0 - centring) * part for part in residual)),
            t * z + dt * dz - centring * average,
            tau * kappa + dtau * dkappa - centring * average,
        )
        return step, (1.0 - _longest(state, step)) ** 3

    zero = jnp.zeros_like(tau)
    nothing: Step = (jax.tree.map(jnp.zeros_like, state.point), zero, zero)
    corrector, _ = jax.lax.fori_loop(0, 2, improve, (nothing, zero))
    length = _STEP * _longest(state, corrector)
    step, dtau, dkappa = corrector
    point = PrimalDualPoint(*(old + length * new for old, new in zip(state.point, step, strict=True)))
    moved = InteriorState(point, tau + length * dtau, kappa + length * dkappa, state.verdict, state.steps + 1)
    # A step that is not finite, or moves nothing, ends the run where it was.
    usable = jnp.isfinite(moved.tau) & (length > _SHORTEST)
    for part in point:
        usable &= jnp.all(jnp.isfinite(part))
    moved = moved._replace(verdict=_judge(form, moved, tolerance, floor))
    ended = state._replace(verdict=jnp.asarray(STUCK), steps=state.steps + 1)
    return jax.tree.map(lambda new, old: jnp.where(usable, new, old), moved, ended)


def _direction(
    form: Form,
    state: InteriorState,
    fixed: tuple[Array, Array, Array],
    solve: Solve,
    residual: _Residual,
    products: Array,
    product: Scalar,
) -> Step:
    """The Newton direction for given residuals and products t*z, tau*kappa to be removed."""
    (x, _, z, t), tau, kappa = state.point, state.tau, state.kappa
    free = solve(-residual.x, -residual.y, -residual.z + products / z)
    inner = x / tau
    curved = form.curve(inner)

    def slope(direction: tuple[Array, Array, Array]) -> Scalar:
        dx, dy, dz = direction
        return jnp.vdot(form.q + 2.0 * curved, dx) + jnp.vdot(form.b, dy) + jnp.vdot(form.h, dz)

    over = -residual.tau + product / tau - slope(free)
    dtau = over / (slope(fixed) - kappa / tau - jnp.vdot(inner, curved))
    dx, dy, dz = (one + dtau * two for one, two in zip(free, fixed, strict=True))
    return PrimalDualPoint(dx, dy, dz, -(products + t * dz) / z), dtau, -(product + kappa * dtau) / tau


def _longest(state: InteriorState, step: Step) -> Scalar:
    """The longest step of at most one that keeps t, z, tau and kappa from becoming negative."""
    (_, _, dz, dt), dtau, dkappa = step
    old = jnp.concatenate([state.point.z, state.point.t, state.tau[None], state.kappa[None]])
    new = jnp.concatenate([dz, dt, dtau[None], dkappa[None]])
    return jnp.min(jnp.where(new < 0.0, -old / jnp.where(new < 0.0, new, -1.0), 1.0), initial=1.0)


def _judge(form: Form, state: InteriorState, tolerance: float, floor: Array | float) -> Array:
    """Whether the point is a solution, or a proof that there is none."""
    point, tau = state.point, state.tau
    residual = _residual(form, state)
    inside = PrimalDualPoint(*(part / tau for part in point))
    primal = jnp.maximum(norm(residual.y), norm(residual.z)) / tau
    dual = norm(residual.x) / tau
    dot = jnp.vdot(inside.t, inside.z)
    value = jnp.abs(form.value(inside.x))
    feasible = (primal <= tolerance * (1.0 + _size(form.A @ inside.x, form.b, inside.t, form.h))) & (
        dual
        <= tolerance * (1.0 + _size(form.curve(inside.x), form.A.T @ inside.y, form.pull(inside.z), form.q))
    )
    small = (dot <= tolerance * (1.0 + value)) | (dot <= len(form.h) * floor)
    gain = -(jnp.vdot(form.b, point.y) + jnp.vdot(form.h, point.z))
    loss = -jnp.vdot(form.q, point.x)
    no_point = (gain > 0.0) & (norm(form.A.T @ point.y + form.pull(point.z)) <= tolerance * gain)
    leak = jnp.maximum(norm(form.A @ point.x), norm(form.bound(point.x) + point.t))
    no_end = (loss > 0.0) & (jnp.maximum(leak, norm(form.curve(point.x))) <= tolerance * loss)
    return jnp.select([feasible & small, no_point, no_end], [SOLVED, INFEASIBLE, UNBOUNDED], RUNNING)


def is_resolved(residual: Array, *parts: Array) -> Array:
    """Whether an equation holds between numbers that are more than rounding: its residual is far below its terms."""
    return norm(residual) <= _ROUNDING * _size(*parts)


def norm(vector: Array) -> Scalar:
    """The largest absolute entry; zero for an empty vector."""
    return jnp.max(jnp.abs(vector), initial=0.0)


def _size(*vectors: Array) -> Scalar:
    return jnp.max(jnp.stack([norm(vector) for vector in vectors]))


__all__ = [
    "INFEASIBLE",
    "RUNNING",
    "SOLVED",
    "STUCK",
    "UNBOUNDED",
    "InteriorState",
    "is_resolved",
    "norm",
    "solve",
]
