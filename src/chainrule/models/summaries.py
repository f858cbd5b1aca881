"""Summaries of models: a registered one knows what goes into it, and what it does decides what is looked at."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Tree
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.models.protocol import HasLogits, Model
from chainrule.nn.summary import Summary, summarize


def summary(network: Tree, example: Any = None, *, name: str | None = None) -> Summary:
    """Layers, shapes, parameters, multiply-adds and receptive fields of a model, or of any Equinox module.

    A model that predicts needs no example; any other model is looked at while it computes its loss, and needs data
    (`cr.data.load(...)`). A module of your own needs the shape of what it is called with, or an array. `print` shows
    the table, a notebook draws it, `.to_json()` gives plain values.

    >>> from chainrule import data, models
    >>> found = summary(models.build("mlp", data.load("moons"), width=8, depth=2))
    >>> found.parameters, found.multiply_adds
    (42, 32)
    """
    if not isinstance(network, Model):
        if isinstance(example, Data):
            example = _first(example).x
        if example is None:
            raise ArgumentError(
                f"summary({type(network).__name__}): what goes into it is not known",
                remedy="give the shape of an input, for example cr.summary(network, (28, 28, 1))",
            )
        return summarize(network, example, name=name)
    still = eqx.nn.inference_mode(network)
    title = name or type(network).__name__
    if isinstance(still, HasLogits):
        x = _input(still) if example is None else _first(example).x if isinstance(example, Data) else example
        return summarize(still, x, call=lambda m, x: m.logits(x), name=title, examples=True)
    if not isinstance(example, Data):
        raise ArgumentError(
            f"summary({title}): the model does not predict, so its data have to be known",
            remedy="give them: cr.summary(model, data)",
        )
    key = jax.random.key(0)
    batch = _first(example)
    return summarize(still, batch, call=lambda m, b: m.loss(b, key)[0], name=f"{title}.loss", examples=True)


def _first(data: Data) -> Any:
    """The shapes of a batch of one."""
    return jax.tree.map(
        lambda a: jax.ShapeDtypeStruct(a.shape, jnp.asarray(a).dtype), data.train.batch(np.array([0]))
    )


def _input(model: Any) -> jax.ShapeDtypeStruct:
    schema, kind = model.schema, kinds.of(model.schema)
    dtype = jnp.int32 if kind.has_tokens or kind.has_events else jnp.float32
    return jax.ShapeDtypeStruct((1, *schema.shape), dtype)


__all__ = ["summary"]
