"""Kernel principal component analysis."""

from chainrule.models.kernel.kernel_pca.building import build
from chainrule.models.kernel.kernel_pca.features import FeaturePCAModel
from chainrule.models.kernel.kernel_pca.model import KernelPCAModel
from chainrule.models.kernel.kernel_pca.settings import KernelPCAConfig, measured
from chainrule.models.protocol import Entry

entry = Entry(
    name="kernel-pca",
    summary="Kernel PCA: the code along curved axes of largest variance, in closed form, with examples of codes.",
    config=KernelPCAConfig,
    build=build,
    kinds=("image", "points", "table"),
    targets=("class", "labels", "value", "none"),
    data="digits",
    measured=measured,
    toy={"latent": 3, "scale": 1.0, "points": 50},
    toy_data="moons",
    citation="Schölkopf, Smola and Müller, Nonlinear component analysis as a kernel eigenvalue problem, Neural "
    "Computation 10, 1998",
    training={"steps": 1},
)

__all__ = ["FeaturePCAModel", "KernelPCAConfig", "KernelPCAModel", "entry"]
