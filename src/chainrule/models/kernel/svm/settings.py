"""Settings of the support vector machine, and what training examples say about them."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, final

import numpy as np
from pydantic import Field

from chainrule.core.errors import ArgumentError, DataError
from chainrule.data import targets
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.kernels import Kernel
from chainrule.kernels.support_vectors.classification import check_nu
from chainrule.kernels.support_vectors.inputs import usual_gamma
from chainrule.models.kernel.approximating import (
    ApproximateConfig,
    check_kernel,
    kernel_of,
    needs_scale,
    period_of,
    sized,
)
from chainrule.models.kernel.settings import refuse_unread, rows

MOST = 20_000
"""Training examples that are kept unless told otherwise."""
OUTSIDE = 0.1
"""Share of examples outside of the region, where examples have no target and nothing is said."""


@final
class SVMConfig(ApproximateConfig):
    """Settings of the support vector machine."""

    scale: Annotated[float, Field(gt=0)] | Literal["auto"] = Field(
        "auto",
        description="length over which the kernel falls, in model units; auto: sqrt(D var / 2) for D entries of this "
        "variance, which is gamma = 1 / (D var)",
    )
    C: float = Field(
        1.0,
        gt=0,
        description="price of a unit on the wrong side of the margin, or outside of the tube around values",
    )
    nu: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None,
        description="classes: in place of C, the largest share of examples inside of the margin; without targets: the "
        f"largest share outside of the region, {OUTSIDE} unless given",
    )
    epsilon: float = Field(
        0.1,
        ge=0,
        description="values: errors up to this cost nothing, in standard deviations of the values",
    )
    class_weights: Literal["equal", "balanced"] = Field(
        "equal", description="factors of C for classes; balanced: by the inverse of their counts"
    )
    probability: bool = Field(
        True,
        description="classes: fit probabilities to decision values of examples left out, which takes five more fits; "
        "without, the sigmoid of the decision values, which is not calibrated",
    )
    tolerance: float = Field(
        1e-3, gt=0, lt=1, description="duality gap at which training ends, as a share of the objective"
    )


def kernel_from(config: SVMConfig) -> Kernel:
    """The kernel that settings describe."""
    return kernel_of(config)


def measured(config: SVMConfig, data: Data) -> Mapping[str, Any]:
    """The scale and the number of kept examples; what cannot be learnt from these examples is refused."""
    target = targets.of(data.schema)
    check_kernel(config)
    _check_settings(config, data.schema)
    if target.one_class:
        _check_classes(config, data)
    found: dict[str, Any] = {**sized(config, data, MOST), **period_of(config, data)}
    if needs_scale(config):
        gamma = usual_gamma("svm", rows(data.train.x))
        found["scale"] = float(f"{math.sqrt(1 / (2 * gamma)):.6g}")
    return found


def _check_settings(config: SVMConfig, schema: Schema) -> None:
    target = targets.of(schema)
    if config.class_weights != "equal" and not target.one_class:
        raise ArgumentError(
            f"class_weights={config.class_weights}: these data have no classes",
            remedy="leave class_weights out",
        )
    refuse_unread(
        config, "epsilon", target.has_values, "a tube is put around values, and these data have none"
    )
    refuse_unread(
        config, "C", target.one_class or target.has_values, "nu decides how many examples are outside"
    )
    if config.nu is None:
        return
    if target.has_values:
        raise ArgumentError(
            f"nu={config.nu}: for values the tube is as wide as epsilon says, and there is no nu",
            remedy="use epsilon=0.1 and C=1",
        )
    if target.one_class and config.C != 1.0:
        raise ArgumentError(
            f"C={config.C} nu={config.nu}: one of the two decides", remedy="leave one of them out"
        )


def _check_classes(config: SVMConfig, data: Data) -> None:
    names, y = data.schema.classes, np.asarray(data.train.y)
    counts = np.bincount(y, minlength=len(names))
    least = 2 if config.probability else 1
    if len(names) < 2 or counts.min() < least:
        few = names[int(counts.argmin())] if len(names) > 1 else ""
        there = f"{counts.min()} training example{'' if counts.min() == 1 else 's'}"
        what = f"class {few!r} has {there}" if few else "there is one class only"
        raise DataError(
            f"svm: {what}; a border needs {least} of each of two classes or more",
            remedy="leave the class out, or learn the region of all examples: data.target=none"
            + ("\nor do without probabilities: probability=false" if counts.min() == 1 else ""),
        )
    if config.nu is not None:
        weights = 1 / counts[y] if config.class_weights == "balanced" else np.ones(len(y))
        check_nu(config.nu, np.array(names), y, weights)


__all__ = ["MOST", "OUTSIDE", "SVMConfig", "kernel_from", "measured"]
