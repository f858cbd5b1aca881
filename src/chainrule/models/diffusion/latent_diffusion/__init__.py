"""Latent diffusion: a diffusion model of the codes of a first stage."""

from chainrule.models.diffusion.denoisers.settings import counted_classes
from chainrule.models.diffusion.latent_diffusion.model import (
    BoundedLatentDiffusion,
    LatentDiffusion,
    LatentDiffusionConfig,
    adopts,
    build,
)
from chainrule.models.diffusion.latent_diffusion.starting import with_measured_codes
from chainrule.models.diffusion.latent_diffusion.unit_codes import UnitCodes
from chainrule.models.diffusion.stages import first_stage_of
from chainrule.models.protocol import Entry

entry = Entry(
    name="latent-diffusion",
    summary="Latent diffusion: draws the codes of a trained auto-encoder, which turns them into examples.",
    config=LatentDiffusionConfig,
    build=build,
    kinds=("image", "points", "table"),
    targets=("class", "labels", "value", "none"),
    data="digits",
    toy={"width": 16, "depth": 1, "body": {"name": "vae", "latent": 2, "width": 16, "depth": 1}},
    toy_data="moons",
    citation="Rombach, Blattmann, Lorenz, Esser and Ommer, High-resolution image synthesis with latent diffusion "
    "models, CVPR 2022",
    measured=counted_classes,
    started=with_measured_codes,
    training={
        "batch": 128,
        "ema": 0.999,
        "optimizer": {"name": "adamw", "lr": 1e-3, "decay": 0.0, "clip": 1.0},
        "schedule": {"name": "cosine", "warmup": 100},
    },
    adopts=adopts,
    body_of=first_stage_of,
    holds=True,
    surrogate_gradient="a first stage does not learn from how its codes are diffused",
)

__all__ = [
    "BoundedLatentDiffusion",
    "LatentDiffusion",
    "LatentDiffusionConfig",
    "UnitCodes",
    "adopts",
    "entry",
]
