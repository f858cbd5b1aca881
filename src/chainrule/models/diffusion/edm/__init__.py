"""EDM: the score model of Karras et al. (2022), with their preconditioning, noise levels, weights and sampler."""

from collections.abc import Mapping
from typing import Any

from chainrule.data.dataset import Data
from chainrule.models.diffusion.denoisers.settings import counted_classes, suited
from chainrule.models.diffusion.edm.model import EDM, EDMConfig
from chainrule.models.protocol import Entry
from chainrule.networks.noise_size import data_std


def _measured(config: EDMConfig, data: Data) -> Mapping[str, Any]:
    """The standard deviation of the data, in four digits, and how often each class is among them."""
    std = {"std": float(f"{data_std(data):.4g}")} if config.std is None else {}
    return {**std, **counted_classes(config, data)}


entry = Entry(
    name="edm",
    summary="EDM: denoiser scaled to unit variance at every noise level, drawn with Heun's method in few steps.",
    config=EDMConfig,
    build=EDM,
    kinds=("image", "points", "table"),
    targets=("class", "labels", "value", "text", "none"),
    data="digits",
    toy={"width": 32, "depth": 1},
    toy_data="moons",
    citation="Karras, Aittala, Aila and Laine, Elucidating the design space of diffusion-based generative models, "
    "NeurIPS 2022",
    suited=suited,
    measured=_measured,
    training={
        "batch": 128,
        "ema": 0.999,
        "optimizer": {"name": "adamw", "lr": 2e-3, "decay": 0.0, "clip": 1.0},
        "schedule": {"name": "cosine", "warmup": 100},
    },
)

__all__ = ["EDM", "EDMConfig", "entry"]
