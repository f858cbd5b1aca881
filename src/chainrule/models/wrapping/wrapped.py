"""Any network as a model: a module with a loss and metrics, trained, scored and examined like those of the registry."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.types import Array, Float, Key, Scalar, Tree
from chainrule.data import kinds, targets
from chainrule.data.batches import Batch
from chainrule.data.schema import Schema
from chainrule.models.protocol import (
    Criterion,
    HasOutputs,
    Metrics,
    Model,
    NeedsSchema,
    as_prediction,
    output_count,
    weighted_mean,
)
from chainrule.models.protocol.criteria import links, names, usual
from chainrule.models.wrapping import metrics as watched
from chainrule.models.wrapping.metrics import MetricFunction
from chainrule.nn.sequential import StatefulNetwork, called, running_statistics, wants_key


def wrap(
    module: Any,
    loss: str | Criterion | None = None,
    metrics: Sequence[str | MetricFunction] | Mapping[str, MetricFunction] | None = None,
    *,
    predict: Callable[[Array], Array] | None = None,
    state: eqx.nn.State | None = None,
    batched: bool | None = None,
) -> "Wrapped":
    """A model that `cr.fit` trains, from a network of your own.

    `loss` is a name (cross-entropy, focal, squared-error, absolute-error, huber, quantile), a function of outputs and
    targets that gives a number for each example or one for the batch, or nothing: cross-entropy of classes and labels,
    squared error of values. Outputs are logits of classes and labels, and values in the units of training. Data without
    targets are their own targets, as for an autoencoder. `metrics` are names (accuracy, top_3_accuracy, exact_match, or
    those of the losses) or functions like a loss; unless given, how often classes or labels are right. `predict` makes
    predictions of outputs where they are something else.

    A module of Equinox is called on one example, as `jax.vmap` does it, and one that holds layers of `chainrule.nn` on
    a whole batch, channels last; `batched` says otherwise. If it takes a `key` it gets one. `state` is what
    `equinox.nn.make_with_state` gives beside a module with batch normalisation of Equinox, for an axis named "batch".

    >>> import equinox as eqx, chainrule as cr
    >>> net = eqx.nn.MLP(2, 2, width_size=8, depth=1, key=jax.random.key(0))
    >>> model = cr.models.wrap(net, loss="cross-entropy", metrics=["accuracy"])
    """
    if isinstance(module, Model):
        raise ArgumentError(
            f"wrap({type(module).__name__}): this is a model already",
            remedy="train it as it is: cr.fit(model, data)",
        )
    if not isinstance(module, eqx.Module) or not (callable(module) or isinstance(module, StatefulNetwork)):
        raise ArgumentError(
            f"wrap({type(module).__name__}): not a network",
            remedy="give an equinox.Module that can be called, such as chainrule.nn.Sequential([...])",
        )
    if isinstance(loss, str):
        links(loss)
    _check_state(module, state)
    seen = None if metrics is None else watched.named(metrics)
    return Wrapped(module, loss, seen, predict, state, _on_batches(module, batched), None)


@final
class Wrapped(HasOutputs, NeedsSchema):
    """A network with a loss and metrics; see `wrap`."""

    module: Any
    memory: eqx.nn.State | None
    """What layers of Equinox keep beside their module."""
    own_loss: str | Criterion | None = eqx.field(static=True)
    watched: tuple[tuple[str, Any], ...] | None = eqx.field(static=True)
    prediction: Callable[[Array], Array] | None = eqx.field(static=True)
    batched: bool = eqx.field(static=True)
    data: Schema | None = eqx.field(static=True)

    def __init__(
        self,
        module: Any,
        loss: str | Criterion | None,
        metrics: tuple[tuple[str, Any], ...] | None,
        prediction: Callable[[Array], Array] | None,
        memory: eqx.nn.State | None,
        batched: bool,
        data: Schema | None,
    ) -> None:
        self.module = module
        self.memory = memory
        self.own_loss = loss
        self.watched = metrics
        self.prediction = prediction
        self.batched = batched
        self.data = data

    @property  # type: ignore[misc]  # known once there are data
    def schema(self) -> Schema:  # type: ignore[override]  # nobody writes it
        """Shape and meaning of an example of the data it is trained on."""
        if self.data is None:
            raise CapabilityError(
                f"{type(self.module).__name__} has not seen data yet: what its outputs mean depends on them",
                remedy="train it with cr.fit, or use model.bound(data.schema)",
            )
        return self.data

    def bound(self, schema: Schema) -> Self:
        """The same model for data of this schema; raises where the two do not fit."""
        one = Wrapped(
            *(self.module, self.own_loss, self.watched, self.prediction, self.memory, self.batched, schema)
        )
        link = targets.of(schema).link
        if isinstance(self.own_loss, str) and link not in links(self.own_loss):
            raise ArgumentError(
                f'wrap(loss="{self.own_loss}"): this is no loss of a target that is a {schema.target}',
                remedy=f"use one of {', '.join(names(link))}, or a function of outputs and targets",
            )
        for _, metric in self.watched or ():
            watched.resolved(metric, schema)
        _check_outputs(one, schema)
        return one

    def outputs(self, x: Array, key: Key) -> tuple[Array, Self]:
        """What the network makes of a batch, and the model with its state moved on when training."""
        if isinstance(self.module, StatefulNetwork):
            out, moved = self.module.advance(x, key)
            return out, eqx.tree_at(lambda model: model.module, self, moved)
        if self.memory is not None:
            out, memory = self._with_memory(x, key)
            return out, eqx.tree_at(lambda model: model.memory, self, memory)
        return called(self.module, x, key, batched=self.batched), self

    def _with_memory(self, x: Array, key: Key) -> tuple[Array, eqx.nn.State]:
        keyed = wants_key(self.module)

        def one(x: Array, memory: eqx.nn.State, key: Key) -> tuple[Array, eqx.nn.State]:
            found: tuple[Array, eqx.nn.State] = (
                self.module(x, memory, key=key) if keyed else self.module(x, memory)
            )
            return found

        mapped = jax.vmap(one, in_axes=(0, None, 0), out_axes=(0, None), axis_name="batch")
        assert self.memory is not None, "ask first"
        return mapped(x, self.memory, jax.random.split(key, len(x)))

    def judge(self, out: Array, batch: Batch, criterion: Criterion | None = None) -> tuple[Scalar, Metrics]:
        """The mean of the loss, and that of every metric."""
        y = batch.x if batch.y is None else batch.y
        values = self._per_example(criterion or self._criterion(), out, y, batch.weights is not None)
        seen = {
            name: jnp.asarray(watched.resolved(metric, self.schema)(out, y), jnp.float32).mean()
            for name, metric in (watched.usual(self.schema) if self.watched is None else self.watched)
        }
        return weighted_mean(values, batch.weights), seen

    def _criterion(self) -> Criterion:
        if self.own_loss is None or isinstance(self.own_loss, str):
            return usual(targets.of(self.schema).link, self.own_loss)
        return self.own_loss

    def _per_example(self, loss: Criterion, out: Array, y: Array, weighted: bool) -> Array:
        values = jnp.asarray(loss(out, y))
        if values.ndim and values.shape[0] == out.shape[0]:
            return values.reshape(values.shape[0], -1).mean(axis=-1)
        if values.ndim or weighted:
            raise ArgumentError(
                f"the loss of {type(self.module).__name__} has shape {values.shape} for {out.shape[0]} examples",
                remedy="return a number for each example"
                + ("; weights of examples need them" if weighted else ", or one for all"),
            )
        return values[None]

    def loss_unit(self) -> str:
        """That of the usual loss of the target; none of another."""
        target = targets.of(self.schema)
        return target.loss_unit if self.own_loss in (None, "cross-entropy") else ""

    def state(self) -> Sequence[Tree]:
        """The running statistics of all normalisers, and what layers of Equinox keep."""
        return [*running_statistics(self.module), *jax.tree.leaves(self.memory)]

    def logits(self, x: Array) -> Float[Array, "batch outputs"]:
        """The outputs of the network in inference mode, one row for each example."""
        out = self._still(x)
        return out.reshape(out.shape[0], -1)

    def predict(self, x: Array) -> Array:
        """Class probabilities, the probability of each label, or values in model units."""
        if self.prediction is not None:
            return self.prediction(self._still(x))
        return as_prediction(self.schema, self.logits(x)) if targets.of(self.schema).given else self._still(x)

    def _still(self, x: Array) -> Array:
        return eqx.nn.inference_mode(self).outputs(x, jax.random.key(0))[
            0
        ]  # in inference mode no key is used


def _on_batches(module: Any, given: bool | None) -> bool:
    """Whether a module is called on whole batches: those with layers of this package are, unless told otherwise."""
    if given is not None:
        return given
    found: list[Any] = []

    def ours(node: Any) -> bool:
        if type(node).__module__.startswith("chainrule."):
            found.append(node)
        return bool(found)

    jax.tree.leaves(module, is_leaf=ours)
    return bool(found)


def _check_state(module: Any, state: eqx.nn.State | None) -> None:
    """Refuse statistics that nothing would move."""
    if not isinstance(module, StatefulNetwork) and running_statistics(module):
        name = type(module).__name__
        raise ArgumentError(
            f"wrap({name}): nothing moves the running statistics of its BatchNorm",
            remedy=f"derive {name} from chainrule.nn.StatefulNetwork, whose advance(x, key) gives back moved layers,\n"
            "or put the layers into chainrule.nn.Sequential([...])",
        )
    indices = jax.tree.leaves(module, is_leaf=lambda node: isinstance(node, eqx.nn.StateIndex))
    if state is None and any(isinstance(node, eqx.nn.StateIndex) for node in indices):
        raise ArgumentError(
            f"wrap({type(module).__name__}): its layers keep a state beside it",
            remedy="net, state = equinox.nn.make_with_state(Net)(...), then wrap(net, ..., state=state)",
        )


def _check_outputs(model: Wrapped, schema: Schema) -> None:
    """Call the network on shapes alone, and compare what it gives with what the target needs."""
    name = type(model.module).__name__
    kind = jnp.int32 if kinds.of(schema).has_tokens else jnp.float32
    x = jax.ShapeDtypeStruct((2, *schema.shape), kind)
    whole = model.batched or isinstance(model.module, StatefulNetwork)
    given = (
        f"a batch of shape (batch, {', '.join(map(str, schema.shape))})"
        if whole
        else f"an example of shape {schema.shape}"
    )
    try:
        out = eqx.filter_eval_shape(lambda m, x: m.outputs(x, jax.random.key(0))[0], model, x)
    except Exception as error:
        how = (
            ""
            if isinstance(model.module, StatefulNetwork)
            else (
                f"\nto call it on {'one example' if whole else 'a whole batch'}: wrap(..., batched={not whole})"
            )
        )
        raise ArgumentError(
            f"{name} fails on {given}: {type(error).__name__}: {str(error).splitlines()[0][:200]}",
            remedy=f"it is called with {given}, the shape of these data{how}",
        ) from error
    if not isinstance(out, jax.ShapeDtypeStruct) or out.shape[:1] != (2,):
        got = f"shape {out.shape}" if isinstance(out, jax.ShapeDtypeStruct) else type(out).__name__
        raise ArgumentError(
            f"{name} must give one array with a row for each example; for 2 examples it gave {got}",
            remedy=f"it was called with {given}; wrap(..., batched={not whole}) calls it the other way",
        )
    needed = output_count(schema) if targets.of(schema).given else None
    count = out.size // 2
    if model.prediction is None and needed is not None and count != needed:
        raise ArgumentError(
            f"{name} gives {count} numbers for an example; a target that is a {schema.target} needs {needed}",
            remedy=f"let its last layer have {needed} outputs, or say what they mean: wrap(..., predict=function)",
        )


__all__ = ["Wrapped", "wrap"]
