"""Encoder-decoder transformer for pairs of texts."""

from chainrule.models.protocol import Entry
from chainrule.models.text.translator.model import Translator, TranslatorConfig

entry = Entry(
    name="translator",
    summary="Transformer for pairs of texts: reads all of a source, then writes its target while looking back at it.",
    config=TranslatorConfig,
    build=Translator,
    kinds=("text",),
    targets=("text",),
    data="dates",
    toy={"layers": 1, "heads": 2, "width": 16},
    toy_data="copy",
    citation="Vaswani et al., Attention is all you need, NeurIPS 2017",
    training={
        "batch": 64,
        "optimizer": {"name": "adamw", "lr": 1e-3, "betas": (0.9, 0.98), "decay": 0.01, "clip": 1.0},
        "schedule": {"name": "cosine", "warmup": 100},
    },
    former_arrays={"cross.asking": "cross.query"},
)

__all__ = ["Translator", "TranslatorConfig", "entry"]
