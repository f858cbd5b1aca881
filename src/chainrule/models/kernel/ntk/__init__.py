"""A network of infinite width after training by gradient descent, by its tangent kernel."""

from chainrule.models.kernel.ntk.settings import NTKConfig
from chainrule.models.kernel.wide import measured
from chainrule.models.kernel.wide_targets import build
from chainrule.models.protocol import Entry

entry = Entry(
    name="ntk",
    summary="Infinitely wide network after gradient descent, by its tangent kernel, without training one.",
    config=NTKConfig,
    build=build,
    kinds=("image", "points", "table"),
    targets=("class", "value"),
    data="digits",
    measured=measured,
    toy={"depth": 2, "points": 200},
    toy_data="moons",
    citation="Jacot, Gabriel and Hongler, Neural tangent kernel: convergence and generalization, NeurIPS 2018",
    training={"steps": 1},
)

__all__ = ["NTKConfig", "entry"]
