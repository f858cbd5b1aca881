"""Vector-quantised variational auto-encoder."""

from collections.abc import Mapping
from typing import Any

from chainrule.data import kinds
from chainrule.data.schema import Schema
from chainrule.models.latent.likelihoods import checked
from chainrule.models.latent.vq_vae.model import VQVAE, VQVAEConfig
from chainrule.models.protocol import Entry

_WIDEST = 128
_SIDE = 8
"""Images are halved until their grid of codes has at most so many cells a side."""


def suited(config: VQVAEConfig, schema: Schema, examples: int | None) -> Mapping[str, Any]:
    """As many resolutions as leave a grid of eight cells a side or less, two at least; more codes for larger images.

    >>> suited(VQVAEConfig(), Schema("image", (28, 28, 1)), None)
    {'channels': (32, 64, 128), 'codes': 256}
    """
    del config, examples
    if not kinds.of(schema).spatial:
        return {}
    stages = 2
    while max(schema.shape[:2]) > _SIDE * 2 ** (stages - 1) and stages < 8:
        stages += 1
    more = {"codes": 256} if max(schema.shape[:2]) > 2 * _SIDE else {}
    return {"channels": tuple(min(32 * 2**i, _WIDEST) for i in range(stages)), **more}


entry = Entry(
    name="vq-vae",
    summary="Vector-quantised auto-encoder: every example as a grid of codes of a codebook, with a prior to draw them "
    "from.",
    config=VQVAEConfig,
    build=VQVAE,
    kinds=("image", "points", "table"),
    targets=("class", "labels", "value", "none"),
    data="digits",
    suited=suited,
    measured=checked,
    toy={
        "codes": 8,
        "code_size": 4,
        "slots": 2,
        "width": 16,
        "depth": 1,
        "prior_layers": 1,
        "prior_width": 8,
    },
    toy_data="moons",
    citation="van den Oord, Vinyals and Kavukcuoglu, Neural discrete representation learning, NeurIPS 2017",
    training={
        "batch": 128,
        "steps": 600,
        "optimizer": {"name": "adamw", "lr": 1e-3, "decay": 0.01, "clip": 1.0},
        "schedule": {"name": "cosine"},
    },
    surrogate_gradient="that of the encoder passes the choice of codes as if it were none (straight-through)",
)

__all__ = ["VQVAE", "VQVAEConfig", "entry", "suited"]
