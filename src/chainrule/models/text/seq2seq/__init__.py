"""Recurrent encoder and decoder for pairs of texts."""

from chainrule.models.protocol import Entry
from chainrule.models.text.seq2seq.model import Seq2Seq, Seq2SeqConfig

entry = Entry(
    name="seq2seq",
    summary="Two recurrent networks for pairs of texts: one reads the source, one writes the target and looks back.",
    config=Seq2SeqConfig,
    build=Seq2Seq,
    kinds=("text",),
    targets=("text",),
    data="dates",
    toy={"width": 16, "embedding": 8},
    toy_data="copy",
    citation="Bahdanau, Cho and Bengio, Neural machine translation by jointly learning to align and translate, 2015",
    training={
        "batch": 64,
        "optimizer": {"name": "adamw", "lr": 3e-3, "decay": 0.0, "clip": 1.0},
        "schedule": {"name": "cosine", "warmup": 100},
    },
    former_arrays={"aligner.asking": "aligner.query", "aligner.asked": "aligner.key"},
)

__all__ = ["Seq2Seq", "Seq2SeqConfig", "entry"]
