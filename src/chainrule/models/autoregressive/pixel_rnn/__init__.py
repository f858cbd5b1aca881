"""PixelRNN: images pixel by pixel, with LSTMs over rows and diagonals."""

from chainrule.models.autoregressive.pixel_rnn.model import PixelRNNConfig, build, suited
from chainrule.models.protocol import Entry

entry = Entry(
    name="pixel-rnn",
    summary="PixelRNN: exact likelihood of images by LSTMs along diagonals or rows, pixel after pixel.",
    config=PixelRNNConfig,
    build=build,
    kinds=("image",),
    targets=("none", "class", "value"),
    data="binary-digits",
    toy={"width": 4, "depth": 1, "first_kernel": 3},
    toy_data="binary-digits",
    citation="van den Oord, Kalchbrenner and Kavukcuoglu, Pixel recurrent neural networks, ICML 2016",
    suited=suited,
    training={
        "batch": 64,
        "epochs": 30,
        "optimizer": {"name": "adamw", "lr": 2e-3, "decay": 0.01, "clip": 1.0},
        "schedule": {"name": "cosine", "warmup": 50},
    },
)

__all__ = ["PixelRNNConfig", "entry"]
