"""Which class kernel PCA is, by its settings."""

from chainrule.core.types import Key
from chainrule.data.schema import Schema
from chainrule.models.kernel.kernel_pca.features import FeaturePCAModel
from chainrule.models.kernel.kernel_pca.model import KernelPCAModel
from chainrule.models.kernel.kernel_pca.settings import KernelPCAConfig


def build(config: KernelPCAConfig, schema: Schema, key: Key) -> KernelPCAModel | FeaturePCAModel:
    """By the kernel itself, or by features in place of it."""
    if config.approximate == "none":
        return KernelPCAModel(config, schema, key)
    return FeaturePCAModel(config, schema, key)


__all__ = ["build"]
