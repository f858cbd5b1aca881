"""U-Net for images with a class for each pixel."""

from chainrule.models.protocol import Entry, Recipe
from chainrule.models.vision.segmenter.model import Segmenter, SegmenterConfig

entry = Entry(
    name="segmenter",
    summary="U-Net: a class for each pixel of an image.",
    config=SegmenterConfig,
    build=Segmenter,
    kinds=("image",),
    targets=("mask",),
    data="shape-masks",
    toy={"width": 4, "depth": 2},
    toy_data="shape-masks",
    citation="Ronneberger, Fischer and Brox, U-Net: Convolutional networks for biomedical image segmentation, 2015",
    training={
        "batch": 8,
        "epochs": 20,
        "optimizer": {"name": "adamw", "lr": 3e-3, "decay": 0.01, "clip": 5.0},
        "schedule": {"name": "cosine", "warmup": 100},
        "augment": {"flip": True, "crop": 8},
    },
    recipes={
        "original": Recipe(
            "the published network: widths 64 to 1024, no padding, no normalisation, weights between objects",
            model={
                "width": 64,
                "depth": 4,
                "edges": "valid",
                "normalization": "none",
                "activation": "relu",
                "objective": "border",
            },
            train={"batch": 1, "optimizer": {"name": "momentum", "lr": 1e-3, "momentum": 0.99}},
        )
    },
    head="network.exit",
)

__all__ = ["Segmenter", "SegmenterConfig", "entry"]
