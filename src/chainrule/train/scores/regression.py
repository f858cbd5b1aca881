"""Regression: root mean squared error, mean absolute error and R²."""

import math

import numpy as np

from chainrule.data import targets
from chainrule.data.dataset import Data
from chainrule.models.protocol import CanPredict
from chainrule.train.scoring import Evaluation, Metric, Score, predictions


def regression(predicted: np.ndarray, targets: np.ndarray, data: Data) -> dict[str, Metric]:
    """Root mean squared error and mean absolute error in the units of the data, and R²."""
    if data.target_scaling is not None:
        predicted, targets = (data.target_scaling.inverse(a.astype(np.float64)) for a in (predicted, targets))
    difference = (predicted - targets).reshape(len(targets), -1)
    squares, absolutes = np.square(difference).mean(axis=1), np.abs(difference).mean(axis=1)
    rmse = math.sqrt(squares.mean())
    spread = np.square(targets - targets.mean(axis=0)).mean()
    root_n = math.sqrt(len(targets))
    return {
        "rmse": Metric(rmse, stderr=float(squares.std() / root_n / (2 * rmse)) if rmse else 0.0),
        "mae": Metric(float(absolutes.mean()), stderr=float(absolutes.std() / root_n)),
        "r2": Metric(float(1 - squares.mean() / spread) if spread else math.nan),
    }


def _applies(evaluation: Evaluation) -> bool:
    return isinstance(evaluation.model, CanPredict) and targets.of(evaluation.data.schema).has_values


score = Score(
    "How far predicted values are from the true ones.",
    _applies,
    lambda evaluation: regression(predictions(evaluation), np.asarray(evaluation.split.y), evaluation.data),
    order=10,
)

__all__ = ["regression", "score"]
