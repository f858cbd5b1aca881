"""Domain-adversarial network."""

from collections.abc import Mapping
from typing import Any

from chainrule.data import kinds
from chainrule.data.schema import Schema
from chainrule.models.protocol import Entry
from chainrule.models.supervised.dann.model import DANN, DANNConfig

_SMALL = 4
"""Pixels of the shorter side that two halvings need."""


def suited(config: DANNConfig, schema: Schema, examples: int | None) -> dict[str, Any]:
    """The published network of digits for images; a few dense layers for everything else."""
    del config, examples
    if not kinds.of(schema).spatial or min(schema.shape[:2]) < _SMALL:
        return {}
    return {"channels": (32, 48), "layers": (), "classifier": (100, 100), "discriminator": (100,)}


def training_on(schema: Schema) -> Mapping[str, Any]:
    """A lower rate for images."""
    return {"optimizer": {"lr": 1e-3}} if kinds.of(schema).spatial else {}


entry = Entry(
    name="dann",
    summary="Domain-adversarial network: classes learned in one domain, features that are alike in another.",
    config=DANNConfig,
    build=DANN,
    kinds=("image", "table", "points", "sequence"),
    targets=("class",),
    data="moons",
    target_data="rotated-moons",
    unadapted={"align": "none"},
    toy={"layers": (8,), "discriminator": (8,)},
    toy_data="moons",
    citation="Ganin et al., Domain-adversarial training of neural networks, JMLR 17, 2016, arXiv:1505.07818",
    suited=suited,
    started=lambda model, data: model.started(data),
    training={
        "steps": 4000,
        "batch": 64,
        # Games go round in circles: less momentum and averaged weights settle them.
        "optimizer": {"name": "adam", "lr": 2e-3, "betas": (0.5, 0.999), "decay": 0.0},
        "ema": 0.995,
    },
    training_on=training_on,
    head="network.classifier",
)

__all__ = ["DANN", "DANNConfig", "entry"]
