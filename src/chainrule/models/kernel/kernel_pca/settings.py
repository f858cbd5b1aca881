"""Settings of kernel PCA, and what training examples say about them."""

import math
from collections.abc import Mapping
from typing import Any, Literal, final

from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.data.dataset import Data
from chainrule.kernels import Kernel
from chainrule.models.kernel.approximating import ApproximateConfig, check_kernel, feature_count
from chainrule.models.kernel.settings import (
    WITHOUT_SCALE,
    counted,
    kept,
    kernel_of,
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
    return kernel_of(config.kernel, 1.0 if config.scale == "auto" else config.scale, config.degree)


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
    of_kernel = {"linear": size, "polynomial": math.comb(size + config.degree, config.degree) - 1}
    seen = counted(data) if features else points
    axes = min(seen - 1, of_kernel.get(config.kernel, seen), *features.values())
    if config.latent > axes:
        raise ArgumentError(
            f"latent={config.latent}: the features of {seen} examples vary along {axes} axes",
            remedy=f"use latent={axes} or less" if axes else "use more training examples",
        )
    found = {**features, "points": points}
    if config.scale == "auto" and config.kernel not in WITHOUT_SCALE:
        return {**found, "scale": float(f"{median_distance(data):.6g}")}
    return found


__all__ = ["MOST", "KernelPCAConfig", "kernel_from", "measured"]
