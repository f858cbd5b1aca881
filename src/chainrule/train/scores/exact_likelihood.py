"""Exact likelihood: nats per example and bits per dimension of the original data."""

import math

import numpy as np

from chainrule.data.dataset import Data
from chainrule.models.protocol import HasLogProb
from chainrule.train.evaluation import over
from chainrule.train.scores import documents, text
from chainrule.train.scoring import Evaluation, Metric, Score


def likelihood(log_prob: np.ndarray, data: Data) -> dict[str, Metric]:
    """Mean negative log-likelihood in nats per example of the original data, and in bits per dimension."""
    log_prob = log_prob.astype(np.float64)
    bits = data.bits_per_dim(log_prob)
    nats = bits * data.schema.dimensions * math.log(2.0)
    root_n = math.sqrt(len(log_prob))
    return {
        "nll": Metric(float(nats.mean()), "nats", float(nats.std() / root_n)),
        "bits_per_dim": Metric(float(bits.mean()), "bits/dim", float(bits.std() / root_n)),
    }


def by_token(evaluation: Evaluation) -> bool:
    """Whether the likelihood is that of a text, told token by token."""
    return text.score.applies(evaluation) or documents.score.applies(evaluation)


def _applies(evaluation: Evaluation) -> bool:
    return isinstance(evaluation.model, HasLogProb) and not by_token(evaluation)


def _measure(evaluation: Evaluation) -> dict[str, Metric]:
    exact = over(
        "likelihood",
        lambda model, batch, key: model.log_prob(batch.x),
        evaluation.model,
        evaluation.split,
        evaluation.key,
    )
    return likelihood(exact, evaluation.data)


score = Score("The likelihood of the examples.", _applies, _measure, order=20)

__all__ = ["by_token", "likelihood", "score"]
