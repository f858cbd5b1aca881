"""Separation of sound by masks."""

from chainrule.models.audio.separator.model import Separator, SeparatorConfig
from chainrule.models.protocol import Entry, Recipe

entry = Entry(
    name="separator",
    summary="Masks over spectrograms by a U-Net: finds the sources that a recording is mixed of.",
    config=SeparatorConfig,
    build=Separator,
    kinds=("audio",),
    targets=("sources",),
    data="mixes",
    toy={"size": 64, "hop": 32, "width": 2, "depth": 2, "kernel": 3, "normalization": "group"},
    toy_data="mixes",
    citation="Jansson et al., Singing voice separation with deep U-Net convolutional networks, 2017",
    recipes={
        "published": Recipe(
            "the network of Jansson et al. on music at 8,192 Hz",
            model={"size": 1024, "hop": 768, "width": 16, "depth": 6, "dropout": 0.5, "source": "vocals"},
            data={"rate": 8192, "channels": 1, "length": 97_536},
        )
    },
    training={
        "batch": 8,
        "steps": 400,
        "optimizer": {"name": "adam", "lr": 2e-3, "clip": 1.0},
        "schedule": {"name": "cosine", "warmup": 50},
        "eval_every": 100,
    },
)

__all__ = ["Separator", "SeparatorConfig", "entry"]
