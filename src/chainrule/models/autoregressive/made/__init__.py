"""MADE."""

from chainrule.models.autoregressive.made.model import MADEConfig, MaskedNetwork, build
from chainrule.models.protocol import Entry

entry = Entry(
    name="made",
    summary="Masked autoencoder: exact likelihood of binary vectors, levels or numbers in one pass.",
    config=MADEConfig,
    build=build,
    kinds=("image", "table", "points"),
    targets=("none", "class", "value"),
    data="binary-digits",
    toy={"width": 16, "depth": 1},
    toy_data="moons",
    citation="Germain, Gregor, Murray and Larochelle, MADE: masked autoencoder for distribution estimation, ICML 2015",
    training={
        "batch": 64,
        "epochs": 60,
        "optimizer": {"name": "adamw", "lr": 2e-3, "decay": 0.01},
        "schedule": {"name": "cosine"},
    },
)

__all__ = ["MADEConfig", "MaskedNetwork", "entry"]
