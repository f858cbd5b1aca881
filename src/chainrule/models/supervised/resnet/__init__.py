"""Residual networks."""

from chainrule.models.protocol import Entry
from chainrule.models.supervised.recipes import FINETUNE, PHOTOS
from chainrule.models.supervised.resnet.model import ResNet, ResNetConfig
from chainrule.models.supervised.resnet.weights import published, torch_names, transformers_names

entry = Entry(
    name="resnet",
    summary="Residual network: 8 to 110 layers for small images, 18 to 152 for large ones.",
    config=ResNetConfig,
    build=ResNet,
    kinds=("image",),
    targets=("class", "labels", "value", "votes"),
    data="digits",
    toy={"depth": 8, "width": 4},
    toy_data="digits",
    citation="He, Zhang, Ren and Sun, Deep residual learning for image recognition, CVPR 2016",
    training={
        "batch": 64,
        "epochs": 15,
        "optimizer": {"name": "adamw", "lr": 3e-3, "decay": 0.05},
        "schedule": {"name": "1cycle"},
    },
    recipes={"finetune": FINETUNE, "photos": PHOTOS},
    torch_names=torch_names,
    layouts={"transformers": transformers_names},
    published=published,
)

__all__ = ["ResNet", "ResNetConfig", "entry"]
