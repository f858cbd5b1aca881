"""Diffusion model: dense, convolutional or transformer denoiser."""

from chainrule.models.diffusion.denoisers.settings import counted_classes, suited
from chainrule.models.diffusion.diffusion.model import Diffusion, DiffusionConfig
from chainrule.models.diffusion.former import FORMER_ARRAYS, FORMER_SETTINGS
from chainrule.models.protocol import Entry, Recipe

entry = Entry(
    name="diffusion",
    summary="Diffusion model: learns to remove Gaussian noise, then makes new points, rows or images from it.",
    config=DiffusionConfig,
    build=Diffusion,
    kinds=("image", "points", "table"),
    targets=("class", "labels", "value", "text", "none"),
    data="digits",
    toy={"width": 32, "depth": 2},
    toy_data="moons",
    citation="Ho, Jain and Abbeel, Denoising diffusion probabilistic models, NeurIPS 2020",
    former_settings=FORMER_SETTINGS,
    former_arrays=FORMER_ARRAYS,
    suited=suited,
    measured=counted_classes,
    recipes={
        "rectified-flow": Recipe(
            "Rectified flow: straight paths between data and noise, along which the network learns the velocity.",
            model={"noise": "rectified", "target": "u"},
        )
    },
    training={
        "batch": 128,
        "ema": 0.999,
        "optimizer": {"name": "adamw", "lr": 2e-3, "decay": 0.0, "clip": 1.0},
        "schedule": {"name": "cosine", "warmup": 100},
    },
)

__all__ = ["Diffusion", "DiffusionConfig", "entry"]
