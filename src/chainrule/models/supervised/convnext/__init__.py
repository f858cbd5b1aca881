"""ConvNeXt."""

from chainrule.models.protocol import Entry
from chainrule.models.supervised.convnext.model import ConvNeXt, ConvNeXtConfig
from chainrule.models.supervised.convnext.weights import (
    published,
    timm_names,
    torch_names,
    transformers_names,
)
from chainrule.models.supervised.recipes import FINETUNE, PHOTOS

entry = Entry(
    name="convnext",
    summary="ConvNeXt: convolutions arranged like a transformer; tiny to large as published, mini by default.",
    config=ConvNeXtConfig,
    build=ConvNeXt,
    kinds=("image",),
    targets=("class", "labels", "value", "votes"),
    data="digits",
    toy={"depths": (1, 1), "widths": (8, 16)},
    toy_data="digits",
    citation="Liu et al., A ConvNet for the 2020s, CVPR 2022",
    training={
        "batch": 64,
        "epochs": 15,
        "optimizer": {"name": "adamw", "lr": 3e-3, "decay": 0.05},
        "schedule": {"name": "1cycle"},
    },
    recipes={"finetune": FINETUNE, "photos": PHOTOS},
    torch_names=torch_names,
    layouts={"timm": timm_names, "transformers": transformers_names},
    published=published,
)

__all__ = ["ConvNeXt", "ConvNeXtConfig", "entry"]
