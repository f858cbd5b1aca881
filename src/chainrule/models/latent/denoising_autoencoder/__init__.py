"""Denoising auto-encoder: noise on the data or on the code, and what it is good for."""

from collections.abc import Mapping
from typing import Any

from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.models.latent.denoising_autoencoder.building import build
from chainrule.models.latent.denoising_autoencoder.many_levels import ManyLevels
from chainrule.models.latent.denoising_autoencoder.model import (
    AutoEncoder,
    CodeNoise,
    Corrupted,
    DAEConfig,
    DataNoise,
)
from chainrule.models.protocol import Entry
from chainrule.networks import units
from chainrule.networks.noise_size import check_sigma, network_examples


def _judged(config: DAEConfig, data: Data) -> Mapping[str, Any]:
    """Nothing is set; noise on the data that cannot teach their score is warned of."""
    if config.noise == "data" and config.corruption == "gaussian":
        check_sigma(network_examples(data), config.sigma)
    return {}


def _suited(config: DAEConfig, schema: Schema, examples: int | None) -> Mapping[str, Any]:
    """Noise on images reaches 0.3 of the way from black to white, which are -1 and 1 for the network."""
    del examples
    return {"sigma": 0.6, "sigma_max": 6.0} if config.noise == "data" and units.unit(schema) else {}


def _became(settings: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | None:
    """What had no noise in earlier versions is the model `autoencoder` today."""
    if settings.get("noise") != "none":
        return None
    sizes = {name: settings[name] for name in ("width", "depth") if name in settings}
    return "autoencoder", {"latent": settings.get("code", 16), **sizes, "activation": "silu"}


entry = Entry(
    name="denoising-autoencoder",
    summary="Denoising auto-encoder: one noise level or several, whose reconstruction tells the score of the noised "
    "data.",
    config=DAEConfig,
    build=build,
    kinds=("image", "points", "table"),
    targets=("class", "value", "none"),
    data="moons",
    suited=_suited,
    measured=_judged,
    became=_became,
    toy={"width": 32, "depth": 1},
    toy_data="moons",
    citation="Vincent, A connection between score matching and denoising autoencoders, Neural Computation 2011",
    training={
        "batch": 128,
        "ema": 0.999,
        "optimizer": {"name": "adamw", "lr": 2e-3, "decay": 0.0, "clip": 1.0},
        "schedule": {"name": "cosine", "warmup": 100},
    },
)

__all__ = [
    "AutoEncoder",
    "CodeNoise",
    "Corrupted",
    "DAEConfig",
    "DataNoise",
    "ManyLevels",
    "build",
    "entry",
]
