"""Heads on features that stay as they are: training the last layer alone, with the features computed once.

A backbone in inference mode gives an example the same features in every epoch. They are computed once, in batches as
training takes them, and the last layer learns from them by the same batches, the same optimiser and the same random
numbers: the result is that of training the whole network with everything but the head frozen, in the time of a linear
model.
"""

import functools
from typing import Any, TypeVar, cast, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule import models
from chainrule.core import random, tree
from chainrule.core.errors import ArgumentError, CapabilityError, DivergedError
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

M = TypeVar("M")


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
    name, head = last_layer(model)
    config = TrainConfig.parse(steps=steps, seed=seed, **settings)
    still = eqx.nn.inference_mode(model)
    if cached:
        features = _features(still, name, data.train, config.batch)
        rows = Rows({**data.train.arrays, "x": features}, target_scaling=_scaling(data))
        learned = _at(_trained(HeadAlone(head, data.schema), config, rows), "head")
    else:
        names = tree.names(eqx.filter(model, eqx.is_inexact_array))
        frozen = tuple(one for one in names if not tree.matches(one, name))
        learned = _at(_trained(still, config.model_copy(update={"freeze": frozen}), data.train), name)
    found: Model = eqx.tree_at(lambda model: _at(model, name), model, learned)
    return found


def replace_head(model: M, to: Data | Schema | int, *, seed: int = 0) -> M:
    """The model with a fresh last layer, whose bias is 0, and everything else as it was learnt.

    A model of Chainrule is given other data, or their schema, and gets the outputs that their targets need. In a
    network of your own, any PyTree of Equinox, the last dense layer is found and gets `to` outputs.

    >>> import equinox as eqx, jax
    >>> network = eqx.nn.MLP(2, 3, 8, 1, key=jax.random.key(0))
    >>> replace_head(network, 10).layers[-1].weight.shape
    (10, 8)
    """
    if isinstance(model, Model) and (found := models.entry_of(model)) is not None:
        if isinstance(to, int):
            raise ArgumentError(
                f"replace_head(to={to}): outputs of {found.name} follow from the classes of data",
                remedy="give the other data, or their schema",
            )
        return cast("M", models.begin(found.name, model, to, seed=seed, fresh=[found.head]))
    if not isinstance(to, int) or to < 1:
        raise ArgumentError(
            f"replace_head(to={to!r}): a network of your own gets a number of outputs", remedy="use 1 or more"
        )
    layers = jax.tree.leaves(model, is_leaf=_is_dense)
    last = max((i for i, layer in enumerate(layers) if _is_dense(layer)), default=None)
    if last is None:
        raise CapabilityError(
            f"replace_head: {type(model).__name__} has no dense layer",
            remedy="use Linear of nn or of Equinox",
        )
    fresh = _fresh(layers[last], to, random.key(seed, "head"))
    return eqx.tree_at(lambda tree: jax.tree.leaves(tree, is_leaf=_is_dense)[last], model, fresh)


def _is_dense(node: Any) -> bool:
    return isinstance(node, Linear | eqx.nn.Linear)


def _fresh(layer: Any, outputs: int, key: Key) -> Any:
    """A layer of the same kind that reads the same, with other outputs and a bias of 0."""
    own = isinstance(layer, Linear)
    width = layer.weight.shape[0] if own else layer.weight.shape[1]
    biased = layer.bias is not None
    made: Any = (
        Linear(width, outputs, bias=biased, key=key)
        if own
        else eqx.nn.Linear(width, outputs, use_bias=biased, key=key)
    )
    return eqx.tree_at(lambda one: one.bias, made, jnp.zeros(outputs)) if biased else made


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


def last_layer(model: Model) -> tuple[str, Linear]:
    """The name of the last layer, and the layer; an error where it is no dense layer on top of features."""
    if not has_last_layer(model):
        raise CapabilityError(
            f"{models.title(model)} does not end in one dense layer on top of features",
            remedy="train it as a whole, with freeze=LAYER,...",
        )
    name = _head_name(model)
    return name, _at(model, name)


def has_last_layer(model: Model) -> bool:
    """Whether a model ends in one dense layer on top of features, which can learn alone."""
    name, names = _head_name(model), tree.names(model)
    there = any(tree.matches(one, name) for one in names)
    return isinstance(model, HasOutputs) and there and isinstance(_at(model, name), Linear)


def _head_name(model: Model) -> str:
    found = models.entry_of(model)
    return "head" if found is None else found.head


def _at(layers: Any, name: str) -> Any:
    """What stands at a dotted name, in which numbers are positions of a list."""
    return functools.reduce(
        lambda node, part: node[int(part)] if part.isdigit() else getattr(node, part), name.split("."), layers
    )


def _features(model: Model, name: str, split: Split, batch: int) -> Float[np.ndarray, "rows width"]:
    """What the last layer reads, in batches as training takes them."""
    found = layer_activations.layer_inputs(model, _logits, _Examples(split), batch, only=(name,))
    if name not in found:
        raise CapabilityError(
            f"{models.title(model)} does not give its last layer one row of features for each example",
            remedy="train it as a whole, with freeze=LAYER,...",
        )
    return found[name]


def _logits(model: Any, x: Any) -> Any:
    return model.logits(x)


@final
class _Examples:
    """Examples of a split, scaled when they are asked for."""

    def __init__(self, split: Split) -> None:
        self.split = split

    def __len__(self) -> int:
        return len(self.split)

    def __getitem__(self, rows: np.ndarray) -> Any:
        return self.split.batch(rows).x


__all__ = ["HeadAlone", "has_last_layer", "last_layer", "replace_head", "train_head"]
