"""The denoising auto-encoder that settings ask for: where its noise is, of what kind, and of how many sizes."""

from collections.abc import Callable
from typing import TypeAlias

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Key
from chainrule.data.schema import Schema
from chainrule.models.latent.denoising_autoencoder.corruption import corruption
from chainrule.models.latent.denoising_autoencoder.many_levels import ManyLevels
from chainrule.models.latent.denoising_autoencoder.model import CodeNoise, Corrupted, DAEConfig, DataNoise

Rung: TypeAlias = DataNoise | CodeNoise | Corrupted | ManyLevels


def build(config: DAEConfig, schema: Schema, key: Key) -> Rung:
    """The rung of the ladder that the settings name."""
    rungs: dict[str, Callable[..., Rung]] = {
        "data": DataNoise,
        "code": CodeNoise,
        "corrupted": Corrupted,
        "levels": ManyLevels,
    }
    if config.noise_levels > 1:
        _check_levels(config)
        return rungs["levels"](config, schema, key)
    if config.corruption == "gaussian":
        return rungs[config.noise](config, schema, key)
    if config.noise == "code":
        raise ArgumentError(
            f"corruption={config.corruption}: the noise of a code is Gaussian",
            remedy="use noise=data, or leave corruption out",
        )
    corruption(config.corruption, config.share, schema)  # refused here, not in the first step
    return rungs["corrupted"](config, schema, key)


def _check_levels(config: DAEConfig) -> None:
    for setting, needed in (("noise", "data"), ("corruption", "gaussian")):
        given = getattr(config, setting)
        if given != needed:
            raise ArgumentError(
                f"noise_levels={config.noise_levels}: only Gaussian noise on the data has several sizes, not "
                f"{setting}={given}",
                remedy=f"use noise_levels=1, or {setting}={needed}",
            )
    if config.sigma_max <= config.sigma:
        raise ArgumentError(
            f"sigma_max={config.sigma_max:g}: noise grows from sigma={config.sigma:g}",
            remedy=f"use sigma_max={10 * config.sigma:g}, or noise_levels=1",
        )


__all__ = ["Rung", "build"]
