"""VGG."""

from chainrule.models.protocol import Entry
from chainrule.models.supervised.recipes import FINETUNE
from chainrule.models.supervised.vgg.model import VGG, VGGConfig, published, torch_names
from chainrule.networks.image_towers import suited_scale

entry = Entry(
    name="vgg",
    summary="VGG with 11, 13, 16 or 19 layers: 3 x 3 convolutions and pooling, then two wide dense layers.",
    config=VGGConfig,
    build=VGG,
    kinds=("image",),
    targets=("class", "labels", "value", "votes"),
    data="digits",
    toy={"scale": 1 / 64, "depth": 11},
    toy_data="digits",
    citation="Simonyan and Zisserman, Very deep convolutional networks for large-scale image recognition, ICLR 2015",
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

__all__ = ["VGG", "VGGConfig", "entry"]
