"""A network of infinite width after training by gradient descent, by its tangent kernel.

What the mean of all trained networks predicts, whatever their initial weights, in closed form.
"""

from collections.abc import Callable
from typing import final

from chainrule.core.types import Array, Key
from chainrule.data import targets
from chainrule.data.schema import Schema
from chainrule.kernels.infinite.state import KernelState
from chainrule.models.kernel.settings import Kept
from chainrule.models.kernel.wide import (
    Architecture,
    BiasStd,
    Depth,
    Gather,
    Ridge,
    WeightStd,
    WideActivation,
    WindowSize,
)
from chainrule.models.kernel.wide_targets import WideClassifier, WideRegressor
from chainrule.models.protocol import Config


@final
class NTKConfig(Config):
    """Settings of the infinite network that gradient descent has trained."""

    architecture: Architecture = "dense"
    depth: Depth = 3
    activation: WideActivation = "relu"
    weight_std: WeightStd = 1.4142
    bias_std: BiasStd = 0.1
    window: WindowSize = 3
    gather: Gather = "flatten"
    ridge: Ridge = "auto"
    points: Kept = "auto"


def _kernel(state: KernelState) -> Array:
    assert state.ntk is not None  # it was asked for
    return state.ntk


@final
class NTKClassifier(WideClassifier):
    """Classes."""

    @staticmethod
    def chosen(state: KernelState) -> Array:
        """The tangent kernel."""
        return _kernel(state)

    @staticmethod
    def tangent() -> bool:
        """Yes."""
        return True


@final
class NTKRegressor(WideRegressor):
    """Values with intervals."""

    @staticmethod
    def chosen(state: KernelState) -> Array:
        """The tangent kernel."""
        return _kernel(state)

    @staticmethod
    def tangent() -> bool:
        """Yes."""
        return True


def build(config: NTKConfig, schema: Schema, key: Key) -> NTKClassifier | NTKRegressor:
    """The model for the target of the data."""
    classes = targets.of(schema).one_class
    made: Callable[..., NTKClassifier | NTKRegressor] = NTKClassifier if classes else NTKRegressor
    return made(config, schema, key)


__all__ = ["NTKClassifier", "NTKConfig", "NTKRegressor", "build"]
