"""Inverse autoregressive flow: draws in one pass, with their densities (Kingma et al., 2016)."""

import warnings
from collections.abc import Mapping
from typing import Any, Literal, final

import jax
from pydantic import Field

from chainrule.core.errors import ChainruleWarning
from chainrule.core.types import Key
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.models.flow.flow_model import FlowModel
from chainrule.models.flow.settings import base_distribution, condition_features, encoder
from chainrule.models.flow.stacks import AutoregressiveConfig, mixing, repeated
from chainrule.networks.flows.autoregressive import Autoregressive
from chainrule.networks.flows.base import Bijection
from chainrule.networks.flows.synthesisers import AffineSynthesiser, GatedSynthesiser


@final
class IAFConfig(AutoregressiveConfig):
    """Settings of the inverse autoregressive flow."""

    form: Literal["affine", "gated"] = Field(
        "affine",
        description="how an entry is moved: by a scale and a shift, or by a gate between what it is and another value",
    )
    bound: float = Field(5.0, gt=0, le=50, description="form=affine: largest |logarithm| of a scale")


def build(config: IAFConfig, schema: Schema, key: Key) -> FlowModel:
    """A fresh model."""
    for_layers, for_base, for_condition = jax.random.split(key, 3)
    size = schema.dimensions

    def layers(k: Key) -> list[Bijection]:
        for_network, for_mixing = jax.random.split(k)
        layer = Autoregressive(
            size,
            GatedSynthesiser() if config.form == "gated" else AffineSynthesiser(config.bound),
            width=config.width,
            blocks=config.blocks,
            condition=condition_features(config),
            key=for_network,
        )
        return [layer, mixing(config, size, for_mixing)]

    bijection = repeated(config, schema, config.layers, layers, for_layers)
    base = base_distribution(config, schema, for_base)
    return FlowModel(bijection, base, encoder(config, schema, for_condition), config, schema)


def warned(config: IAFConfig, data: Data) -> Mapping[str, Any]:
    """No settings, and a warning of what densities of data cost."""
    size = data.schema.dimensions
    if size > 2:
        warnings.warn(
            f"iaf: the density of an example takes {size} passes through each of {config.layers} layers, one after "
            "another; maf takes one, and spline-flow fits more",
            ChainruleWarning,
            stacklevel=2,
        )
    return {}


__all__ = ["IAFConfig", "build", "warned"]
