"""AlexNet."""

from chainrule.models.protocol import Entry
from chainrule.models.supervised.alexnet.model import AlexNet, AlexNetConfig, published, torch_names
from chainrule.models.supervised.recipes import FINETUNE
from chainrule.networks.image_towers import suited_scale

entry = Entry(
    name="alexnet",
    summary="AlexNet, as one stream, as torchvision has it, or as published with two groups.",
    config=AlexNetConfig,
    build=AlexNet,
    kinds=("image",),
    targets=("class", "labels", "value", "votes"),
    data="digits",
    toy={"scale": 1 / 32},
    toy_data="digits",
    citation=(
        "Krizhevsky, Sutskever and Hinton, ImageNet classification with deep convolutional neural networks, "
        "NeurIPS 2012"
    ),
    training={
        "batch": 64,
        "epochs": 10,
        "optimizer": {"name": "adamw", "lr": 3e-4, "decay": 0.01},
        "schedule": {"name": "1cycle"},
    },
    suited=suited_scale,
    recipes={"finetune": FINETUNE},
    torch_names=torch_names,
    published=published,
    head="head.layers.2",
)

__all__ = ["AlexNet", "AlexNetConfig", "entry"]
