"""MobileNetV2."""

from chainrule.models.protocol import Entry
from chainrule.models.supervised.mobilenet.model import MobileNet, MobileNetConfig, suited
from chainrule.models.supervised.mobilenet.weights import published, timm_names, torch_names
from chainrule.models.supervised.recipes import FINETUNE, PHOTOS

entry = Entry(
    name="mobilenet",
    summary="MobileNetV2: depthwise-separable convolutions for small machines, in any width.",
    config=MobileNetConfig,
    build=MobileNet,
    kinds=("image",),
    targets=("class", "labels", "value", "votes"),
    data="digits",
    toy={"depths": (1, 1), "widths": (8, 8), "stem": 8, "features": 16},
    toy_data="digits",
    citation="Sandler et al., MobileNetV2: inverted residuals and linear bottlenecks, CVPR 2018",
    training={
        "batch": 64,
        "epochs": 15,
        "optimizer": {"name": "adamw", "lr": 3e-3, "decay": 0.05},
        "schedule": {"name": "1cycle"},
    },
    suited=suited,
    recipes={"finetune": FINETUNE, "photos": PHOTOS},
    torch_names=torch_names,
    layouts={"timm": timm_names},
    published=published,
)

__all__ = ["MobileNet", "MobileNetConfig", "entry"]
