"""Conditional variational auto-encoder."""

from chainrule.models.latent.cvae.model import CVAE, CVAEConfig
from chainrule.models.latent.likelihoods import checked
from chainrule.models.latent.starting import centred
from chainrule.models.latent.training import TRAINING
from chainrule.models.protocol import Entry

entry = Entry(
    name="cvae",
    summary="Conditional variational auto-encoder: examples by class or value, and as they would be under another one.",
    config=CVAEConfig,
    build=CVAE,
    kinds=("image", "points", "table"),
    targets=("class", "labels", "value"),
    data="digits",
    measured=checked,
    started=centred,
    toy={"latent": 2, "width": 16, "depth": 1},
    toy_data="moons",
    citation="Sohn, Lee and Yan, Learning structured output representation using deep conditional generative models, "
    "NeurIPS 2015",
    training=TRAINING,
)

__all__ = ["CVAE", "CVAEConfig", "entry"]
