"""Fully visible sigmoid belief network."""

from chainrule.models.autoregressive.fvsbn.model import FVSBNConfig, Regressions, build
from chainrule.models.protocol import Entry

entry = Entry(
    name="fvsbn",
    summary="Fully visible sigmoid belief network: binary vectors, one logistic regression per entry.",
    config=FVSBNConfig,
    build=build,
    kinds=("image", "table", "points"),
    targets=("none", "class", "value"),
    data="binary-digits",
    toy={},
    toy_data="binary-digits",
    citation="Neal, Connectionist learning of belief networks, Artificial Intelligence 56, 1992",
    training={
        "batch": 64,
        "epochs": 60,
        "optimizer": {"name": "adam", "lr": 1e-2},
        "schedule": {"name": "cosine"},
    },
)

__all__ = ["FVSBNConfig", "Regressions", "entry"]
