"""Translation: nats per target token, how often a target is exactly right, and how near it is (BLEU, chrF)."""

import math

import numpy as np

from chainrule.core.types import Key
from chainrule.data.schema import Schema
from chainrule.data.splits import Split
from chainrule.data.text.pairs import target_text
from chainrule.models.protocol import CanTranslate
from chainrule.train import translation_quality as quality
from chainrule.train.evaluation import over
from chainrule.train.scoring import Evaluation, Metric, Score


def translation(model: CanTranslate, split: Split, key: Key, *, schema: Schema) -> dict[str, Metric]:
    """Nats per target token, over all tokens with the end mark of each, and how good the likeliest targets are.

    BLEU is left out where no target has four words: digits to reverse are one.
    """
    end = len(schema.target_tokens)
    nats = -over(
        "translations", lambda model, batch, key: model.log_prob_given(batch.y, batch.x), model, split, key
    )
    nats, y = nats.astype(np.float64), np.asarray(split.y)
    tokens = (y != end).sum(axis=1) + 1  # whatever follows the end mark repeats it
    mean = nats.sum() / tokens.sum()
    spread = (
        np.sqrt(np.square(nats - mean * tokens).mean() / len(nats)) / tokens.mean()
    )  # of a ratio of means
    written = over(
        "translations", lambda model, batch, key: model.translate(batch.x), model, split, key
    ).astype(int)
    exact = (written == y).all(axis=1).mean()
    each = Metric(float(mean), "nats/token", float(spread))
    return {
        "loss": each,
        "nats_per_token": each,
        "perplexity": Metric(math.exp(mean), stderr=float(spread) * math.exp(mean)),
        "exact_match": Metric(float(exact), stderr=math.sqrt(exact * (1 - exact) / len(nats))),
        **_quality(written, y, schema),
    }


def _quality(written: np.ndarray, y: np.ndarray, schema: Schema) -> dict[str, Metric]:
    ours, theirs = ([target_text(schema, row) for row in rows] for rows in (written, y))
    found = {
        "bleu": quality.with_error(quality.bleu_statistics(ours, theirs), quality.bleu),
        "chrf": quality.with_error(quality.chrf_statistics(ours, theirs), quality.chrf),
    }
    return {
        name: Metric(value, "of 100", error)
        for name, (value, error) in found.items()
        if not math.isnan(value)
    }


def _measure(evaluation: Evaluation) -> dict[str, Metric]:
    assert isinstance(evaluation.model, CanTranslate), "ask what applies first"
    return translation(evaluation.model, evaluation.split, evaluation.key, schema=evaluation.data.schema)


score = Score(
    "How well the target text is predicted, how often it is exactly right, and how near it is.",
    lambda evaluation: isinstance(evaluation.model, CanTranslate),
    _measure,
    order=30,
)

__all__ = ["score", "translation"]
