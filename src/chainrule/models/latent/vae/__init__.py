"""Variational auto-encoder."""

from chainrule.models.latent.likelihoods import checked
from chainrule.models.latent.starting import centred
from chainrule.models.latent.training import TRAINING
from chainrule.models.latent.vae.model import VAE, AggressiveVAE, VAEConfig, build
from chainrule.models.protocol import Entry, Recipe

entry = Entry(
    name="vae",
    summary="Variational auto-encoder: codes one can draw from, a bound of the likelihood, and a choice of both.",
    config=VAEConfig,
    build=build,
    kinds=("image", "points", "table"),
    targets=("class", "labels", "value", "none"),
    data="digits",
    measured=checked,
    started=centred,
    toy={"latent": 2, "width": 16, "depth": 1},
    toy_data="moons",
    citation="Kingma and Welling, Auto-encoding variational Bayes, ICLR 2014",
    training=TRAINING,
    recipes={
        "vae-mlp": Recipe(
            summary="784-256-(16, 16) and back with ReLU, zeros and ones drawn anew from grey in every step",
            model={"latent": 16, "width": 256, "depth": 1, "activation": "relu", "likelihood": "bernoulli"},
            data={"binarize": "dynamic"},
            train={"epochs": 200, "optimizer": {"name": "adam", "lr": 1e-3}},
        ),
        "vae-iwae": Recipe(
            summary="784-200-200-50 and back with tanh, as importance-weighted auto-encoders were compared",
            model={"latent": 50, "width": 200, "depth": 2, "activation": "tanh", "warmup": 0.0},
            data={"binarize": "dynamic"},
            train={"epochs": 200, "optimizer": {"name": "adam", "lr": 1e-3}},
        ),
        "vae-conv": Recipe(
            summary="residual convolutions at 32, 64 and 128 channels, a code of 32 (128 suits colour: latent=128)",
            model={"latent": 32, "body": "conv", "channels": (32, 64, 128)},
        ),
    },
)

__all__ = ["VAE", "AggressiveVAE", "VAEConfig", "build", "entry"]
