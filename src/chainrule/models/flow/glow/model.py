"""Glow: settings, and the flow of images they describe."""

import math
from collections.abc import Callable
from typing import Any, Literal, final

import jax
from pydantic import Field

from chainrule.core.types import Key
from chainrule.data.schema import Schema
from chainrule.models.flow.dequantized_flow import DequantizedFlow, continuous
from chainrule.models.flow.flow_model import FlowModel
from chainrule.models.flow.settings import FlowConfig, base_distribution, condition_features, encoder
from chainrule.networks.flows.base import Bijection
from chainrule.networks.flows.chain import BijectionChain
from chainrule.networks.flows.dequantization import logit_layer
from chainrule.networks.flows.image_couplings import ChannelCoupling
from chainrule.networks.flows.level_noise import LevelNoise
from chainrule.networks.flows.multiscale import ImageScale, MultiScale, SplitPrior, TopPrior
from chainrule.networks.flows.normalization import ActNorm
from chainrule.networks.flows.one_by_one import DenseOneByOne, OneByOne
from chainrule.networks.flows.squeeze import check_sides, squeezed
from chainrule.networks.flows.stacked import StackedLayers

_FEW_LEVELS = 32
"""With no more than these, noise between levels is wide and worth learning."""


@final
class GlowConfig(FlowConfig):
    """Settings of Glow."""

    depth: int = Field(16, ge=1, le=1000, description="steps of flow on each level")
    levels: int = Field(
        2, ge=1, le=10, description="times the image is halved; sides are multiples of 2^levels"
    )
    width: int = Field(128, ge=1, description="channels within the networks of couplings")
    mixing: Literal["lu", "dense"] = Field(
        "lu",
        description="1x1 convolutions as triangular factors, or with a determinant worked out every time",
    )
    logit_margin: float = Field(
        1e-4,
        ge=0,
        lt=0.5,
        description="entries through a logit with this margin first (1e-6 to 0.05); 0 for none",
    )
    dequantization: Literal["uniform", "variational"] = Field(
        "uniform",
        description="noise between levels: the same everywhere, or by a second flow that sees the image, which suits "
        "32 levels and fewer",
    )
    noise_width: int = Field(32, ge=1, description="dequantization=variational: channels within its networks")


def suited(config: GlowConfig, schema: Schema, examples: int | None) -> dict[str, Any]:
    """Sizes as published for such images, fewer steps for small ones, as many levels as their sides allow; noise."""
    del config, examples
    if len(schema.shape) != 3:
        return {}
    *sides, channels = schema.shape
    if max(sides) < 16:
        sizes = {"depth": 8, "levels": 2, "width": 64}
    elif channels > 1 and max(sides) >= 32:
        sizes = {"depth": 32, "levels": 3, "width": 512}
    else:
        sizes = {"depth": 16, "levels": 2, "width": 128}
    halved = math.gcd(*sides)
    while sizes["levels"] > 1 and halved % 2 ** sizes["levels"]:
        sizes["levels"] -= 1
    return {**sizes, "dequantization": "variational" if 0 < schema.levels <= _FEW_LEVELS else "uniform"}


def build(config: GlowConfig, schema: Schema, key: Key) -> FlowModel | DequantizedFlow:
    """A fresh model."""
    key_flow, key_base, key_condition, key_noise = jax.random.split(key, 4)
    condition = encoder(config, schema, key_condition)
    base = base_distribution(config, schema, key_base)
    flow = glow_flow(config, schema, key_flow)
    if config.dequantization == "uniform":
        return FlowModel(flow, base, condition, config, schema)
    inner = FlowModel(flow, base, condition, config, continuous(schema))
    noise = LevelNoise(schema.shape, schema.levels, width=config.noise_width, key=key_noise)
    return DequantizedFlow(inner, noise, config, schema)


def glow_flow(config: GlowConfig, schema: Schema, key: Key) -> MultiScale:
    """Levels of squeezing, steps of flow and splitting."""
    shape = check_sides("glow", schema.shape, config.levels, "levels")
    features = condition_features(config)
    levels, now = [], shape
    for number, k in enumerate(jax.random.split(key, config.levels), 1):
        key_steps, key_split = jax.random.split(k)
        now = squeezed(now)
        steps = StackedLayers(_step(config, now, features), config.depth, key=key_steps)
        before = logit_layer(schema, config.logit_margin) if number == 1 else None
        if number == config.levels:
            levels.append(ImageScale(before, steps, None))
        else:
            kept = now[2] // 2
            levels.append(ImageScale(before, steps, SplitPrior(kept, now[2] - kept, key=key_split)))
            now = (*now[:2], kept)
    return MultiScale(shape, levels, TopPrior(now, features))


def _step(config: GlowConfig, shape: tuple[int, int, int], features: int) -> Callable[[Key], Bijection]:
    """What makes a step of flow: from data to codes actnorm, a 1x1 convolution, a coupling."""
    mix = OneByOne if config.mixing == "lu" else DenseOneByOne

    def make(key: Key) -> Bijection:
        one, two = jax.random.split(key)
        coupling = ChannelCoupling(shape, width=config.width, features=features, key=one)
        return BijectionChain([coupling, mix(shape, key=two), ActNorm(shape)])

    return make


__all__ = ["GlowConfig", "build", "glow_flow", "suited"]
