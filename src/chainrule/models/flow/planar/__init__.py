"""Planar and radial flows."""

from chainrule.models.flow.flow_model import started
from chainrule.models.flow.planar.model import PlanarConfig, build, warned
from chainrule.models.flow.stacks import TRAINING
from chainrule.models.protocol import Entry

entry = Entry(
    name="planar",
    summary="Planar and radial flows: many small bends of space, cheap to draw from and to judge their own draws.",
    config=PlanarConfig,
    build=build,
    kinds=("table", "points", "image"),
    targets=("none", "class", "labels", "value"),
    data="moons",
    measured=warned,
    started=started,
    toy={"layers": 4},
    toy_data="moons",
    citation="Rezende and Mohamed, Variational inference with normalizing flows, ICML 2015",
    training=TRAINING,
)

__all__ = ["PlanarConfig", "entry"]
