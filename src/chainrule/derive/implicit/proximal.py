"""Proximal and projected gradient: minimisers of a smooth function plus one that has a proximal operator.

The minimiser of f + h is the fixed point of x -> prox(x - s grad f(x), s), for every step size s > 0, and its
derivative is that of the fixed point. Constraints are the case where h is zero on a set and infinite elsewhere: the
operator is then the projection onto the set.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from chainrule.core import tree
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Scalar, Tree
from chainrule.derive import validation
from chainrule.derive.implicit.implicit_function import Implicit, named_fixed_point
from chainrule.derive.implicit.tolerances import Conditions

_ITERATIONS = 50
_SAFETY = 0.8
"""Share of the step size that the estimated curvature allows: the estimate is never above the curvature."""


def proximal_gradient(
    f: Any,
    prox: Any,
    step: float | None = None,
    solver: Any = "nesterov",
    linear: Any = "auto",
    *,
    tolerance: float | None = None,
    rcond: float | None = None,
    on_failure: str = "raise",
    on_singular: str = "fail",
) -> Implicit:
    """The w that minimises f(w, *params) + h(w, *params) as a function `solve(w0, *params)` of the parameters.

    `f` is smooth; h is given by its proximal operator, `prox(x, step, *params)` = argmin |z - x|²/2 + step h(z). `step`
    is the size of the gradient steps, at most 1 / (largest curvature of f); without it the curvature is estimated at
    `w0`, which is right for quadratic f. Options are those of `fixed_point`; derivatives exist where the set of
    coordinates that the operator holds fast does not change.

    >>> lasso = proximal_gradient(
    ...     lambda w, y, _: jnp.sum((w - y) ** 2) / 2,
    ...     lambda x, step, _, penalty: soft_threshold(x, step * penalty),
    ... )
    >>> [round(float(w), 4) for w in lasso(jnp.zeros(3), jnp.array([3.0, -0.5, -2.0]), 1.0)]
    [2.0, 0.0, -1.0]
    """
    how = (solver, linear, Conditions(tolerance, rcond), on_failure, on_singular)
    return _splitting("proximal_gradient", f, prox, step, how)


def projected_gradient(
    f: Any,
    project: Any,
    step: float | None = None,
    solver: Any = "nesterov",
    linear: Any = "auto",
    *,
    tolerance: float | None = None,
    rcond: float | None = None,
    on_failure: str = "raise",
    on_singular: str = "fail",
) -> Implicit:
    """The w that minimises f(w, *params) on a set as a function `solve(w0, *params)` of the parameters.

    `project(x, *params)` is the point of the set next to x. The rest is as in `proximal_gradient`.

    >>> nonnegative = projected_gradient(lambda w, y: jnp.sum((w - y) ** 2), lambda x, y: jnp.maximum(x, 0.0))
    >>> [round(float(w), 4) for w in nonnegative(jnp.ones(2), jnp.array([-1.0, 2.0]))]
    [0.0, 2.0]
    """
    validation.function("projected_gradient", project)
    prox = lambda x, _, *params: project(x, *params)  # noqa: E731
    how = (solver, linear, Conditions(tolerance, rcond), on_failure, on_singular)
    return _splitting("projected_gradient", f, prox, step, how)


def soft_threshold(x: Array, threshold: Any) -> Array:
    """The proximal operator of threshold * |x|₁: every number is moved towards zero, and no further.

    >>> soft_threshold(jnp.array([3.0, -0.5, -2.0]), 1.0).tolist()
    [2.0, 0.0, -1.0]
    """
    return jnp.where(jnp.abs(x) > threshold, x - jnp.sign(x) * threshold, jnp.zeros_like(x))


def project_simplex(x: Array, total: Any = 1.0) -> Array:
    """The point next to a vector among those with no negative number and a given sum.

    >>> [round(float(p), 4) for p in project_simplex(jnp.array([0.5, 0.3, -1.0]))]
    [0.6, 0.4, 0.0]
    """
    ordered = jnp.sort(x, descending=True)
    excess = (jnp.cumsum(ordered) - total) / jnp.arange(1, x.size + 1)
    kept = jnp.sum(ordered > excess) - 1
    return jnp.maximum(x - excess[kept], 0.0)


def _splitting(
    name: str, f: Any, prox: Any, step: float | None, how: tuple[Any, Any, Conditions, str, str]
) -> Implicit:
    validation.function(name, f)
    validation.function(name, prox)
    if step is not None and not step > 0:
        raise ArgumentError(f"{name}(step={step!r}): a step size is positive, or None to have it estimated")

    def objective(w: Tree, *params: Any) -> Scalar:
        value = f(w, *params)
        validation.scalar_output(name, value)
        return value

    def advance(x: Tree, size: Scalar, *params: Any) -> Tree:
        slope = jax.grad(objective)(x, *params)
        # The minimiser is the same for every step size: it has no part in the derivative.
        held = jax.lax.stop_gradient(size)
        return prox(tree.subtract(x, tree.scale(held, slope)), held, *params)

    def leading(w0: Tree, *params: Any) -> tuple[Scalar]:
        return (_step_size(objective, w0, params) if step is None else jnp.asarray(step),)

    return named_fixed_point(name, advance, *how, leading)


def _step_size(f: Callable[..., Any], w0: Tree, params: tuple[Any, ...]) -> Scalar:
    """From the largest curvature at the first guess, by power iteration."""
    x, restore = ravel_pytree(jax.tree.map(jnp.asarray, w0))
    slope = jax.grad(lambda z: f(restore(z), *params))
    product = lambda v: jax.jvp(slope, (x,), (v,))[1]  # noqa: E731

    def advance(_: Any, state: tuple[Array, Scalar]) -> tuple[Array, Scalar]:
        found = product(state[0])
        size = jnp.linalg.norm(found)
        return found / jnp.where(size > 0, size, 1), size

    start = 1.0 + jnp.cos(jnp.arange(x.size, dtype=x.dtype)) / 2
    first = start / jnp.linalg.norm(start), jnp.zeros((), x.dtype)
    _, curvature = jax.lax.fori_loop(0, _ITERATIONS, advance, first)
    return jnp.where(curvature > 0, _SAFETY / jnp.where(curvature > 0, curvature, 1), 1.0)


__all__ = ["project_simplex", "projected_gradient", "proximal_gradient", "soft_threshold"]
