"""Helmholtz machine."""

from chainrule.models.latent.helmholtz.model import (
    CountedHelmholtz,
    Helmholtz,
    HelmholtzConfig,
    SampledHelmholtz,
    build,
)
from chainrule.models.protocol import Entry

entry = Entry(
    name="helmholtz",
    summary="Helmholtz machine: binary codes, a network that recognises them and one that dreams, by wake and sleep.",
    config=HelmholtzConfig,
    build=build,
    kinds=("image", "table"),
    targets=("class", "labels", "value", "none"),
    data="binary-digits",
    toy={"layers": (5, 3), "method": "wake-sleep"},
    toy_data="binary-digits",
    citation="Hinton, Dayan, Frey and Neal, The wake-sleep algorithm for unsupervised neural networks, Science 1995",
    training={
        "batch": 100,
        "ema": 0.99,
        "optimizer": {"name": "adamw", "lr": 1e-2, "decay": 0.0},
        "schedule": {"name": "cosine"},
    },
)

__all__ = ["CountedHelmholtz", "Helmholtz", "HelmholtzConfig", "SampledHelmholtz", "build", "entry"]
