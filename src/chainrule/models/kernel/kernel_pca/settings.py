"""Settings of kernel PCA, and what training examples say about them."""

from collections.abc import Mapping
from typing import Any, Literal, final

from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.data.dataset import Data
from chainrule.kernels import Kernel
from chainrule.models.kernel.approximating import (
    ApproximateConfig,
    check_kernel,
    feature_count,
    kernel_of,
    needs_scale,
    period_of,
)
from chainrule.models.kernel.composition import axes
from chainrule.models.kernel.settings import (
    counted,
    kept,
    median_distance,
    refuse_unread,
    refuse_weights,
)

MOST = 2000
"""Training examples that are kept unless told otherwise."""


@final
class KernelPCAConfig(ApproximateConfig):
    """Settings of kernel PCA."""

    latent: int = Field(16, ge=1, description="axes that are kept, fewer than kept examples")
    decoder: Literal["ridge", "gradient"] = Field(
        "ridge",
        description="examples of codes: by a regression from codes to training examples, or by descent to the example "
        "whose features come closest",
    )
    decoding_steps: int = Field(100, ge=1, le=100_000, description="decoder=gradient: steps of descent")


def kernel_from(config: KernelPCAConfig) -> Kernel:
    """The kernel that settings describe."""
    return kernel_of(config)


def measured(config: KernelPCAConfig, data: Data) -> Mapping[str, Any]:
    """The scale and the number of kept examples; more axes than these have are refused."""
    refuse_weights("kernel-pca", data)
    check_kernel(config)
    refuse_unread(
        config, "decoding_steps", config.decoder == "gradient", f"decoder={config.decoder} has no descent"
    )
    points, features = kept(config.points, data, MOST), feature_count(config, data)
    # Features less their mean have no more axes than examples, and those of inner products few of their own.
    size = data.schema.dimensions
    seen = counted(data) if features else points
    most = int(min(seen - 1, axes(config.kernel, size, config.degree), *features.values()))
    if config.latent > most:
        raise ArgumentError(
            f"latent={config.latent}: the features of {seen} examples vary along {most} axes",
            remedy=f"use latent={most} or less" if most else "use more training examples",
        )
    found = {**features, "points": points, **period_of(config, data)}
    if needs_scale(config):
        return {**found, "scale": float(f"{median_distance(data):.6g}")}
    return found


__all__ = ["MOST", "KernelPCAConfig", "kernel_from", "measured"]
