"""Settings of machines that stand on features in place of a kernel: which features, and how many.

A machine on a kernel keeps training examples, and its time grows with their cube. On features whose inner products come
close to the kernel it learns from every example, in time that grows with their number, and keeps as many numbers as
there are features.
"""

import abc
from typing import Annotated, Literal

from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.data.dataset import Data
from chainrule.kernels.approximation import Approximate
from chainrule.models.kernel.settings import (
    WITHOUT_SCALE,
    Degree,
    Kept,
    KernelName,
    Scale,
    counted,
    kept,
    refuse_unread,
)
from chainrule.models.protocol import Config

USUAL = 1024
"""Features unless told otherwise."""

Approximation = Annotated[
    Approximate,
    Field(
        description="features in place of the kernel, which learn from every training example: rff, random Fourier "
        "features; nystrom, kernels with landmarks among the examples; none: the kernel itself, of examples that are "
        "kept"
    ),
]
FeatureCount = Annotated[
    Annotated[int, Field(ge=2, le=20_000)] | Literal["auto"],
    Field(
        description=f"approximate: how many features; auto: {USUAL}, or as many as there are training examples"
    ),
]


class ApproximateConfig(Config, abc.ABC):
    """Settings of a machine that stands on a kernel of examples that are kept, or on features."""

    kernel: KernelName = "rbf"
    scale: Scale = "auto"
    degree: Degree = 3
    approximate: Approximation = "none"
    features: FeatureCount = "auto"
    points: Kept = "auto"


def check_kernel(config: ApproximateConfig) -> None:
    """Refuse settings that the kernel does not have."""
    named = f"kernel={config.kernel} has"
    refuse_unread(config, "scale", config.kernel not in WITHOUT_SCALE, f"{named} no scale")
    refuse_unread(config, "degree", config.kernel == "polynomial", f"{named} no degree")


def sized(config: ApproximateConfig, data: Data, most: int) -> dict[str, int]:
    """How many training examples are kept, or how many features there are; settings that contradict are refused."""
    if config.approximate == "none":
        return {**feature_count(config, data), "points": kept(config.points, data, most)}
    if config.points != "auto":
        odd = config.points % 2 if config.approximate == "rff" else max(0, 2 - config.points)
        raise ArgumentError(
            f"points={config.points} approximate={config.approximate}: features learn from every example and keep "
            "none",
            remedy=f"use features={config.points + odd} in place of points",
        )
    return feature_count(config, data)


def feature_count(config: ApproximateConfig, data: Data) -> dict[str, int]:
    """How many features there are, if any; a number that does not suit what they are is refused."""
    if config.approximate == "none":
        if config.features != "auto":
            raise ArgumentError(
                f"features={config.features}: approximate=none takes the kernel itself",
                remedy="use approximate=nystrom or approximate=rff, or leave features out",
            )
        return {}
    there = counted(data)
    if config.approximate == "rff":
        return {"features": _fourier(config, there)}
    wanted = min(USUAL, there) if config.features == "auto" else config.features
    if wanted > there:
        raise ArgumentError(
            f"features={wanted} approximate=nystrom: landmarks are training examples, and {data.name} has {there}",
            remedy=f"use features={there} or less, or approximate=rff",
        )
    return {"features": int(wanted)}


def _fourier(config: ApproximateConfig, there: int) -> int:
    """Two features to a frequency."""
    if config.kernel in WITHOUT_SCALE:
        raise ArgumentError(
            f"approximate=rff: kernel={config.kernel} is no function of distances, so it has no frequencies",
            remedy="use approximate=nystrom",
        )
    wanted = max(2, min(USUAL, there) // 2 * 2) if config.features == "auto" else config.features
    if wanted % 2:
        raise ArgumentError(
            f"features={wanted} approximate=rff: every random frequency has two features",
            remedy=f"use features={wanted + 1}",
        )
    return int(wanted)


__all__ = ["USUAL", "ApproximateConfig", "check_kernel", "feature_count", "sized"]
