"""The Gaussian process that a random network of infinite width is: Bayesian inference with a network.

Its kernel is the covariance of outputs over random weights. The posterior mean predicts.
"""

from collections.abc import Callable
from typing import final

from chainrule.core.types import Key
from chainrule.data import targets
from chainrule.data.schema import Schema
from chainrule.models.kernel.wide import WideConfig
from chainrule.models.kernel.wide_targets import WideClassifier, WideRegressor


@final
class NNGPConfig(WideConfig):
    """Settings of the Gaussian process of infinite networks."""


@final
class NNGPClassifier(WideClassifier):
    """Classes."""

    @staticmethod
    def tangent() -> bool:
        """No."""
        return False


@final
class NNGPRegressor(WideRegressor):
    """Values with intervals."""

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
