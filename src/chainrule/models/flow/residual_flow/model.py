"""Residual flows: settings, and the blocks they describe."""

from typing import final

import jax
from pydantic import Field

from chainrule.core.types import Key
from chainrule.data.schema import Schema
from chainrule.models.flow.flow_model import FlowModel
from chainrule.models.flow.settings import FlowConfig, base_distribution, condition_features, encoder
from chainrule.networks.flows.base import Bijection
from chainrule.networks.flows.chain import BijectionChain
from chainrule.networks.flows.contraction import Contraction
from chainrule.networks.flows.multiscale import ImageScale, MultiScale, TopPrior
from chainrule.networks.flows.normalization import ActNorm
from chainrule.networks.flows.residual import ContractiveResidual
from chainrule.networks.flows.squeeze import check_sides, squeezed
from chainrule.networks.flows.stacked import StackedLayers


@final
class ResidualFlowConfig(FlowConfig):
    """Settings of residual flows."""

    blocks: int = Field(16, ge=1, le=1000, description="blocks x + g(x), one after another")
    width: int = Field(64, ge=1, description="units, or channels, within the network of a block")
    depth: int = Field(2, ge=1, le=100, description="hidden layers of the network of a block")
    coefficient: float = Field(
        0.97, gt=0, lt=1, description="distances that the network of a block leaves, as a share, at most"
    )


def build(config: ResidualFlowConfig, schema: Schema, key: Key) -> FlowModel:
    """A fresh model: dense blocks for vectors, convolutions for images, which are squeezed once."""
    key_flow, key_base, key_condition = jax.random.split(key, 3)
    features = condition_features(config)
    flow: Bijection
    if len(schema.shape) == 3:
        shape = check_sides("residual-flow", schema.shape, 1)
        inner = squeezed(shape)
        flow = MultiScale(
            shape,
            [ImageScale(None, _blocks(config, inner, features, key_flow), None)],
            TopPrior(inner, features),
        )
    else:
        flow = _blocks(config, schema.shape, features, key_flow)
    base = base_distribution(config, schema, key_base)
    return FlowModel(flow, base, encoder(config, schema, key_condition), config, schema)


def _blocks(config: ResidualFlowConfig, shape: tuple[int, ...], features: int, key: Key) -> StackedLayers:
    def make(key: Key) -> BijectionChain:
        network = Contraction(
            shape,
            width=config.width,
            depth=config.depth,
            bound=config.coefficient,
            features=features,
            key=key,
        )
        return BijectionChain([ContractiveResidual(shape, network), ActNorm(shape)])

    return StackedLayers(make, config.blocks, key=key)


__all__ = ["ResidualFlowConfig", "build"]
