"""Neural spline flow: rational-quadratic splines between knots that a network sets (Durkan et al., 2019)."""

from typing import Literal, final

import jax
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Key
from chainrule.data.schema import Schema
from chainrule.models.flow.flow_model import FlowModel
from chainrule.models.flow.settings import base_distribution, condition_features, encoder
from chainrule.models.flow.stacks import AutoregressiveConfig, mixing, repeated
from chainrule.networks.flows.autoregressive import masked_autoregressive
from chainrule.networks.flows.base import Bijection
from chainrule.networks.flows.chain import InvertedBijection
from chainrule.networks.flows.couplings import Coupling, roles
from chainrule.networks.flows.synthesisers import SplineSynthesiser


@final
class SplineFlowConfig(AutoregressiveConfig):
    """Settings of the neural spline flow."""

    layout: Literal["autoregressive", "coupling"] = Field(
        "autoregressive",
        description="what the spline of an entry depends on: all entries before it, or half of the entries, which "
        "makes draws as cheap as densities",
    )
    bins: int = Field(8, ge=2, le=200, description="pieces of a spline")
    bound: float = Field(
        3.0,
        gt=0,
        le=100,
        description="splines reach this far from zero, in deviations; beyond, nothing is bent",
    )


def build(config: SplineFlowConfig, schema: Schema, key: Key) -> FlowModel:
    """A fresh model."""
    for_layers, for_base, for_condition = jax.random.split(key, 3)
    size = schema.dimensions
    if config.layout == "coupling" and size < 2:
        raise ArgumentError(
            "layout=coupling: one entry has no others that could say how it is moved",
            remedy="use layout=autoregressive",
        )
    spline, features = SplineSynthesiser(config.bins, config.bound), condition_features(config)

    def coupling(number: int, k: Key) -> Bijection:
        moved = roles("halves", size, number + 1, k)[number]
        return InvertedBijection(
            Coupling(moved, spline, width=config.width, depth=2 * config.blocks, condition=features, key=k)
        )

    def layers(k: Key) -> list[Bijection]:
        for_network, for_other, for_mixing = jax.random.split(k, 3)
        mixed = mixing(config, size, for_mixing)
        if config.layout == "coupling":
            return [coupling(0, for_network), coupling(1, for_other), mixed]
        layer = masked_autoregressive(
            size, spline, width=config.width, blocks=config.blocks, condition=features, key=for_network
        )
        return [layer, mixed]

    bijection = repeated(config, schema, config.layers, layers, for_layers)
    base = base_distribution(config, schema, for_base)
    return FlowModel(bijection, base, encoder(config, schema, for_condition), config, schema)


__all__ = ["SplineFlowConfig", "build"]
