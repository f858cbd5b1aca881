"""Continuous normalizing flow: examples carried from noise to data by a learned velocity."""

from chainrule.models.flow.cnf.model import ContinuousFlowConfig, build
from chainrule.models.flow.flow_model import started
from chainrule.models.protocol import Entry

entry = Entry(
    name="cnf",
    summary="Continuous normalizing flow: a differential equation from codes to data, with the exact density.",
    config=ContinuousFlowConfig,
    build=build,
    kinds=("points", "table", "image"),
    targets=("none", "class", "labels", "value"),
    data="moons",
    toy={"width": 8, "depth": 1, "ode_steps": 2},
    toy_data="moons",
    citation="Grathwohl, Chen, Bettencourt, Sutskever and Duvenaud, FFJORD, ICLR 2019",
    started=started,
    training={
        "batch": 256,
        "steps": 2000,
        "optimizer": {"name": "adamw", "lr": 1e-3, "decay": 0.0, "clip": 1.0},
        "schedule": {"name": "cosine", "warmup": 100},
    },
)

__all__ = ["ContinuousFlowConfig", "build", "entry"]
