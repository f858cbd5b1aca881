"""Training of critics: raise a value, look at points kept apart every few steps, keep the best weights, and stop.

One compiled program does all of it: Adam with a cosine schedule and clipped gradients, until looks in a row are no
better than the best one.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import optax

from chainrule.core.types import Array, Float, Key, Scalar, Tree

Raised: TypeAlias = Callable[[Tree, Key, Tree], tuple[Scalar, Tree]]
"""From weights, a key for the batch of a step and what steps hand on, to the value to raise and what is handed on."""


class BestWeights(NamedTuple):
    """Weights as they were best, and the way there."""

    weights: Tree
    value: Scalar
    """On what was kept apart."""
    step: Array
    """At which they were best."""
    steps: Array
    """That were made."""
    curve: Float[Array, "looks 2"]
    """The value on training batches (the mean since the last look) and on what is kept apart; not a number: no look."""


class _Progress(NamedTuple):
    looks: Array
    weights: Tree
    state: Tree
    carried: Tree
    best: Tree
    value: Scalar
    best_look: Array
    curve: Array


def best_weights(
    weights: Tree,
    raised: Raised,
    judged: Callable[[Tree], Scalar],
    key: Key,
    *,
    carried: Tree = (),
    steps: int,
    every: int,
    patience: int,
    lr: float,
) -> BestWeights:
    """Train for at most `steps`, until `patience` looks in a row, one `every` few steps, are no better than the best.

    `carried` is what the first step is handed.
    """
    looks = -(-steps // every)
    rate = optax.cosine_decay_schedule(lr, looks * every, alpha=0.05)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(rate))

    def update(number: Array, carry: tuple[Tree, Tree, Tree, Scalar]) -> tuple[Tree, Tree, Tree, Scalar]:
        weights, state, carried, total = carry

        def lost(weights: Tree) -> tuple[Scalar, Tree]:
            value, moved = raised(weights, jax.random.fold_in(key, number), carried)
            return -value, moved

        (value, carried), slope = jax.value_and_grad(lost, has_aux=True)(weights)
        changes, state = optimizer.update(slope, state, weights)
        return optax.apply_updates(weights, changes), state, carried, total - value / every

    def look(now: _Progress) -> _Progress:
        first = now.looks * every
        begin = (now.weights, now.state, now.carried, jnp.zeros(()))
        weights, state, carried, trained = jax.lax.fori_loop(first, first + every, update, begin)
        found = judged(weights)
        better = found > now.value
        best = jax.tree.map(lambda new, old: jnp.where(better, new, old), weights, now.best)
        curve = now.curve.at[now.looks].set(jnp.stack([trained, found]))
        count = now.looks + 1
        value, at = jnp.where(better, found, now.value), jnp.where(better, count, now.best_look)
        return _Progress(count, weights, state, carried, best, value, at, curve)

    none, curve = jnp.zeros((), int), jnp.full((looks, 2), jnp.nan)
    start = _Progress(none, weights, optimizer.init(weights), carried, weights, judged(weights), none, curve)
    end = jax.lax.while_loop(
        lambda now: (now.looks < looks) & (now.looks - now.best_look < patience), look, start
    )
    return BestWeights(end.best, end.value, end.best_look * every, end.looks * every, end.curve)


__all__ = ["BestWeights", "best_weights"]
