"""Masked autoregressive flow: densities in one pass (Papamakarios, Pavlakou and Murray, 2017)."""

from typing import final

import jax
from pydantic import Field

from chainrule.core.types import Key
from chainrule.data.schema import Schema
from chainrule.models.flow.flow_model import FlowModel
from chainrule.models.flow.settings import base_distribution, condition_features, encoder
from chainrule.models.flow.stacks import AutoregressiveConfig, mixing, repeated
from chainrule.networks.flows.autoregressive import masked_autoregressive
from chainrule.networks.flows.base import Bijection
from chainrule.networks.flows.synthesisers import AffineSynthesiser, ReversedSynthesiser


@final
class MAFConfig(AutoregressiveConfig):
    """Settings of the masked autoregressive flow."""

    bound: float = Field(5.0, gt=0, le=50, description="largest |logarithm| of a scale")


def build(config: MAFConfig, schema: Schema, key: Key) -> FlowModel:
    """A fresh model."""
    for_layers, for_base, for_condition = jax.random.split(key, 3)
    size = schema.dimensions

    def layers(k: Key) -> list[Bijection]:
        for_network, for_mixing = jax.random.split(k)
        layer = masked_autoregressive(
            size,
            ReversedSynthesiser(AffineSynthesiser(config.bound)),
            width=config.width,
            blocks=config.blocks,
            condition=condition_features(config),
            key=for_network,
        )
        return [layer, mixing(config, size, for_mixing)]

    bijection = repeated(config, schema, config.layers, layers, for_layers)
    base = base_distribution(config, schema, for_base)
    return FlowModel(bijection, base, encoder(config, schema, for_condition), config, schema)


__all__ = ["MAFConfig", "build"]
