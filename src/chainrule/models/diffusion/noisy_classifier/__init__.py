"""Classifier of noisy data, which leads a diffusion model to a class."""

from chainrule.models.diffusion.noisy_classifier.model import NoisyClassifier, NoisyClassifierConfig
from chainrule.models.protocol import Entry

entry = Entry(
    name="noisy-classifier",
    summary="Classifier of noisy data at every noise level: leads a diffusion model to a class by its gradient.",
    config=NoisyClassifierConfig,
    build=NoisyClassifier,
    kinds=("image", "points", "table"),
    targets=("class",),
    data="digits",
    toy={"width": 16, "depth": 1},
    toy_data="moons",
    citation="Dhariwal and Nichol, Diffusion models beat GANs on image synthesis, NeurIPS 2021",
    training={
        "batch": 128,
        "optimizer": {"name": "adamw", "lr": 1e-3, "decay": 0.01, "clip": 1.0},
        "schedule": {"name": "cosine", "warmup": 100},
    },
)

__all__ = ["NoisyClassifier", "NoisyClassifierConfig", "entry"]
