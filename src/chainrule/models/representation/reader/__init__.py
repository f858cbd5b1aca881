"""Transformer for classification and regression, fresh or pretrained."""

from chainrule.models.protocol import Entry
from chainrule.models.representation.reader.model import Reader, ReaderConfig, adopts

entry = Entry(
    name="reader",
    summary="Reads a text, or an image patch by patch, with a new transformer or a trained one, and answers.",
    config=ReaderConfig,
    build=Reader,
    kinds=("text", "image"),
    targets=("class", "labels", "value"),
    data="plays",
    toy={"body": {"name": "bert", "layers": 1, "heads": 2, "width": 16}},
    toy_data="digits",
    citation="Lu et al., Pretrained transformers as universal computation engines, AAAI 2022",
    training={
        "batch": 32,
        "epochs": 10,
        "optimizer": {"name": "adamw", "lr": 1e-3, "betas": (0.9, 0.99), "decay": 0.1, "clip": 1.0},
        "schedule": {"name": "cosine", "warmup": 50},
    },
    adopts=adopts,
)

__all__ = ["Reader", "ReaderConfig", "entry"]
