"""DeepLab."""

from chainrule.models.protocol import Entry
from chainrule.models.vision.deeplab.model import DeepLab, DeepLabConfig

entry = Entry(
    name="deeplab",
    summary="DeepLab v1 to v3+: a class for each pixel of an image, by atrous convolution.",
    config=DeepLabConfig,
    build=DeepLab,
    kinds=("image",),
    targets=("mask",),
    data="shape-masks",
    toy={"depth": 8, "width": 4, "channels": 4},
    toy_data="shape-masks",
    citation="Chen, Zhu, Papandreou, Schroff and Adam, Encoder-decoder with atrous separable convolution for semantic "
    "image segmentation, ECCV 2018",
    training={
        "batch": 8,
        "epochs": 20,
        "optimizer": {"name": "adamw", "lr": 3e-3, "decay": 0.01, "clip": 5.0},
        "schedule": {"name": "cosine", "warmup": 100},
        "augment": {"flip": True, "crop": 8},
    },
    head="exit",
)

__all__ = ["DeepLab", "DeepLabConfig", "entry"]
