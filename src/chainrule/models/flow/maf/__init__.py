"""Masked autoregressive flow."""

from chainrule.models.flow.flow_model import started
from chainrule.models.flow.maf.model import MAFConfig, build
from chainrule.models.flow.stacks import TRAINING, narrow
from chainrule.models.protocol import Entry

entry = Entry(
    name="maf",
    summary="Masked autoregressive flow: exact densities in one pass, draws entry after entry.",
    config=MAFConfig,
    build=build,
    kinds=("table", "points", "image"),
    targets=("none", "class", "labels", "value"),
    data="moons",
    suited=narrow,
    started=started,
    toy={"layers": 2, "width": 16, "blocks": 1},
    toy_data="moons",
    citation="Papamakarios, Pavlakou and Murray, Masked autoregressive flow for density estimation, NeurIPS 2017",
    training=TRAINING,
)

__all__ = ["MAFConfig", "entry"]
