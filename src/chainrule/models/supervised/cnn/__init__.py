"""Small convolutional network."""

from chainrule.models.protocol import Entry
from chainrule.models.supervised.cnn.model import CNN, CNNConfig

entry = Entry(
    name="cnn",
    summary="Convolutional network: a small, strong first model for images of 8 to 64 pixels.",
    config=CNNConfig,
    build=CNN,
    kinds=("image",),
    targets=("class", "labels", "value", "votes"),
    data="digits",
    toy={"width": 4, "stages": 2, "blocks": 1},
    toy_data="digits",
    citation="LeCun et al., Gradient-based learning applied to document recognition, Proc. IEEE 86, 1998",
    training={
        "batch": 64,
        "epochs": 15,
        "optimizer": {"name": "adamw", "lr": 2e-3, "decay": 0.05},
        "schedule": {"name": "cosine", "warmup": 100},
    },
)

__all__ = ["CNN", "CNNConfig", "entry"]
