"""Multi-layer perceptron."""

from chainrule.models.protocol import Entry
from chainrule.models.supervised.mlp.model import MLP, MLPConfig

entry = Entry(
    name="mlp",
    summary="Multi-layer perceptron: classification and regression of anything that can be flattened.",
    config=MLPConfig,
    build=MLP,
    kinds=("image", "table", "points", "sequence"),
    targets=("class", "labels", "value"),
    data="digits",
    toy={"width": 16, "depth": 3},
    toy_data="moons",
    citation="Rumelhart, Hinton and Williams, Learning representations by back-propagating errors, Nature 323, 1986",
    training={"batch": 64, "optimizer": {"name": "adamw", "lr": 1e-3, "decay": 0.01}},
)

__all__ = ["MLP", "MLPConfig", "entry"]
