"""The Gaussian process that a random network of infinite width is: Bayesian inference with a network.

Its kernel is the covariance of outputs over random weights. The posterior mean predicts.
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
class NNGPConfig(Config):
    """Settings of the Gaussian process of infinite networks."""

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
    return state.nngp


@final
class NNGPClassifier(WideClassifier):
    """Classes."""

    @staticmethod
    def chosen(state: KernelState) -> Array:
        """The covariance of outputs over random weights."""
        return _kernel(state)

    @staticmethod
    def tangent() -> bool:
        """No."""
        return False


@final
class NNGPRegressor(WideRegressor):
    """Values with intervals."""

    @staticmethod
    def chosen(state: KernelState) -> Array:
        """The covariance of outputs over random weights."""
        return _kernel(state)

    @staticmethod
    def tangent() -> bool:
        """No."""
        return False


def build(config: NNGPConfig, schema: Schema, key: Key) -> NNGPClassifier | NNGPRegressor:
    """The model for the target of the data."""
    classes = targets.of(schema).one_class
    made: Callable[..., NNGPClassifier | NNGPRegressor] = NNGPClassifier if classes else NNGPRegressor
    return made(config, schema, key)


__all__ = ["NNGPClassifier", "NNGPConfig", "NNGPRegressor", "build"]
