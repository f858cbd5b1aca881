"""PixelCNN: images pixel by pixel, every pixel predicted from those above it and to its left."""

from chainrule.models.autoregressive.pixel_cnn.gated import PixelNetwork
from chainrule.models.autoregressive.pixel_cnn.model import PixelCNNConfig, build, suited
from chainrule.models.protocol import Entry

entry = Entry(
    name="pixel-cnn",
    summary="Gated PixelCNN: exact likelihood of images by masked convolutions, pixel after pixel.",
    config=PixelCNNConfig,
    build=build,
    kinds=("image",),
    targets=("none", "class", "value"),
    data="binary-digits",
    toy={"width": 4, "blocks": 1, "first_kernel": 3},
    toy_data="binary-digits",
    citation="van den Oord et al., Conditional image generation with PixelCNN decoders, NeurIPS 2016",
    suited=suited,
    training={
        "batch": 64,
        "epochs": 60,
        "optimizer": {"name": "adamw", "lr": 2e-3, "decay": 0.01, "clip": 1.0},
        "schedule": {"name": "cosine", "warmup": 50},
    },
)

__all__ = ["PixelCNNConfig", "PixelNetwork", "entry"]
