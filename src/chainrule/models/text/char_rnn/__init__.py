"""Recurrent network over tokens."""

from chainrule.models.protocol import Entry
from chainrule.models.text.char_rnn.model import CharRNN, CharRNNConfig

entry = Entry(
    name="char-rnn",
    summary="Recurrent network that writes on, token by token, with a memory of fixed size.",
    config=CharRNNConfig,
    build=CharRNN,
    kinds=("text",),
    targets=("none",),
    data="shakespeare",
    toy={"embedding": 8, "width": 12, "cell": "lstm", "depth": 2},
    toy_data="shakespeare",
    citation="Karpathy, The unreasonable effectiveness of recurrent neural networks, 2015",
    training={
        "batch": 128,
        "steps": 2000,
        "optimizer": {"name": "adam", "lr": 1e-3, "clip": 1.0},
        "schedule": {"name": "constant"},
        "eval_examples": 512,
    },
)

__all__ = ["CharRNN", "CharRNNConfig", "entry"]
