"""Regression: root mean squared error, mean absolute error and R², of all outputs together and of each."""

import math
from collections.abc import Sequence

import numpy as np

from chainrule.core.checks import check_same_shape
from chainrule.data import targets
from chainrule.data.scaling import Scaling
from chainrule.train.ranking import correlations
from chainrule.train.scoring import Judged, Metric, of_predictions


def regression(
    predicted: np.ndarray, true: np.ndarray, scaling: Scaling | None = None, names: Sequence[str] = ()
) -> dict[str, Metric]:
    """Root mean squared error and mean absolute error in the units of the data, R², both correlations.

    `names` are those of several outputs: each then has its own under its name.

    >>> found = regression(np.array([[1.0, 5.0], [2.0, 5.0]]), np.array([[1.0, 4.0], [2.0, 6.0]]), names=["a", "b"])
    >>> found["mae"].value, found["mae.a"].value, found["rmse.b"].value
    (0.5, 0.0, 1.0)
    """
    check_same_shape("regression", "predicted", predicted, "true", true)
    if scaling is not None:
        predicted, true = (scaling.inverse(a.astype(np.float64)) for a in (predicted, true))
    found = _together(predicted, true)
    if len(names) > 1:
        flat = predicted.reshape(len(predicted), -1), true.reshape(len(true), -1)
        for index, name in enumerate(names):
            one = _together(*(a[:, index] for a in flat))
            found |= {f"{measure}.{name}": metric for measure, metric in one.items()}
    return found


def _together(predicted: np.ndarray, true: np.ndarray) -> dict[str, Metric]:
    difference = (predicted - true).reshape(len(true), -1)
    squares, absolutes = np.square(difference).mean(axis=1), np.abs(difference).mean(axis=1)
    rmse = math.sqrt(squares.mean())
    spread = np.square(true - true.mean(axis=0)).mean()
    root_n = math.sqrt(len(true))
    single = true.size == len(true)  # of several outputs each has its own
    correlated = correlations(predicted.ravel(), true.ravel()) if single else {}
    return {
        "rmse": Metric(rmse, stderr=float(squares.std() / root_n / (2 * rmse)) if rmse else 0.0),
        "mae": Metric(float(absolutes.mean()), stderr=float(absolutes.std() / root_n)),
        "r2": Metric(float(1 - squares.mean() / spread) if spread else math.nan),
        **{name: Metric(value) for name, value in correlated.items()},
    }


def _judge(judged: Judged) -> dict[str, Metric]:
    names = targets.of(judged.schema).output_names(judged.schema, judged.outputs)
    return regression(judged.predicted, judged.y, judged.target_scaling, names)


score = of_predictions(
    "How far predicted values are from the true ones.", lambda target: target.has_values, _judge
)

__all__ = ["regression", "score"]
