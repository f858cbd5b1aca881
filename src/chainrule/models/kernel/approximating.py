"""Settings of machines that stand on features in place of a kernel: which features, and how many.

A machine on a kernel keeps training examples, and its time grows with their cube. On features whose inner products come
close to the kernel it learns from every example, in time that grows with their number, and keeps as many numbers as
there are features.
"""

import abc
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.data.dataset import Data
from chainrule.kernels import Kernel
from chainrule.kernels.approximation import Approximate
from chainrule.models.kernel import composition
from chainrule.models.kernel.composition import KernelName
from chainrule.models.kernel.periods import usual_period
from chainrule.models.kernel.settings import (
    Degree,
    Kept,
    Order,
    Period,
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
    period: Period = "auto"
    order: Order = 1
    approximate: Approximation = "none"
    features: FeatureCount = "auto"
    points: Kept = "auto"


def check_kernel(config: ApproximateConfig) -> None:
    """Refuse settings that the kernel does not have."""
    named, parts = f"kernel={config.kernel} has", composition.names(config.kernel)
    refuse_unread(config, "scale", composition.has_scale(config.kernel), f"{named} no scale")
    refuse_unread(config, "degree", "polynomial" in parts, f"{named} no degree")
    refuse_unread(config, "period", "periodic" in parts, f"{named} no period")
    refuse_unread(config, "order", "arc-cosine" in parts, f"{named} no order")


def kernel_of(
    config: ApproximateConfig,
    scale: Any = None,
    weighted: Callable[[Kernel], Kernel] = lambda kernel: kernel,
) -> Kernel:
    """The kernel that settings describe, with another scale where one is given."""
    return composition.kernel_of(
        config.kernel,
        (1.0 if config.scale == "auto" else config.scale) if scale is None else scale,
        config.degree,
        1.0 if config.period == "auto" else config.period,
        config.order,
        weighted,
    )


def needs_scale(config: ApproximateConfig) -> bool:
    """Whether training examples are to say the scale."""
    return config.scale == "auto" and composition.has_scale(config.kernel)


def period_of(config: ApproximateConfig, data: Data) -> dict[str, float]:
    """The period, where training examples are to say it."""
    if config.period != "auto" or "periodic" not in composition.names(config.kernel):
        return {}
    return {"period": float(f"{usual_period(data):.6g}")}


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
    if not composition.has_frequencies(config.kernel):
        raise ArgumentError(
            f"approximate=rff: kernel={config.kernel} is no product of kernels of distances, so it has no frequencies",
            remedy="use approximate=nystrom",
        )
    wanted = max(2, min(USUAL, there) // 2 * 2) if config.features == "auto" else config.features
    if wanted % 2:
        raise ArgumentError(
            f"features={wanted} approximate=rff: every random frequency has two features",
            remedy=f"use features={wanted + 1}",
        )
    return int(wanted)


__all__ = [
    "USUAL",
    "ApproximateConfig",
    "check_kernel",
    "feature_count",
    "kernel_of",
    "needs_scale",
    "period_of",
    "sized",
]
