"""Translation: nats per target token, and how often a target is exactly right."""

import math

import numpy as np

from chainrule.core.types import Key
from chainrule.data.splits import Split
from chainrule.models.protocol import CanTranslate
from chainrule.train.evaluation import over
from chainrule.train.scoring import Evaluation, Metric, Score


def translation(model: CanTranslate, split: Split, key: Key, *, end: int) -> dict[str, Metric]:
    """Nats per target token, over all tokens with the end mark of each, and how often a target is exactly right."""
    nats = -over(
        "translations", lambda model, batch, key: model.log_prob_given(batch.y, batch.x), model, split, key
    )
    nats, y = nats.astype(np.float64), np.asarray(split.y)
    tokens = (y != end).sum(axis=1) + 1  # whatever follows the end mark repeats it
    mean = nats.sum() / tokens.sum()
    spread = (
        np.sqrt(np.square(nats - mean * tokens).mean() / len(nats)) / tokens.mean()
    )  # of a ratio of means
    exact = over(
        "translations",
        lambda model, batch, key: (model.translate(batch.x) == batch.y).all(axis=1),
        model,
        split,
        key,
    ).mean()
    each = Metric(float(mean), "nats/token", float(spread))
    return {
        "loss": each,
        "nats_per_token": each,
        "perplexity": Metric(math.exp(mean), stderr=float(spread) * math.exp(mean)),
        "exact_match": Metric(float(exact), stderr=math.sqrt(exact * (1 - exact) / len(nats))),
    }


def _measure(evaluation: Evaluation) -> dict[str, Metric]:
    assert isinstance(evaluation.model, CanTranslate), "ask what applies first"
    end = len(evaluation.data.schema.target_tokens)
    return translation(evaluation.model, evaluation.split, evaluation.key, end=end)


score = Score(
    "How well the target text is predicted, and how often it is exactly right.",
    lambda evaluation: isinstance(evaluation.model, CanTranslate),
    _measure,
    order=30,
)

__all__ = ["score", "translation"]
