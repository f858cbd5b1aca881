"""Wasserstein game with clipped weights."""

from chainrule.models.adversarial.building import counted_classes
from chainrule.models.adversarial.training import TRAINING, sized_noise
from chainrule.models.adversarial.wgan.model import WGAN, WGANConfig
from chainrule.models.protocol import Entry

entry = Entry(
    name="wgan",
    summary="Wasserstein game: a critic whose weights are clipped, as first published.",
    config=WGANConfig,
    build=WGAN,
    kinds=("image", "points", "table"),
    targets=("class", "labels", "value", "none"),
    data="digits",
    toy={"width": 16, "depth": 2, "latent": 4, "n_critic": 2},
    toy_data="moons",
    citation="Arjovsky, Chintala and Bottou, Wasserstein generative adversarial networks, ICML 2017",
    measured=counted_classes,
    suited=sized_noise,
    training={
        **TRAINING,
        "steps": 4000,
        "batch": 64,
        "optimizer": {"name": "rmsprop", "lr": 5e-5, "momentum": 0.99, "decay": 0.0},
        "schedule": {"name": "constant"},
    },
)

__all__ = ["WGAN", "WGANConfig", "entry"]
