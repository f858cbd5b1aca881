"""Planar and radial flows: many small bends, each along a direction or around a point (Rezende and Mohamed, 2015)."""

import warnings
from collections.abc import Mapping
from typing import Any, Literal, final

from pydantic import Field

from chainrule.core.errors import ChainruleWarning
from chainrule.core.types import Key
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.models.flow.flow_model import FlowModel
from chainrule.models.flow.stacks import StackConfig, stacked_flow
from chainrule.networks.flows.base import Bijection
from chainrule.networks.flows.planar import Planar, Radial

_FEW = 4
"""So many layers are inverted in no time."""


@final
class PlanarConfig(StackConfig):
    """Settings of planar and radial flows."""

    layers: int = Field(16, ge=1, le=1000, description="bends, one after another")
    bend: Literal["planar", "radial"] = Field(
        "planar", description="what a layer does: it bends along a direction, or around a point"
    )
    conditional: Literal[False] = Field(False, description="these layers are told nothing of an example")


def build(config: PlanarConfig, schema: Schema, key: Key) -> FlowModel:
    """A fresh model."""
    bend = Planar if config.bend == "planar" else Radial

    def layers(k: Key) -> list[Bijection]:
        return [bend(schema.dimensions, k)]

    return stacked_flow(config, schema, config.layers, layers, key)


def warned(config: PlanarConfig, data: Data) -> Mapping[str, Any]:
    """No settings, and a warning of what densities of data cost with more than a few layers."""
    del data
    if config.layers <= _FEW:
        return {}
    warnings.warn(
        f"planar: {config.bend} layers have no inverse in closed form; fitting data solves an equation by bisection "
        "for each layer and example. spline-flow fits data better and faster; planar suits densities without data "
        "(chainrule.models.flow.fit_density)",
        ChainruleWarning,
        stacklevel=2,
    )
    return {}


__all__ = ["PlanarConfig", "build", "warned"]
