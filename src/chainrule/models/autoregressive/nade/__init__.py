"""NADE."""

from chainrule.models.autoregressive.nade.model import NADEConfig, SharedHidden, build
from chainrule.models.protocol import Entry

entry = Entry(
    name="nade",
    summary="Neural autoregressive distribution estimator: binary vectors with exact likelihood.",
    config=NADEConfig,
    build=build,
    kinds=("image", "table", "points"),
    targets=("none", "class", "value"),
    data="binary-digits",
    toy={"width": 8},
    toy_data="binary-digits",
    citation="Larochelle and Murray, The neural autoregressive distribution estimator, AISTATS 2011",
    training={
        "batch": 64,
        "epochs": 60,
        "optimizer": {"name": "adamw", "lr": 2e-3, "decay": 0.01},
        "schedule": {"name": "cosine"},
    },
)

__all__ = ["NADEConfig", "SharedHidden", "entry"]
