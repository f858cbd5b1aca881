"""Auto-encoder."""

import warnings
from collections.abc import Mapping
from typing import Any

from chainrule.data.dataset import Data
from chainrule.models.latent import likelihoods
from chainrule.models.latent.autoencoder.model import Autoencoder, AutoencoderConfig
from chainrule.models.latent.training import TRAINING
from chainrule.models.protocol import Entry, Recipe


def _judged(config: AutoencoderConfig, data: Data) -> Mapping[str, Any]:
    """Nothing is set; examples that the likelihood cannot have are refused, and a code that can copy is warned of."""
    entries = data.schema.dimensions
    if config.latent >= entries and not (config.l1 or config.contractive):
        warnings.warn(
            f"latent={config.latent}: examples have {entries} entries, so that copying them is the best answer and the "
            f"codes mean nothing; use latent={max(entries // 2, 1)} or less, a penalty (l1=0.01, contractive=0.01), or "
            "denoising-autoencoder",
            stacklevel=2,
        )
    return {} if config.likelihood == "none" else likelihoods.checked(config, data)


entry = Entry(
    name="autoencoder",
    summary="Auto-encoder: a short code of each example from which it is rebuilt, with penalties where wanted.",
    config=AutoencoderConfig,
    build=Autoencoder,
    kinds=("image", "points", "table"),
    targets=("class", "labels", "value", "none"),
    data="digits",
    measured=_judged,
    toy={"latent": 1, "width": 16, "depth": 1, "normalization": "batch", "l1": 0.01},
    toy_data="moons",
    citation="Hinton and Salakhutdinov, Reducing the dimensionality of data with neural networks, Science 2006",
    training=TRAINING,
    # Of a denoising auto-encoder without noise, which was one of its kinds once.
    former_arrays={
        "encoder.layers": "encoder.network.layers",
        "decoder.layers": "decoder.network.layers",
    },
    recipes={
        "ae-mlp": Recipe(
            summary="784-512-2 and back, batch normalisation and ReLU between, a sigmoid at the end: Fashion-MNIST in "
            "the plane",
            model={
                "latent": 2,
                "width": 512,
                "depth": 1,
                "activation": "relu",
                "normalization": "batch",
                "final_activation": "sigmoid",
            },
            train={
                "epochs": 5,
                "batch": 64,
                "ema": 0.0,
                "optimizer": {"name": "adam", "lr": 1e-3, "decay": 0.0, "clip": None},
                "schedule": {"name": "constant"},
            },
        ),
        "ae-conv": Recipe(
            summary="residual convolutions at 32, 64 and 128 channels, a code of 32 (128 suits colour: latent=128)",
            model={"latent": 32, "body": "conv", "channels": (32, 64, 128), "final_activation": "sigmoid"},
        ),
    },
)

__all__ = ["Autoencoder", "AutoencoderConfig", "entry"]
