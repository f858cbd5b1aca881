"""Inverse autoregressive flow."""

from chainrule.models.flow.flow_model import started
from chainrule.models.flow.iaf.model import IAFConfig, build, warned
from chainrule.models.flow.stacks import TRAINING, narrow
from chainrule.models.protocol import Entry

entry = Entry(
    name="iaf",
    summary="Inverse autoregressive flow: draws and their densities in one pass, densities of data entry after entry.",
    config=IAFConfig,
    build=build,
    kinds=("table", "points", "image"),
    targets=("none", "class", "labels", "value"),
    data="moons",
    suited=narrow,
    measured=warned,
    started=started,
    toy={"layers": 2, "width": 16, "blocks": 1},
    toy_data="moons",
    citation="Kingma, Salimans, Jozefowicz, Chen, Sutskever and Welling, Improving variational inference with inverse "
    "autoregressive flow, NeurIPS 2016",
    training=TRAINING,
)

__all__ = ["IAFConfig", "entry"]
