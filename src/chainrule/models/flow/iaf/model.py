"""Inverse autoregressive flow: draws in one pass, with their densities (Kingma et al., 2016)."""

import warnings
from collections.abc import Mapping
from typing import Any, Literal, final

from pydantic import Field

from chainrule.core.errors import ChainruleWarning
from chainrule.core.types import Key
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.models.flow.flow_model import FlowModel
from chainrule.models.flow.stacks import AutoregressiveConfig, autoregressive_flow
from chainrule.networks.flows.autoregressive import Autoregressive
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
    synthesiser = GatedSynthesiser() if config.form == "gated" else AffineSynthesiser(config.bound)
    return autoregressive_flow(config, schema, Autoregressive, synthesiser, key)


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
