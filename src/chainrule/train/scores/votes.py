"""Distributions of votes: errors of the mean grade, and the earth mover's distance of the two distributions."""

import math

import numpy as np

from chainrule.core.checks import check_same_shape
from chainrule.data.schema import Schema
from chainrule.data.targets.votes import grades, mean_grades
from chainrule.train.ranking import correlations
from chainrule.train.scoring import Judged, Metric, mean, of_predictions


def votes(predicted: np.ndarray, true: np.ndarray, schema: Schema) -> dict[str, Metric]:
    """Errors and correlations of mean grades, and the earth mover's distance of distributions over ordered grades.

    The distance is the root of the mean square difference of the two cumulative sums, which counts how far a vote has
    to be moved: two steps of ten for a five in place of a seven.

    >>> ten = Schema("image", (8, 8, 1), target="votes", target_shape=(10,), classes=tuple("123456789") + ("10",))
    >>> round(votes(np.eye(10)[[4]], np.eye(10)[[6]], ten)["earth_mover"].value, 6)
    0.447214
    """
    check_same_shape("votes", "predicted", predicted, "true", true)
    p, y = predicted.astype(np.float64), true.astype(np.float64)
    ours, theirs = mean_grades(schema, p), mean_grades(schema, y)
    squares = np.square(ours - theirs)
    rmse, root_n = math.sqrt(squares.mean()), math.sqrt(len(y))
    distance = np.sqrt(np.square(np.cumsum(p - y, axis=1)).mean(axis=1))
    worth = grades(schema.classes)
    spreads = [
        np.sqrt((q * np.square(worth[None, :] - m[:, None])).sum(axis=1)) for q, m in ((p, ours), (y, theirs))
    ]
    return {
        "rmse": Metric(rmse, "grades", float(squares.std() / root_n / (2 * rmse)) if rmse else 0.0),
        "mae": mean(abs(ours - theirs), "grades"),
        **{name: Metric(value) for name, value in correlations(ours, theirs).items()},
        "earth_mover": mean(distance),
        "spread_mae": mean(abs(spreads[0] - spreads[1]), "grades"),
    }


def _judge(judged: Judged) -> dict[str, Metric]:
    return votes(judged.predicted, np.asarray(judged.y), judged.schema)


score = of_predictions(
    "How near predicted votes are to the true ones, and mean grades to theirs.",
    lambda target: target.has_votes,
    _judge,
)

__all__ = ["score", "votes"]
