"""The state of a training run: everything that a step changes."""

from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Int, Tree
from chainrule.models.protocol import HasOwnTraining, Model, Part, parts_of
from chainrule.train import freezing
from chainrule.train.adapters import attached
from chainrule.train.config import TrainConfig
from chainrule.train.loss_scaling import LossScaling
from chainrule.train.optimizers import for_groups, for_part, optimizer


@final
class State(eqx.Module):
    """Everything that training changes, and all that a checkpoint has to hold."""

    step: Int[Array, ""]
    model: Tree
    """The arrays of the model."""
    optimizers: dict[str, Tree]
    """The optimiser state of each part."""
    ema: Tree
    """Averaged arrays, or `None`."""
    factor: Array
    """What divergence, a plateau or a callback has multiplied the learning rate by."""
    scaling: LossScaling | None = None
    """How the loss is scaled in float16."""


def initial_state(model: Model, config: TrainConfig) -> State:
    """The state before the first step."""
    model = attached(model, config)
    # Copies, because the state's buffers are given away to each compiled call; made without a program for each shape.
    arrays = jax.device_put(eqx.filter(model, eqx.is_array), may_alias=False)
    model = eqx.combine(arrays, eqx.filter(model, eqx.is_array, inverse=True))
    parts = parts_of(model)
    moving = trainable(model, parts, config)
    optimizers = {}
    for part in () if isinstance(model, HasOwnTraining) else parts:
        own = for_part(config.optimizer, config.parts, part.name)
        owned = eqx.filter(part.where(model), part.where(moving))
        state = optimizer(own, for_groups(own, config.groups)).init(owned)
        optimizers[part.name] = jax.device_put(state, may_alias=False)  # some keep one buffer in two places
    ema = jax.device_put(arrays, may_alias=False) if config.averages else None
    scaling = LossScaling.initial() if config.precision == "float16" else None
    return State(jnp.zeros((), jnp.int32), arrays, optimizers, ema, jnp.ones(()), scaling)


def trainable(model: Model, parts: Sequence[Part], config: TrainConfig | None = None) -> Tree:
    """A tree of booleans: true for the arrays that gradients move, floating ones neither frozen nor moved by rule."""
    held = [part.moved_by_rule(model) for part in parts]
    if config is not None:
        held.append(freezing.frozen(model, config))
    return jax.tree.map(lambda leaf, *held: bool(eqx.is_inexact_array(leaf)) and not any(held), model, *held)


__all__ = ["State", "initial_state", "trainable"]
