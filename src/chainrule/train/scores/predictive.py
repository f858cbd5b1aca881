"""Predictive distributions of values: the density they give the true ones, and how often their intervals hold them."""

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from chainrule.core.types import Array, Key
from chainrule.data import targets
from chainrule.data.batches import Batch
from chainrule.data.scaling import Scaling
from chainrule.models.protocol import HasPredictiveDistribution
from chainrule.train.evaluation import over
from chainrule.train.intervals import deviations
from chainrule.train.scoring import Evaluation, Metric, Score, mean

LEVEL = 0.9
"""Of the intervals whose coverage is reported."""


class PredictiveJudged(NamedTuple):
    """What a predictive distribution says of a true value, output by output."""

    log_prob: Float[Array, "batch outputs"]
    """In model units."""
    deviation: Float[Array, "batch outputs"]
    """The true value less the mean, in standard deviations."""


def judged(evaluation: Evaluation) -> PredictiveJudged:
    """Every example of the split, in model units."""
    assert isinstance(evaluation.model, HasPredictiveDistribution), "ask what applies first"
    return PredictiveJudged(*over("predictions", _judge, evaluation.model, evaluation.split, evaluation.key))


def _judge(model: HasPredictiveDistribution, batch: Batch, key: Key) -> PredictiveJudged:
    del key
    found, count = model.predictive(batch.x), len(batch.x)
    away = (batch.y - found.mean) / jnp.sqrt(found.variance)
    return PredictiveJudged(found.log_prob(batch.y).reshape(count, -1), away.reshape(count, -1))


def in_data_units(log_prob: Any, scaling: Scaling | None) -> np.ndarray:
    """Log density of each example, all outputs together, in the units of the data."""
    total: np.ndarray = np.asarray(log_prob, np.float64).sum(axis=1)
    return total if scaling is None else total + scaling.log_volume(log_prob.shape[1])


def _measure(evaluation: Evaluation) -> dict[str, Metric]:
    found = judged(evaluation)
    held = np.abs(np.asarray(found.deviation, np.float64)) <= deviations(LEVEL)
    share = float(held.mean())
    density = mean(-in_data_units(found.log_prob, evaluation.data.target_scaling), "nats")
    error = math.sqrt(share * (1 - share) / len(held))
    return {"nlpd": density, f"coverage_{100 * LEVEL:.0f}": Metric(share, stderr=error)}


score = Score(
    "How well predictive distributions of values fit the true ones: negative log density, coverage of intervals.",
    lambda evaluation: (
        isinstance(evaluation.model, HasPredictiveDistribution)
        and targets.of(evaluation.data.schema).has_values
    ),
    _measure,
    order=15,
)

__all__ = ["LEVEL", "PredictiveJudged", "in_data_units", "judged", "score"]
