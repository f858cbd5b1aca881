"""Residual flow: blocks `x + g(x)` whose networks bring points closer together, so that each has an inverse."""

from chainrule.models.flow.flow_model import started
from chainrule.models.flow.residual_flow.model import ResidualFlowConfig, build
from chainrule.models.protocol import Entry

entry = Entry(
    name="residual-flow",
    summary="Residual flow: blocks x + g(x) with g a contraction, unrestricted in form and invertible by iteration.",
    config=ResidualFlowConfig,
    build=build,
    kinds=("points", "table", "image"),
    targets=("none", "class", "labels", "value"),
    data="moons",
    toy={"blocks": 2, "width": 8, "depth": 1},
    toy_data="moons",
    citation="Chen, Behrmann, Duvenaud and Jacobsen, Residual flows for invertible generative modeling, NeurIPS 2019",
    started=started,
    training={
        "batch": 256,
        "steps": 2000,
        "optimizer": {"name": "adamw", "lr": 2e-3, "decay": 0.0, "clip": 1.0},
        "schedule": {"name": "cosine", "warmup": 100},
    },
)

__all__ = ["ResidualFlowConfig", "build", "entry"]
