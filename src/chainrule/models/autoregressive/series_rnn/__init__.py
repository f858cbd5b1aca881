"""Recurrent network over series of numbers."""

from chainrule.models.autoregressive.series_rnn.model import SeriesRNN, SeriesRNNConfig
from chainrule.models.protocol import Entry

entry = Entry(
    name="series-rnn",
    summary="Recurrent network for series of numbers: densities, possible futures, and what was unexpected.",
    config=SeriesRNNConfig,
    build=SeriesRNN,
    kinds=("sequence",),
    targets=("none", "class", "value"),
    data="cycles",
    toy={"width": 6, "cell": "gru"},
    toy_data="cycles",
    citation="Graves, Generating sequences with recurrent neural networks, 2013",
    training={
        "batch": 64,
        "steps": 1000,
        "optimizer": {"name": "adam", "lr": 3e-3, "clip": 1.0},
        "schedule": {"name": "cosine"},
    },
)

__all__ = ["SeriesRNN", "SeriesRNNConfig", "entry"]
