"""Training settings that suit games on vectors and on images.

Vectors of a few entries take a high rate and many short steps: at the rates that images need, a ring of eight modes is
still a blur after thousands of them. Penalties on slopes are the other way round: modes a twentieth of the data's
spread wide need scores that rise steeply between them, and images of hundreds of pixels are far apart anyhow.
"""

from collections.abc import Mapping
from typing import Any

from chainrule.data import kinds
from chainrule.data.schema import Schema
from chainrule.models.adversarial.building import NetworksConfig

TRAINING: dict[str, Any] = {
    "steps": 10_000,
    "batch": 128,
    "ema": 0.999,
    "eval_every": 500,
    "optimizer": {"name": "adam", "lr": 3e-3, "betas": (0.5, 0.9), "decay": 0.0},
    "schedule": {"name": "cosine", "floor": 0.1},
}
PENALISED_TRAINING: dict[str, Any] = {
    **TRAINING,
    "optimizer": {**TRAINING["optimizer"], "betas": (0.0, 0.99)},
}
"""Without momentum and with a long memory of squares, as usual with R1 and R2 (Huang et al., 2024): on a ring of eight
modes samples of each spread by a third more than with the memory of other games, and no fewer are of high quality."""
_SMALL = 16
"""Pixels of a side up to which images are small."""
_ON_IMAGES: dict[str, Any] = {"steps": 3000, "eval_every": 250, "optimizer": {"lr": 1e-3}}


def training_on(schema: Schema) -> Mapping[str, Any]:
    """Fewer and slower steps for images."""
    return _ON_IMAGES if kinds.of(schema).spatial else {}


def penalised_training_on(schema: Schema) -> Mapping[str, Any]:
    """The same, at twice the rate for small images, where penalties on slopes keep such a game steady."""
    if not kinds.of(schema).spatial:
        return {}
    rate = 2e-3 if _small(schema) else 1e-3
    return {**_ON_IMAGES, "optimizer": {"lr": rate, "betas": TRAINING["optimizer"]["betas"]}}


def _small(schema: Schema) -> bool:
    return max(schema.shape[:2]) <= _SMALL


def sized_noise(config: NetworksConfig, schema: Schema, examples: int | None) -> dict[str, Any]:
    """As much noise as a vector has entries, up to 16, and more for images."""
    del config, examples
    return {"latent": 64 if kinds.of(schema).spatial else min(16, schema.dimensions)}


def suited(config: NetworksConfig, schema: Schema, examples: int | None) -> dict[str, Any]:
    """Stronger penalties on slopes for images, and 16 entries of noise for small ones."""
    noise = sized_noise(config, schema, examples)["latent"]
    if not kinds.of(schema).spatial:
        return {"latent": noise}
    return {"latent": 16 if _small(schema) else noise, "r1": 1.0, "r2": 1.0}


def critic_training_on(schema: Schema) -> Mapping[str, Any]:
    """The published rate and memory of gradient-penalty critics for images."""
    images = {**_ON_IMAGES, "optimizer": {"lr": 1e-4, "betas": (0.0, 0.9)}}
    return images if kinds.of(schema).spatial else {}


def critic_suited(config: NetworksConfig, schema: Schema, examples: int | None) -> dict[str, Any]:
    """The published penalty and number of moves for images."""
    image = {"lam": 10.0, "n_critic": 5} if kinds.of(schema).spatial else {}
    return {**sized_noise(config, schema, examples), **image}


__all__ = [
    "PENALISED_TRAINING",
    "TRAINING",
    "critic_suited",
    "critic_training_on",
    "penalised_training_on",
    "sized_noise",
    "suited",
    "training_on",
]
