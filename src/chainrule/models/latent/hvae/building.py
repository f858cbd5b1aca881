"""Ladders as the settings ask for them: dense layers for anything, convolutions at several resolutions for images."""

import math
from typing import Any

import jax
import jax.numpy as jnp

from chainrule.core.types import Key
from chainrule.data.schema import Schema
from chainrule.models.latent.bodies import begun, check_pixels
from chainrule.models.latent.hierarchical import HierarchicalConfig
from chainrule.models.latent.hvae.ladder import BottomUp, DenseResidual, Ladder, Rung, TopDown
from chainrule.networks.conv_autoencoder import ConvResidual, resolutions
from chainrule.networks.unet import group_norm
from chainrule.nn import Conv, Linear
from chainrule.nn.activations import activation
from chainrule.probability.distributions.outputs import OutputDistribution

_LADDERS: dict[str, type[TopDown] | type[BottomUp]] = {"top-down": TopDown, "bottom-up": BottomUp}


def dense_ladder(
    config: HierarchicalConfig,
    latents: tuple[int, ...],
    inference: str,
    schema: Schema,
    output: OutputDistribution,
    key: Key,
) -> Ladder:
    """States of `width` units; codes are vectors."""
    if config.coarse > 1:
        check_pixels(f"coarse={config.coarse}", schema, "leave coarse out")
    for_entry, for_exit, *keys = jax.random.split(key, 2 + len(latents))
    rungs = []
    for level, (size, k) in enumerate(zip(latents, keys, strict=True)):
        one, two, three = jax.random.split(k, 3)
        up, down = (DenseResidual(config.width, config.depth, config.activation, b) for b in (one, two))
        shared = _shared(level, latents, inference)
        rungs.append(
            Rung(
                (up, down),
                (None, None),
                width=config.width,
                shape=(size,),
                below=(),
                activation=config.activation,
                **shared,
                key=three,
            )
        )
    gain = activation(config.activation).gain
    last = Linear(config.width, schema.dimensions * output.parameter_count, key=for_exit)
    return _LADDERS[inference](
        entry=Linear(schema.dimensions, config.width, key=for_entry, gain=gain),
        rungs=tuple(rungs),
        start=jnp.zeros(config.width),
        norm=None,
        exit=begun(last, lambda layer: layer, output),
        shape=(*schema.shape, output.parameter_count),
        sizes=latents,
    )


def conv_ladder(
    config: HierarchicalConfig,
    latents: tuple[int, ...],
    inference: str,
    schema: Schema,
    output: OutputDistribution,
    key: Key,
) -> Ladder:
    """States are feature maps; codes are maps of a few channels, the top ones at the coarsest resolution."""
    check_pixels("body=conv", schema, "use body=mlp")
    sizes, stages = resolutions(schema.shape, len(config.channels)), stages_of(latents, len(config.channels))
    for_entry, for_exit, *keys = jax.random.split(key, 2 + len(latents))
    rungs, below = [], stages[0]
    for level, (stage, k) in enumerate(zip(stages, keys, strict=True)):
        one, two, three, four, five = jax.random.split(k, 5)
        width, other = config.channels[stage], config.channels[below]
        moves = stage > below
        resampling = (
            Conv(2, other, width, 3, stride=2, padding=1, key=one) if moves else None,
            Conv(2, width, other, 3, padding=1, key=two) if moves else None,
        )
        rungs.append(
            Rung(
                (ConvResidual(width, three), ConvResidual(width, four)),
                resampling,
                width=width,
                shape=(*sizes[stage], latents[level]),
                below=sizes[below],
                activation="silu",
                **_shared(level, latents, inference),
                key=five,
            )
        )
        below = stage
    first, last = config.channels[stages[0]], config.channels[stages[-1]]
    exit_layer = Conv(2, first, schema.shape[2] * output.parameter_count, 3, padding=1, key=for_exit)
    return _LADDERS[inference](
        entry=Conv(2, schema.shape[2], first, 3, padding=1, key=for_entry),
        rungs=tuple(rungs),
        start=jnp.zeros((*sizes[stages[-1]], last)),
        norm=group_norm(first),
        exit=begun(exit_layer, lambda layer: layer, output),
        shape=(*schema.shape, output.parameter_count),
        sizes=tuple(math.prod(rung.shape) for rung in rungs),
    )


def stages_of(latents: tuple[int, ...], resolutions: int) -> list[int]:
    """The resolution of each level, the finest for the lowest: as many levels at each as at the others.

    >>> stages_of((1, 1, 1), 3), stages_of((1, 1, 1, 1), 2), stages_of((1, 1), 3)
    ([0, 1, 2], [0, 0, 1, 1], [0, 1])
    """
    return [
        min(level, level * resolutions // max(len(latents), resolutions)) for level in range(len(latents))
    ]


def _shared(level: int, latents: tuple[int, ...], inference: str) -> dict[str, Any]:
    return {"is_top": level == len(latents) - 1, "shares_path": _LADDERS[inference] is TopDown}


__all__ = ["conv_ladder", "dense_ladder", "stages_of"]
