"""A network of infinite width after training by gradient descent, by its tangent kernel.

What the mean of all trained networks predicts, whatever their initial weights, in closed form.
"""

from collections.abc import Callable
from typing import final

from chainrule.core.types import Key
from chainrule.data import targets
from chainrule.data.schema import Schema
from chainrule.models.kernel.wide import WideConfig
from chainrule.models.kernel.wide_targets import WideClassifier, WideRegressor


@final
class NTKConfig(WideConfig):
    """Settings of the infinite network that gradient descent has trained."""


@final
class NTKClassifier(WideClassifier):
    """Classes."""

    @staticmethod
    def tangent() -> bool:
        """Yes."""
        return True


@final
class NTKRegressor(WideRegressor):
    """Values with intervals."""

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
