"""One-stage detector."""

from chainrule.models.protocol import Entry
from chainrule.models.vision.detector.model import Detector, DetectorConfig

entry = Entry(
    name="detector",
    summary="One-stage detector: boxes and classes of the objects in an image, from every cell of a few maps at once.",
    config=DetectorConfig,
    build=Detector,
    kinds=("image",),
    targets=("boxes",),
    data="shapes",
    toy={"width": 2, "levels": 2, "blocks": 0, "channels": 4, "depth": 1, "most": 5},
    toy_data="shapes",
    citation="Tian et al., FCOS: Fully convolutional one-stage object detection, ICCV 2019; "
    "Redmon et al., You only look once, CVPR 2016",
    training={
        "batch": 16,
        "epochs": 25,
        "optimizer": {"name": "adamw", "lr": 2e-3, "decay": 0.05, "clip": 5.0},
        "schedule": {"name": "cosine", "warmup": 100},
        "augment": {"flip": True, "resized_crop": 0.5, "colour": 0.2},
        "best": "map50",
    },
)

__all__ = ["Detector", "DetectorConfig", "entry"]
