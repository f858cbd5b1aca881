"""Diffusion of the codes of a codebook."""

from chainrule.models.diffusion.stages import first_stage_of
from chainrule.models.diffusion.vq_diffusion.chains import CHAINS, AbsorbingChain, TokenChain, UniformChain
from chainrule.models.diffusion.vq_diffusion.model import (
    BoundedVQDiffusion,
    VQDiffusion,
    adopts,
    build,
)
from chainrule.models.diffusion.vq_diffusion.network import TokenDenoiser
from chainrule.models.diffusion.vq_diffusion.settings import VQDiffusionConfig
from chainrule.models.protocol import Entry

entry = Entry(
    name="vq-diffusion",
    summary="Diffusion of codes: draws the grid of codes of a vector-quantised auto-encoder, all places at once.",
    config=VQDiffusionConfig,
    build=build,
    kinds=("image", "points", "table"),
    targets=("class", "labels", "value", "none"),
    data="digits",
    toy={
        "width": 16,
        "depth": 1,
        "timesteps": 8,
        "body": {
            **{"name": "vq-vae", "codes": 8, "code_size": 4, "slots": 2, "width": 16, "depth": 1},
            **{"prior_layers": 1, "prior_width": 8},
        },
    },
    toy_data="moons",
    citation="Gu et al., Vector quantized diffusion model for text-to-image synthesis, CVPR 2022",
    training={
        "batch": 128,
        "ema": 0.999,
        "optimizer": {"name": "adamw", "lr": 1e-3, "decay": 0.0, "clip": 1.0},
        "schedule": {"name": "cosine", "warmup": 100},
    },
    adopts=adopts,
    body_of=first_stage_of,
    holds=True,
    surrogate_gradient="that of the encoder passes the choice of codes as if it were none (straight-through)",
)

__all__ = [
    "CHAINS",
    "AbsorbingChain",
    "BoundedVQDiffusion",
    "TokenChain",
    "TokenDenoiser",
    "UniformChain",
    "VQDiffusion",
    "VQDiffusionConfig",
    "adopts",
    "entry",
]
