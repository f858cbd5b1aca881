"""Kernel ridge regression."""

from chainrule.models.kernel.kernel_ridge.model import FourierRidgeModel, KernelRidgeModel, build
from chainrule.models.kernel.kernel_ridge.settings import KernelRidgeConfig, measured
from chainrule.models.protocol import Entry

entry = Entry(
    name="kernel-ridge",
    summary="Kernel ridge regression: the smoothest function near the targets, in closed form.",
    config=KernelRidgeConfig,
    build=build,
    kinds=("image", "points", "table"),
    targets=("class", "value"),
    data="digits",
    measured=measured,
    toy={"scale": 1.0, "ridge": 0.1},
    toy_data="moons",
    citation="Saunders, Gammerman and Vovk, Ridge regression learning algorithm in dual variables, ICML 1998",
    training={"steps": 1},
)

__all__ = ["FourierRidgeModel", "KernelRidgeConfig", "KernelRidgeModel", "entry"]
