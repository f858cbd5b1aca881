"""Forecasts of series, and densities of their steps."""

import abc
from collections.abc import Sequence

import numpy as np

from chainrule.core.types import Array, Float, Key
from chainrule.models.protocol.likelihood import HasLogProb
from chainrule.models.protocol.model import Model


class CanForecast(Model):
    """Knows the distribution of what follows a series."""

    @property
    def history_needed(self) -> int:
        """Default: one value is enough to go on from."""
        return 1

    @abc.abstractmethod
    def forecast_quantiles(
        self, key: Key, history: Float[Array, "batch past features"], steps: int, levels: Sequence[float]
    ) -> Float[np.ndarray, "levels batch steps features"]:
        """Quantiles of each of the next values given a history, in model units; `levels` are their probabilities."""


class HasStepDensity(HasLogProb):
    """Knows the density of every step of a series given the steps before it."""

    @abc.abstractmethod
    def anomaly(self, x: Float[Array, "batch time features"]) -> Float[Array, "batch scored"]:
        """How unexpected each step is: minus its log-density given those before it, in nats of model units.

        Steps that a model does not score, because they are given, come first and are left out.
        """


__all__ = ["CanForecast", "HasStepDensity"]
