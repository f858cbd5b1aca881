"""Heads on features that stay as they are: training the last layer alone, with the features computed once.

A backbone in inference mode gives an example the same features in every epoch. They are computed once, in batches as
training takes them, and the last layer learns from them by the same batches, the same optimiser and the same random
numbers: the result is that of training the whole network with everything but the head frozen, in the time of a linear
model.
"""

import operator
from typing import Any, final

import equinox as eqx
import numpy as np

from chainrule import models
from chainrule.core import tree
from chainrule.core.errors import CapabilityError, DivergedError
from chainrule.core.types import Float, Key, Scalar
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.scaling import Scaling
from chainrule.data.schema import Schema
from chainrule.data.splits import Rows, Split
from chainrule.models import layer_activations
from chainrule.models.protocol import HasOutputs, Metrics, Model, supervised_loss
from chainrule.nn import Linear
from chainrule.train.config import TrainConfig
from chainrule.train.schedules import momentum_cycle, schedule
from chainrule.train.state import initial_state
from chainrule.train.step import Stepper


@final
class HeadAlone(Model):
    """The last layer of a network, whose examples are its features."""

    head: Linear
    schema: Schema = eqx.field(static=True)

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """That of the network."""
        del key
        return supervised_loss(self.schema, self.head(batch.x), batch.y, weights=batch.weights)


def train_head(
    model: Model, data: Data, *, steps: int, cached: bool = True, seed: int = 0, **settings: Any
) -> Model:
    """The model with its head trained and everything else as it is.

    `settings` are those of `TrainConfig`. With `cached` features are computed once, else in every step. Both give the
    same head: bit for bit where the compiler sums alike in both programs, otherwise to rounding.
    """
    name, head = _head(model)
    config = TrainConfig.parse(steps=steps, seed=seed, **settings)
    still = eqx.nn.inference_mode(model)
    if cached:
        features = _features(still, name, np.asarray(data.train.x), config.batch)
        rows = Rows({**data.train.arrays, "x": features}, target_scaling=_scaling(data))
        learned = _at(_trained(HeadAlone(head, data.schema), config, rows), "head")
    else:
        names = tree.names(eqx.filter(model, eqx.is_inexact_array))
        frozen = tuple(one for one in names if not tree.matches(one, name))
        learned = _at(_trained(still, config.model_copy(update={"freeze": frozen}), data.train), name)
    found: Model = eqx.tree_at(lambda model: _at(model, name), model, learned)
    return found


def _trained(model: Model, config: TrainConfig, split: Split) -> Model:
    steps = config.steps or 1
    rate, momentum = schedule(config.schedule, steps), momentum_cycle(config.schedule, steps)
    stepper = Stepper(model, config, split, rate, resident=True, most=steps, momentum=momentum, total=steps)
    state = initial_state(model, config)
    stepper.compile(state)
    state, _, done = stepper.run(state, 0, steps)
    if done < steps:
        raise DivergedError(f"the loss was not finite after {done} steps", remedy="try a lower optimizer.lr")
    return stepper.model(state)


def _scaling(data: Data) -> Scaling | None:
    return data.train.target_scaling if isinstance(data.train, Rows) else None


def _head(model: Model) -> tuple[str, Linear]:
    """The name of the last layer, and the layer."""
    found = models.entry_of(model)
    name = "head" if found is None else found.head
    names = tree.names(model)
    head = _at(model, name) if any(tree.matches(one, name) for one in names) else None
    if not isinstance(model, HasOutputs) or not isinstance(head, Linear):
        raise CapabilityError(
            f"{models.title(model)} does not end in one dense layer on top of features",
            remedy="train it as a whole, with freeze=LAYER,...",
        )
    return name, head


def _at(tree_of_layers: Any, name: str) -> Any:
    return operator.attrgetter(name)(tree_of_layers)


def _features(model: Model, name: str, x: np.ndarray, batch: int) -> Float[np.ndarray, "rows width"]:
    """What the last layer reads, in batches as training takes them."""
    return layer_activations.layer_inputs(model, lambda model, x: model.logits(x), x, batch)[name]


__all__ = ["HeadAlone", "train_head"]
