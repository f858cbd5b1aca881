"""Denoising auto-encoder: noise on the data, on the code or nowhere, and what it is good for."""

from collections.abc import Mapping
from typing import Any

from chainrule.data.dataset import Data
from chainrule.models.latent.denoising_autoencoder.model import (
    AutoEncoder,
    CodeNoise,
    DAEConfig,
    DataNoise,
    NoNoise,
    build,
)
from chainrule.models.protocol import Entry
from chainrule.networks.noise_size import check_sigma, network_examples


def _judged(config: DAEConfig, data: Data) -> Mapping[str, Any]:
    """Nothing is set; noise on the data that cannot teach their score is warned of."""
    if config.noise == "data":
        check_sigma(network_examples(data), config.sigma)
    return {}


entry = Entry(
    name="denoising-autoencoder",
    summary="Denoising auto-encoder: one noise level, whose reconstruction tells the score of the noised data.",
    config=DAEConfig,
    build=build,
    kinds=("image", "points", "table"),
    targets=("class", "value", "none"),
    data="moons",
    measured=_judged,
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

__all__ = ["AutoEncoder", "CodeNoise", "DAEConfig", "DataNoise", "NoNoise", "build", "entry"]
