"""Perceptron over a window of tokens."""

from chainrule.models.protocol import Entry
from chainrule.models.text.window_mlp.model import WindowMLP, WindowMLPConfig

entry = Entry(
    name="window-mlp",
    summary="Neural n-gram: a perceptron over the embeddings of the last tokens; small, fast, and no recurrence.",
    config=WindowMLPConfig,
    build=WindowMLP,
    kinds=("text",),
    targets=("none",),
    data="shakespeare",
    toy={"context": 3, "embedding": 6, "width": 16, "depth": 1},
    toy_data="shakespeare",
    citation="Bengio et al., A neural probabilistic language model, JMLR 3, 2003",
    training={
        "steps": 2500,
        "batch": 16,
        "optimizer": {"name": "adamw", "lr": 3e-3, "decay": 0.01},
        "schedule": {"name": "cosine", "warmup": 100},
    },
    former_arrays={"symbols": "embedding"},
)

__all__ = ["WindowMLP", "WindowMLPConfig", "entry"]
