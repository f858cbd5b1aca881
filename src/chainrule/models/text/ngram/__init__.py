"""N-gram model."""

from chainrule.models.protocol import Entry
from chainrule.models.text.ngram.model import Ngram, NgramConfig

entry = Entry(
    name="ngram",
    summary="Log-linear n-gram: tables of logits for the last few tokens; the baseline of every model of text.",
    config=NgramConfig,
    build=Ngram,
    kinds=("text",),
    targets=("none",),
    data="shakespeare",
    toy={"order": 3, "contexts": 256},
    toy_data="shakespeare",
    citation="Rosenfeld, A maximum entropy approach to adaptive statistical language modeling, 1996",
    training={
        "steps": 400,
        "batch": 32,
        "optimizer": {"name": "adam", "lr": 0.05},
        "schedule": {"name": "cosine"},
    },
)

__all__ = ["Ngram", "NgramConfig", "entry"]
