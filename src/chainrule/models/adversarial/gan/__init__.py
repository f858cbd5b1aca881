"""Generative adversarial network."""

from chainrule.models.adversarial.building import counted_classes
from chainrule.models.adversarial.gan.model import GAN, GANConfig
from chainrule.models.adversarial.training import PENALISED_TRAINING, penalised_training_on, suited
from chainrule.models.protocol import Entry

entry = Entry(
    name="gan",
    summary="Generative adversarial network: points, rows or images from noise, by one of six games.",
    config=GANConfig,
    build=GAN,
    kinds=("image", "points", "table"),
    targets=("class", "labels", "value", "none"),
    data="digits",
    toy={"width": 16, "depth": 2, "latent": 4},
    toy_data="moons",
    citation="Goodfellow et al., Generative adversarial nets, NeurIPS 2014; Huang et al., The GAN is dead; long live "
    "the GAN! A modern baseline GAN, NeurIPS 2024",
    measured=counted_classes,
    suited=suited,
    training=PENALISED_TRAINING,
    training_on=penalised_training_on,
)

__all__ = ["GAN", "GANConfig", "entry"]
