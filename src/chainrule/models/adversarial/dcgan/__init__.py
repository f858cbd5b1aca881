"""DCGAN: the published convolutional recipe."""

from chainrule.models.adversarial.building import counted_classes
from chainrule.models.adversarial.dcgan.model import DCGAN, DCGANConfig
from chainrule.models.protocol import Entry

entry = Entry(
    name="dcgan",
    summary="DCGAN: transposed convolutions with batch normalisation, the published recipe for images.",
    config=DCGANConfig,
    build=DCGAN,
    kinds=("image",),
    targets=("class", "labels", "value", "none"),
    data="digits",
    toy={"latent": 4, "generator_width": 4, "discriminator_width": 4},
    toy_data="digits",
    citation="Radford, Metz and Chintala, Unsupervised representation learning with deep convolutional generative "
    "adversarial networks, ICLR 2016",
    measured=counted_classes,
    training={
        "batch": 64,
        "steps": 3000,
        "ema": 0.999,
        "eval_every": 100,
        "optimizer": {"name": "adam", "lr": 2e-4, "betas": (0.5, 0.999), "decay": 0.0},
        "schedule": {"name": "constant"},
    },
)

__all__ = ["DCGAN", "DCGANConfig", "entry"]
