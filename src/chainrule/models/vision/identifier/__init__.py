"""Identifier of faces, or of anything else that is somebody."""

from chainrule.models.protocol import Entry
from chainrule.models.vision.identifier.model import Identifier, IdentifierConfig, suited

entry = Entry(
    name="identifier",
    summary="Identifier: vectors that say whether two images show the same face, animal or thing, also a new one.",
    config=IdentifierConfig,
    build=Identifier,
    kinds=("image",),
    targets=("identity",),
    data="heads",
    toy={
        "width": 4,
        "stages": 2,
        "features": 8,
        "hidden": 8,
        "scale": 2.0,
        "margin": 0.1,
        "pose_weight": 10.0,
    },
    toy_data="heads",
    citation="Deng, Guo, Xue and Zafeiriou, ArcFace: additive angular margin loss for deep face recognition, CVPR "
    "2019, arXiv:1801.07698",
    suited=suited,
    training={
        "batch": 128,
        "epochs": 40,
        "optimizer": {"name": "adamw", "lr": 3e-3, "decay": 0.05, "clip": 5.0},
        "schedule": {"name": "cosine", "warmup": 50},
        "augment": {"flip": False, "crop": 2},
    },
)

__all__ = ["Identifier", "IdentifierConfig", "entry"]
