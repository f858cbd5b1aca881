"""Two-stage detector."""

from chainrule.models.protocol import Entry
from chainrule.models.vision.faster_rcnn.model import FasterRCNN, FasterRCNNConfig

entry = Entry(
    name="faster-rcnn",
    summary="Faster R-CNN: a network proposes regions of an image, a second one says what each of them holds.",
    config=FasterRCNNConfig,
    build=FasterRCNN,
    kinds=("image",),
    targets=("boxes",),
    data="shapes",
    toy={
        "width": 2,
        "levels": 1,
        "blocks": 0,
        "channels": 4,
        "hidden": 8,
        "cells": 2,
        "kept": 8,
        "rpn_samples": 16,
        "roi_samples": 8,
        "most": 5,
    },
    toy_data="shapes",
    citation="Ren et al., Faster R-CNN: Towards real-time object detection with region proposal networks, 2015; "
    "Girshick, Fast R-CNN, ICCV 2015",
    training={
        "batch": 16,
        "epochs": 15,
        "optimizer": {"name": "adamw", "lr": 1e-3, "decay": 0.05, "clip": 5.0},
        "schedule": {"name": "cosine", "warmup": 100},
        "augment": {"flip": True, "resized_crop": 0.5, "colour": 0.2},
        "best": "map50",
    },
    surrogate_gradient="proposals are taken as they are: no gradient goes through where they lie",
)

__all__ = ["FasterRCNN", "FasterRCNNConfig", "entry"]
