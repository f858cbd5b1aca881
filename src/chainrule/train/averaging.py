"""Averages of the weights over training, by which a run may be judged."""

from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core import tree
from chainrule.core.types import Array, Scalar, Tree
from chainrule.train.config import TrainConfig
from chainrule.train.transformations import slow_weights


def averaged(
    config: TrainConfig, ema: Tree, arrays: Tree, optimizers: Mapping[str, Tree], step: Array, finite: Array
) -> Tree:
    """The averaged weights after a step; as they were if the step was not finite."""
    if config.optimizer.name == "schedule-free":
        (state,) = optimizers.values()
        return slow_weights(arrays, state, config.optimizer.betas[0])
    decay = jnp.minimum(config.ema, (1.0 + step) / (10.0 + step))

    def move(old: Array, new: Array) -> Array:
        if not eqx.is_inexact_array(new):
            return jnp.where(finite, new, old)
        # What stands still is its own average to the last bit, which the sum may miss by rounding.
        return jnp.where(finite & (new != old), decay * old + (1 - decay) * new, old)

    return jax.tree.map(move, ema, arrays)


def distance(arrays: Tree, ema: Tree) -> Scalar:
    """How far the weights are from their average."""
    pairs = [eqx.filter(one, eqx.is_inexact_array) for one in (arrays, ema)]
    return tree.norm(jax.tree.map(lambda a, b: a - b, *pairs))


__all__ = ["averaged", "distance"]
