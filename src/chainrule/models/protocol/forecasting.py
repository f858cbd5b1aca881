"""Forecasts of series."""

import abc
from collections.abc import Sequence

import numpy as np

from chainrule.core.types import Array, Float, Key
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


__all__ = ["CanForecast"]
