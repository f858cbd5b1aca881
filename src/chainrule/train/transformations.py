"""Gradient transformations that Optax does not have, or has otherwise than the papers: AdaGrad in both forms, cyclical
momentum, adaptive gradient clipping, schedule-free averaging.

Like everything in `optimizers`, they describe a step at learning rate one. What a step needs to know beyond gradients
and parameters (`rate`, `momentum`) comes with every update as an extra argument.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree

from chainrule.core import tree
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Scalar, Tree

MOST_FOR_FULL = 500
"""Parameters up to which AdaGrad may keep a whole matrix."""


class AdaGradState(NamedTuple):
    """Sum of all squared gradients so far."""

    sum_of_squares: Tree


def scale_by_adagrad(eps: float) -> optax.GradientTransformation:
    """`g / (sqrt(sum of g²) + eps)` (Duchi, Hazan and Singer, 2011).

    Written here because Optax starts the sum at 0.1 and puts `eps` under the root, which is a different method for
    small gradients.
    """

    def init(params: Tree) -> AdaGradState:
        return AdaGradState(jax.tree.map(jnp.zeros_like, params))

    def update(grads: Tree, state: AdaGradState, params: Tree | None = None) -> tuple[Tree, AdaGradState]:
        del params
        sums = jax.tree.map(lambda g, s: s + jnp.square(g), grads, state.sum_of_squares)
        return jax.tree.map(lambda g, s: g / (jnp.sqrt(s) + eps), grads, sums), AdaGradState(sums)

    return optax.GradientTransformation(init, update)


class FullAdaGradState(NamedTuple):
    """Sum of the outer products of all gradients so far."""

    outer: Float[Array, "d d"]


def scale_by_full_adagrad(eps: float) -> optax.GradientTransformation:
    """`(G + eps)⁻¹ g` with `G = (sum of g gᵀ)^(1/2)`, all parameters as one vector (Duchi, Hazan and Singer, 2011).

    It sees how parameters vary together, at the price of a matrix with as many rows as there are parameters: refused
    beyond five hundred.
    """

    def init(params: Tree) -> FullAdaGradState:
        count = tree.size(params)
        if count > MOST_FOR_FULL:
            raise ArgumentError(
                f"optimizer.name=adagrad-full: {count:,} parameters would need a matrix of as many rows; at most "
                f"{MOST_FOR_FULL} are taken",
                remedy="use optimizer.name=adagrad, which keeps its diagonal",
            )
        flat, _ = ravel_pytree(params)
        return FullAdaGradState(jnp.zeros((count, count), flat.dtype))

    def update(
        grads: Tree, state: FullAdaGradState, params: Tree | None = None
    ) -> tuple[Tree, FullAdaGradState]:
        del params
        flat, back = ravel_pytree(grads)
        outer = state.outer + jnp.outer(flat, flat)
        return back(divide_by_root(outer, flat, eps)), FullAdaGradState(outer)

    return optax.GradientTransformation(init, update)


def divide_by_root(outer: Float[Array, "d d"], g: Float[Array, " d"], eps: float) -> Float[Array, " d"]:
    """`(outer^(1/2) + eps)⁻¹ g` for a sum of outer products, most of which may be zero.

    Directions without any gradient have eigenvalues of rounding noise, and rounding noise divided by its own root is a
    step of full length. No eigenvalue therefore counts as less than what rounding makes of the largest one: noise stays
    noise, and a direction with a small gradient still moves.

    >>> divide_by_root(jnp.array([[4.0, 0.0], [0.0, 0.0]]), jnp.array([2.0, 0.0]), 0.0)
    Array([1., 0.], dtype=float32)
    """
    values, vectors = jnp.linalg.eigh(outer)
    least = len(values) * jnp.finfo(outer.dtype).eps * values[-1]
    roots = jnp.sqrt(jnp.maximum(values, least)) + eps
    return vectors @ ((vectors.T @ g) / jnp.where(roots > 0, roots, 1))


def with_momentum(
    build: Callable[[Any], optax.GradientTransformation], fixed: float
) -> optax.GradientTransformationExtraArgs:
    """A method with the momentum that comes with an update, and a fixed one where none does."""

    def update(
        grads: Tree, state: Tree, params: Tree | None = None, *, momentum: Scalar | None = None, **_: Any
    ) -> tuple[Tree, Tree]:
        return build(fixed if momentum is None else momentum).update(grads, state, params)

    return optax.GradientTransformationExtraArgs(build(fixed).init, update)


def clip_adaptive(ratio: float, floor: float = 1e-3) -> optax.GradientTransformation:
    """Gradients no longer than `ratio` times the weights they move, unit by unit (Brock et al., arXiv:2102.06171).

    A unit is what makes one output: a column of a matrix, a filter of a convolution; a vector is one unit. Weights
    count as at least `floor` long, or those that start at zero could never move. Written here because Optax takes the
    whole kernel of a one-dimensional convolution for one unit.
    """

    def norm(x: Array) -> Array:
        axes = tuple(range(max(x.ndim - 1, 1))) if x.ndim else ()
        return jnp.sqrt(jnp.square(x).sum(axis=axes, keepdims=True))

    def clip(grad: Array, param: Array) -> Array:
        most, size = ratio * jnp.maximum(norm(param), floor), norm(grad)
        return grad * jnp.where(size > most, most / jnp.where(size > 0, size, 1), 1)

    return optax.stateless(lambda grads, params: jax.tree.map(clip, grads, params))


class ScheduleFreeState(NamedTuple):
    """The fast weights, the sum of squared learning rates, and the state of the method underneath."""

    fast: Tree
    weight: Scalar
    inner: Tree


def schedule_free(inner: optax.GradientTransformation, beta: float) -> optax.GradientTransformationExtraArgs:
    """A method without momentum whose weights are averaged as it goes (Defazio et al., 2024, arXiv:2405.15682).

    Gradients are taken at `y = (1 - beta) z + beta x`, the method moves the fast weights `z`, and `x` is the mean of
    all `z`, each with the square of its learning rate as weight. Training moves `y`; `slow_weights` gives `x`, which is
    what a model is judged by.
    """

    def init(params: Tree) -> ScheduleFreeState:
        return ScheduleFreeState(jax.tree.map(jnp.array, params), jnp.zeros(()), inner.init(params))

    def update(
        grads: Tree, state: ScheduleFreeState, params: Tree | None = None, *, rate: Scalar, **_: Any
    ) -> tuple[Tree, ScheduleFreeState]:
        step, inner_state = inner.update(grads, state.inner, params)
        weight = state.weight + rate**2
        share = jnp.where(weight > 0, rate**2 / jnp.where(weight > 0, weight, 1), 0)
        fast = jax.tree.map(lambda z, u: (z + rate * u).astype(z.dtype), state.fast, step)

        def move(y: Array, z: Array, new: Array) -> Array:
            x = (y - (1 - beta) * z) / beta
            ahead = (1 - beta) * new + beta * ((1 - share) * x + share * new)
            # The loop multiplies by the rate; at rate zero nothing moves.
            return jnp.where(rate > 0, (ahead - y) / jnp.where(rate > 0, rate, 1), 0).astype(y.dtype)

        moves = jax.tree.map(move, params, state.fast, fast)
        return moves, ScheduleFreeState(fast, weight, inner_state)

    return optax.GradientTransformationExtraArgs(init, update)


def slow_weights(params: Tree, optimizer_state: Tree, beta: float) -> Tree:
    """The averaged weights `x` of `schedule_free`; arrays that no gradient moves as they are."""
    states = jax.tree.leaves(optimizer_state, is_leaf=lambda node: isinstance(node, ScheduleFreeState))
    (found,) = (state for state in states if isinstance(state, ScheduleFreeState))
    return jax.tree.map(
        lambda y, z: y if z is None else ((y - (1 - beta) * z) / beta).astype(y.dtype),
        params,
        found.fast,
        is_leaf=lambda node: node is None,
    )


__all__ = [
    "MOST_FOR_FULL",
    "clip_adaptive",
    "divide_by_root",
    "scale_by_adagrad",
    "scale_by_full_adagrad",
    "schedule_free",
    "slow_weights",
    "with_momentum",
]
