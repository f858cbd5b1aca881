"""Neural spline flow: rational-quadratic splines between knots that a network sets (Durkan et al., 2019)."""

from typing import Literal, final

import jax
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Key
from chainrule.data.schema import Schema
from chainrule.models.flow.flow_model import FlowModel
from chainrule.models.flow.settings import condition_features
from chainrule.models.flow.stacks import AutoregressiveConfig, autoregressive_flow, mixing, stacked_flow
from chainrule.networks.flows.autoregressive import masked_autoregressive
from chainrule.networks.flows.base import Bijection
from chainrule.networks.flows.chain import InvertedBijection
from chainrule.networks.flows.conditioners import scaled_weights
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
    spline = SplineSynthesiser(config.bins, config.bound)
    if config.layout == "autoregressive":
        return autoregressive_flow(config, schema, masked_autoregressive, spline, key)
    size, features = schema.dimensions, condition_features(config)
    depth = 2 * config.blocks if config.width else 0
    if size < 2:
        raise ArgumentError(
            "layout=coupling: one entry has no others that could say how it is moved",
            remedy="use layout=autoregressive",
        )

    def coupling(number: int, k: Key) -> Bijection:
        moved = roles("halves", size, number + 1, k)[number]
        made = Coupling(moved, spline, width=config.width, depth=depth, condition=features, key=k)
        return InvertedBijection(scaled_weights(made, config.gain))

    def layers(k: Key) -> list[Bijection]:
        for_network, for_other, for_mixing = jax.random.split(k, 3)
        return [coupling(0, for_network), coupling(1, for_other), mixing(config, size, for_mixing)]

    return stacked_flow(config, schema, config.layers, layers, key)


__all__ = ["SplineFlowConfig", "build"]
