"""Continuous flows: settings, and the differential equation they describe."""

import math
from typing import Literal, final

import jax
from pydantic import Field

from chainrule.core.types import Key
from chainrule.data.schema import Schema
from chainrule.models.flow.flow_model import FlowModel
from chainrule.models.flow.settings import FlowConfig, base_distribution, condition_features, encoder
from chainrule.networks.flows.chain import BijectionChain
from chainrule.networks.flows.continuous import Continuous, GatedVelocity
from chainrule.networks.flows.normalization import ActNorm


@final
class ContinuousFlowConfig(FlowConfig):
    """Settings of continuous flows."""

    width: int = Field(64, ge=1, description="units of each hidden layer of the velocity")
    depth: int = Field(3, ge=1, le=100, description="hidden layers of the velocity")
    ode_steps: int = Field(
        8,
        ge=1,
        le=10_000,
        description="equal steps of a solve in training, four evaluations of the velocity each",
    )
    tolerance: float = Field(
        1e-5, gt=0, lt=1, description="error of a step, where steps are adaptive: densities, codes, draws"
    )
    gradient: Literal["checkpointed", "adjoint"] = Field(
        "checkpointed",
        description="of training: that of equal steps, or adaptive steps with the adjoint equation solved backwards",
    )


def build(config: ContinuousFlowConfig, schema: Schema, key: Key) -> FlowModel:
    """A fresh model; images are vectors to it."""
    key_flow, key_base, key_condition = jax.random.split(key, 3)
    velocity = GatedVelocity(
        math.prod(schema.shape), config.width, config.depth, features=condition_features(config), key=key_flow
    )
    layer = Continuous(
        schema.shape,
        velocity,
        steps=config.ode_steps,
        tolerance=config.tolerance,
        gradient=config.gradient,
    )
    flow = BijectionChain([layer, ActNorm(schema.shape)])
    base = base_distribution(config, schema, key_base)
    return FlowModel(flow, base, encoder(config, schema, key_condition), config, schema)


__all__ = ["ContinuousFlowConfig", "build"]
