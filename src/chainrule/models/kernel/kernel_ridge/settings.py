"""Settings of kernel ridge regression, and the search for those that training examples are to choose."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, final

import numpy as np
from jaxtyping import Float
from pydantic import Field

from chainrule.data import targets
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.kernels import Kernel
from chainrule.kernels.regression import Searched, search_ridge
from chainrule.models.kernel import keeping
from chainrule.models.kernel.approximating import ApproximateConfig, check_kernel, kernel_of, period_of, sized
from chainrule.models.kernel.composition import has_scale
from chainrule.models.kernel.settings import median_distance, rows

MOST = 5000
"""Training examples that are kept unless told otherwise."""
SEARCHED = 1000
"""Training examples on which scales and ridges are compared."""
FACTORS = (0.125, 0.25, 0.35, 0.5, 0.7, 1.0, 2.0)
"""Scales that are tried, in units of the median distance."""
RIDGES = np.logspace(-6, 2, 33)
"""Ridges that are tried: four to a decade. Smaller ones would ask for more digits than single precision has."""


@final
class KernelRidgeConfig(ApproximateConfig):
    """Settings of kernel ridge regression."""

    scale: Annotated[float, Field(gt=0)] | Literal["auto"] = Field(
        "auto",
        description="length over which the kernel falls, in model units; auto: the multiple of the median distance "
        "under which examples are predicted best from the others",
    )
    ridge: Annotated[float, Field(gt=0)] | Literal["auto"] = Field(
        "auto",
        description="price of the squared norm of the function, the variance of noise it expects; auto: the largest "
        "under which examples are predicted from the others within a percent as well as can be",
    )


def kernel_from(config: KernelRidgeConfig) -> Kernel:
    """The kernel that settings describe."""
    return kernel_of(config)


def regressed(schema: Schema, y: Any) -> Float[np.ndarray, "rows outputs"]:
    """What is regressed on: values as they are, a class as ones and zeros."""
    given = np.asarray(y)
    if targets.of(schema).one_class:
        return np.eye(len(schema.classes))[given]
    return given.reshape(len(given), -1).astype(np.float64)


def largest_good(tried: Searched) -> float:
    """The largest ridge whose error is within a percent of the least: errors of small ones are often all the same.

    >>> largest_good(Searched(np.array([0.01, 0.1, 1.0]), np.array([2.0, 2.01, 3.0])))
    0.1
    """
    return float(tried.ridges[tried.errors <= 1.01 * tried.errors.min()].max())


def measured(config: KernelRidgeConfig, data: Data) -> Mapping[str, Any]:
    """How many examples or features there are; where not given, scale and ridge of the least leave-one-out error."""
    check_kernel(config)
    found: dict[str, Any] = {**sized(config, data, MOST), **period_of(config, data)}
    config = config.model_copy(update=found)
    scaled = has_scale(config.kernel)
    free = config.scale == "auto" and scaled
    median = median_distance(data) if config.scale == "auto" else config.scale
    if not free and config.ridge != "auto":
        return found
    some = keeping.spread(len(data.train), SEARCHED)
    batch: Batch = data.train.batch(some)
    x, y = rows(batch.x), regressed(data.schema, batch.y)
    grid = RIDGES if config.ridge == "auto" else np.array([config.ridge])
    best = np.inf
    for factor in FACTORS if free else (1.0,):
        scale = float(f"{factor * median:.6g}")
        tried = search_ridge(kernel_of(config, scale), x, y - y.mean(axis=0), ridges=grid)
        if tried.errors.min() < best:
            best = tried.errors.min()
            found["ridge"] = float(f"{largest_good(tried):.6g}")
            if scaled:
                found["scale"] = scale
    return found


__all__ = ["MOST", "RIDGES", "KernelRidgeConfig", "kernel_from", "measured", "regressed"]
