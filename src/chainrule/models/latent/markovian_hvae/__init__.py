"""Markovian hierarchical variational auto-encoder."""

from chainrule.models.latent.likelihoods import checked
from chainrule.models.latent.markovian_hvae.model import MarkovianHVAE, MarkovianHVAEConfig
from chainrule.models.latent.training import TRAINING
from chainrule.models.protocol import Entry

entry = Entry(
    name="markovian-hvae",
    summary="Markovian hierarchical variational auto-encoder: a chain of codes, learned or of growing noise as in "
    "diffusion.",
    config=MarkovianHVAEConfig,
    build=MarkovianHVAE,
    kinds=("image", "points", "table"),
    targets=("class", "labels", "value", "none"),
    data="digits",
    measured=checked,
    toy={"latents": (2, 2), "width": 16, "depth": 1},
    toy_data="moons",
    citation="Rezende, Mohamed and Wierstra, Stochastic backpropagation and approximate inference in deep generative "
    "models, ICML 2014; Luo, Understanding diffusion models: a unified perspective, 2022",
    training=TRAINING,
)

__all__ = ["MarkovianHVAE", "MarkovianHVAEConfig", "entry"]
