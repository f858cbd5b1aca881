"""Detector of spoofs."""

from chainrule.models.protocol import Entry
from chainrule.models.vision.spoof_detector.model import SpoofDetector, SpoofDetectorConfig

entry = Entry(
    name="spoof-detector",
    summary="Spoof detector: splits an image into what is live and what a screen, a press or a frame added to it.",
    config=SpoofDetectorConfig,
    build=SpoofDetector,
    kinds=("image",),
    targets=("class",),
    data="spoofs",
    toy={"width": 4},
    toy_data="spoofs",
    citation="Jourabloo, Liu and Liu, Face de-spoofing: anti-spoofing via noise modeling, ECCV 2018, arXiv:1807.09968",
    training={
        "batch": 32,
        "epochs": 12,
        "optimizer": {"name": "adamw", "lr": 2e-3, "decay": 0.01, "clip": 5.0},
        "schedule": {"name": "cosine", "warmup": 50},
        "augment": {"flip": True},
    },
)

__all__ = ["SpoofDetector", "SpoofDetectorConfig", "entry"]
