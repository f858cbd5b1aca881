"""Stacks of layers of vectors, as the settings of the family's models ask for them, and settings that they share."""

import abc
from collections.abc import Callable, Mapping
from typing import Any, Literal

import jax
from pydantic import Field

from chainrule.core.types import Key
from chainrule.data.schema import Schema
from chainrule.models.flow.flow_model import FlowModel
from chainrule.models.flow.settings import FlowConfig, base_distribution, condition_features, encoder
from chainrule.networks.flows.base import Bijection
from chainrule.networks.flows.chain import BijectionChain, Frozen, Reshaped
from chainrule.networks.flows.conditioners import scaled_weights
from chainrule.networks.flows.linear import LULinear, Permutation, ReversedEntries, Triangular
from chainrule.networks.flows.normalization import ActNorm, FlowBatchNorm
from chainrule.networks.flows.stacked import StackedLayers
from chainrule.networks.flows.synthesisers import Synthesiser

FEW = 100_000
"""With fewer numbers to learn from than this, narrower networks do as well and learn faster."""
FEW_EXAMPLES = 100
"""With fewer than this for each entry, networks that begin flat do better."""
TRAINING: dict[str, Any] = {
    "batch": 256,
    "steps": 4000,
    "optimizer": {"name": "adamw", "lr": 1e-3, "decay": 0.01, "clip": 1.0},
    "schedule": {"name": "cosine"},
    "eval_every": 50,
    "eval_examples": 4000,
    "stopping": {"patience": 30},
}
"""Training settings that suit flows of vectors: on few rows the best is over soon, and looking often finds it."""


class StackConfig(FlowConfig, abc.ABC):
    """Settings of flows that repeat one layer."""

    norm: Literal["actnorm", "batch", "none"] = Field(
        "actnorm",
        description="between layers: a scale and shift that training examples start, batch normalisation, or nothing",
    )
    whiten: bool = Field(
        False,
        description="begin with the Gaussian that fits the training examples, a fixed layer nearest to the data, so "
        "that the others learn what it lacks; if not given: true for realnvp where there are fewer than 20 training "
        "examples for each entry",
    )


class NetworkStackConfig(StackConfig, abc.ABC):
    """Settings of flows whose layers have networks."""

    gain: float = Field(
        1.0,
        gt=0,
        le=10,
        description="factor on the initial weights of networks of vectors; 0.25 where there are fewer than 100 "
        "training examples for each entry: networks that begin flat learn less that is not there",
    )


class AutoregressiveConfig(NetworkStackConfig, abc.ABC):
    """Settings of flows of autoregressive layers."""

    layers: int = Field(5, ge=1, le=100, description="autoregressive layers")
    width: int = Field(
        256,
        ge=0,
        description="units of each masked layer; 64 where training examples have fewer than 100,000 numbers. 0: no "
        "hidden units, so that parameters are linear in the entries before",
    )
    blocks: int = Field(2, ge=0, le=100, description="residual blocks of two masked layers in each network")
    mixing: Literal["reverse", "random", "lu"] = Field(
        "reverse",
        description="between layers: entries in reverse order, in a random one, or mixed by a learned matrix",
    )


def narrow(config: Any, schema: Schema, count: int | None) -> Mapping[str, Any]:
    """Settings that suit few examples.

    >>> narrow(None, Schema("table", (5,)), 400)
    {'width': 64, 'gain': 0.25}
    """
    width = {"width": 64} if count is not None and count * schema.dimensions < FEW else {}
    return {**width, **flat(config, schema, count)}


def flat(config: Any, schema: Schema, count: int | None) -> Mapping[str, Any]:
    """How large initial weights suit so many examples."""
    del config
    return {"gain": 0.25} if count is not None and count < FEW_EXAMPLES * schema.dimensions else {}


def stacked_flow(
    config: StackConfig, schema: Schema, depth: int, make: Callable[[Key], list[Bijection]], key: Key
) -> FlowModel:
    """A flow of so many times the layers that `make` gives, with the base and the conditions of the settings."""
    for_layers, for_base, for_condition = jax.random.split(key, 3)
    return FlowModel(
        shaped(whitened(config, repeated(config, schema.dimensions, depth, make, for_layers)), schema),
        base_distribution(config, schema, for_base),
        encoder(config, schema, for_condition),
        config,
        schema,
    )


def autoregressive_flow(
    config: AutoregressiveConfig,
    schema: Schema,
    layer: Callable[..., Bijection],
    synthesiser: Synthesiser,
    key: Key,
) -> FlowModel:
    """A flow of `layer`s of one kind, `Autoregressive` or `masked_autoregressive`, in which entries are mixed."""
    size = schema.dimensions

    def layers(k: Key) -> list[Bijection]:
        for_network, for_mixing = jax.random.split(k)
        made = layer(
            size,
            synthesiser,
            width=config.width,
            blocks=config.blocks,
            condition=condition_features(config),
            key=for_network,
        )
        return [scaled_weights(made, config.gain), mixing(config, size, for_mixing)]

    return stacked_flow(config, schema, config.layers, layers, key)


def repeated(
    config: StackConfig, size: int, depth: int, make: Callable[[Key], list[Bijection]], key: Key
) -> Bijection:
    """The layers, each time with the norm of the settings towards the data.

    The last norm is the one that data meet first: it standardises them, and its scales count in the density.
    """
    return StackedLayers(lambda k: BijectionChain([*make(k), *norms(config, size)]), depth, key=key)


def norms(config: StackConfig, size: int) -> list[Bijection]:
    """What stands after a layer, if anything."""
    if config.norm == "none":
        return []
    return [ActNorm((size,)) if config.norm == "actnorm" else FlowBatchNorm((size,))]


def whitened(config: StackConfig, layers: Bijection) -> Bijection:
    """The layers behind a Gaussian of the data, where the settings ask for one."""
    return BijectionChain([layers, Frozen(Triangular(layers.shape[0]))]) if config.whiten else layers


def shaped(layer: Bijection, schema: Schema) -> Bijection:
    """A bijection of vectors as one of the examples of some data."""
    return layer if layer.shape == schema.shape else Reshaped(layer, schema.shape)


def mixing(config: AutoregressiveConfig, size: int, key: Key) -> Bijection:
    """What stands between two layers, so that each begins with other entries.

    >>> import jax
    >>> type(mixing(AutoregressiveConfig(mixing="lu"), 3, jax.random.key(0))).__name__
    'LULinear'
    """
    if config.mixing == "lu":
        return LULinear.rotation(size, key)
    return Permutation.random(size, key) if config.mixing == "random" else ReversedEntries(size)


__all__ = [
    "FEW",
    "TRAINING",
    "AutoregressiveConfig",
    "NetworkStackConfig",
    "StackConfig",
    "autoregressive_flow",
    "flat",
    "mixing",
    "narrow",
    "norms",
    "repeated",
    "shaped",
    "stacked_flow",
    "whitened",
]
