"""Masked autoregressive flow: densities in one pass (Papamakarios, Pavlakou and Murray, 2017)."""

from typing import final

from pydantic import Field

from chainrule.core.types import Key
from chainrule.data.schema import Schema
from chainrule.models.flow.flow_model import FlowModel
from chainrule.models.flow.stacks import AutoregressiveConfig, autoregressive_flow
from chainrule.networks.flows.autoregressive import masked_autoregressive
from chainrule.networks.flows.synthesisers import AffineSynthesiser, ReversedSynthesiser


@final
class MAFConfig(AutoregressiveConfig):
    """Settings of the masked autoregressive flow."""

    bound: float = Field(5.0, gt=0, le=50, description="largest |logarithm| of a scale")


def build(config: MAFConfig, schema: Schema, key: Key) -> FlowModel:
    """A fresh model."""
    affine = ReversedSynthesiser(AffineSynthesiser(config.bound))
    return autoregressive_flow(config, schema, masked_autoregressive, affine, key)


__all__ = ["MAFConfig", "build"]
