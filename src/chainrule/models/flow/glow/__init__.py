"""Glow: images by steps of actnorm, invertible 1x1 convolution and coupling, on several scales."""

from chainrule.models.flow.dequantized_flow import begun
from chainrule.models.flow.glow.model import GlowConfig, build, suited
from chainrule.models.protocol import Entry

entry = Entry(
    name="glow",
    summary="Glow: exact densities, codes and draws of images by invertible 1x1 convolutions and couplings.",
    config=GlowConfig,
    build=build,
    kinds=("image",),
    targets=("none", "class", "labels", "value"),
    data="digits",
    toy={"depth": 2, "levels": 1, "width": 8, "noise_width": 4},
    toy_data="digits",
    citation="Kingma and Dhariwal, Glow: generative flow with invertible 1x1 convolutions, NeurIPS 2018",
    suited=suited,
    started=begun,
    training={
        "batch": 64,
        "epochs": 80,
        "optimizer": {"name": "adamw", "lr": 1e-3, "decay": 0.01, "clip": 100.0},
        "schedule": {"name": "cosine", "warmup": 100},
    },
)

__all__ = ["GlowConfig", "build", "entry"]
