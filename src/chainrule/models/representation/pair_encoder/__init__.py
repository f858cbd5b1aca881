"""Pair encoder: images and captions in one space."""

from chainrule.models.protocol import Entry
from chainrule.models.representation.pair_encoder.model import PairEncoder, PairEncoderConfig

entry = Entry(
    name="pair-encoder",
    summary="Pair encoder: puts images and their captions at the same point of one space.",
    config=PairEncoderConfig,
    build=PairEncoder,
    kinds=("image",),
    targets=("text",),
    data="captioned-digits",
    toy={"width": 16, "channels": 4, "features": 8},
    toy_data="captioned-digits",
    citation="Radford et al., Learning transferable visual models from natural language supervision, ICML 2021",
    former_arrays={"places": "positions"},
    training={
        "batch": 256,
        "optimizer": {"name": "adamw", "lr": 1e-3, "decay": 0.1, "clip": 1.0},
        "schedule": {"name": "cosine", "warmup": 50},
    },
)

__all__ = ["PairEncoder", "PairEncoderConfig", "entry"]
