"""Full-batch methods with a step length of their own: L-BFGS, and damped Newton steps by conjugate gradients.

They need to evaluate the loss while they decide, so `value` (the loss), `grad` and `value_fn` (the loss as a function
of the parameters) come with every update. The update they give is the step itself: no learning rate applies.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from chainrule.core import tree
from chainrule.core.types import Scalar, Tree

_START = 1e-3
_LEAST, _MOST = 1e-10, 1e10


def lbfgs(memory: int = 10) -> optax.GradientTransformationExtraArgs:
    """Steps along an estimate of `H⁻¹ g` from the last `memory` steps, as long as a line search finds best."""
    search = optax.scale_by_zoom_linesearch(max_linesearch_steps=20, initial_guess_strategy="one")
    return optax.lbfgs(memory_size=memory, linesearch=search)


class NewtonState(NamedTuple):
    """How far the quadratic model of the loss is trusted: the larger, the shorter the steps."""

    damping: Scalar


def newton_cg(iterations: int = 50) -> optax.GradientTransformationExtraArgs:
    """Steps `-(H + damping)⁻¹ g`, solved by conjugate gradients from products with the Hessian.

    A step that does not lower the loss is not made. The damping falls while the quadratic model foretells the change of
    the loss and rises while it does not (Levenberg, 1944; Marquardt, 1963; for networks Martens, 2010).
    """

    def init(params: Tree) -> NewtonState:
        return NewtonState(jnp.full((), _START, jax.tree.leaves(params)[0].dtype))

    def update(
        grads: Tree,
        state: NewtonState,
        params: Tree | None = None,
        *,
        value: Scalar,
        value_fn: Callable[[Tree], Scalar],
        **_: Any,
    ) -> tuple[Tree, NewtonState]:
        def curvature(v: Tree) -> Tree:
            return jax.jvp(jax.grad(value_fn), (params,), (v,))[1]

        def damped(v: Tree) -> Tree:
            return jax.tree.map(lambda h, leaf: h + state.damping * leaf, curvature(v), v)

        step = conjugate_gradients(damped, tree.scale(-1.0, grads), iterations)
        foretold = tree.dot(grads, step) + 0.5 * tree.dot(step, curvature(step))
        change = value_fn(tree.add(params, step)) - value
        lower = change < 0  # false for a value that is not finite
        # Near the minimum both changes drown in rounding; a step that is taken there is as good as it can be.
        good = lower & ((foretold >= 0) | (change <= 0.75 * foretold))
        poor = ~lower | ((foretold < 0) & (change > 0.25 * foretold))
        factor = jnp.where(good, 1 / 3, jnp.where(poor, 4.0, 1.0))
        damping = jnp.clip(state.damping * factor, _LEAST, _MOST).astype(state.damping.dtype)
        return jax.tree.map(lambda leaf: jnp.where(lower, leaf, 0), step), NewtonState(damping)

    return optax.GradientTransformationExtraArgs(init, update)


def conjugate_gradients(product: Callable[[Tree], Tree], right: Tree, iterations: int) -> Tree:
    """An approximate solution of `product(x) = right` that always goes uphill along `right`.

    It ends when the residual has fallen below `min(1/100, √|right|) |right|` (so that Newton's method converges faster
    than linearly), after so many iterations, or at a direction of negative curvature, which is not followed except in
    the very first iteration (Nocedal and Wright, *Numerical Optimization*, algorithm 7.1).

    >>> matrix = jnp.array([[4.0, 1.0], [1.0, 3.0]])
    >>> x = conjugate_gradients(lambda v: matrix @ v, 1e-6 * jnp.array([1.0, 2.0]), 10)
    >>> (1e9 * x).round().tolist()
    [91.0, 636.0]
    """
    size = tree.norm(right)
    enough = jnp.minimum(0.01, jnp.sqrt(size)) * size

    def unfinished(carry: tuple[Any, ...]) -> Any:
        _, residual, _, number, stopped = carry
        return (number < iterations) & ~stopped & (tree.norm(residual) > enough)

    def improve(carry: tuple[Any, ...]) -> tuple[Any, ...]:
        x, residual, direction, number, _ = carry
        image = product(direction)
        bend, square = tree.dot(direction, image), tree.dot(residual, residual)
        stopped = bend <= 0
        length = jnp.where(stopped, jnp.where(number == 0, 1.0, 0.0), square / jnp.where(stopped, 1, bend))
        x = jax.tree.map(lambda a, b: a + length * b, x, direction)
        residual = jax.tree.map(lambda a, b: a - length * b, residual, image)
        ratio = tree.dot(residual, residual) / square
        return x, residual, jax.tree.map(lambda a, b: a + ratio * b, residual, direction), number + 1, stopped

    zero = jax.tree.map(jnp.zeros_like, right)
    start = (zero, right, right, jnp.zeros((), jnp.int32), jnp.zeros((), bool))
    return jax.lax.while_loop(unfinished, improve, start)[0]


__all__ = ["conjugate_gradients", "lbfgs", "newton_cg"]
