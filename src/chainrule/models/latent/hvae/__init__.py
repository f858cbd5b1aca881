"""Hierarchical variational auto-encoder."""

from chainrule.models.latent.hvae.model import HVAE, HVAEConfig
from chainrule.models.latent.likelihoods import checked
from chainrule.models.latent.training import TRAINING
from chainrule.models.protocol import Entry

entry = Entry(
    name="hvae",
    summary="Hierarchical variational auto-encoder: levels of codes, each drawn given all those above it.",
    config=HVAEConfig,
    build=HVAE,
    kinds=("image", "points", "table"),
    targets=("class", "labels", "value", "none"),
    data="digits",
    measured=checked,
    toy={"latents": (2, 2), "width": 16, "depth": 1},
    toy_data="moons",
    citation="Sønderby, Raiko, Maaløe, Sønderby and Winther, Ladder variational autoencoders, NeurIPS 2016",
    training=TRAINING,
)

__all__ = ["HVAE", "HVAEConfig", "entry"]
