"""Wasserstein game with gradient penalty."""

from chainrule.models.adversarial.building import counted_classes
from chainrule.models.adversarial.training import TRAINING, critic_suited, critic_training_on
from chainrule.models.adversarial.wgan_gp.model import WGANGP, WGANGPConfig
from chainrule.models.protocol import Entry

entry = Entry(
    name="wgan-gp",
    summary="Wasserstein game: a critic whose slope is kept near one by a penalty.",
    config=WGANGPConfig,
    build=WGANGP,
    kinds=("image", "points", "table"),
    targets=("class", "labels", "value", "none"),
    data="digits",
    toy={"width": 16, "depth": 2, "latent": 4, "n_critic": 2, "conditional": True},
    toy_data="moons",
    citation="Gulrajani et al., Improved training of Wasserstein GANs, NeurIPS 2017",
    measured=counted_classes,
    suited=critic_suited,
    training={**TRAINING, "steps": 4000, "optimizer": {**TRAINING["optimizer"], "lr": 5e-4}},
    training_on=critic_training_on,
)

__all__ = ["WGANGP", "WGANGPConfig", "entry"]
