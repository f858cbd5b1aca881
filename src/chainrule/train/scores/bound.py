"""Bound of the likelihood, and what it is made of."""

from chainrule.core.types import Key
from chainrule.data.dataset import Data
from chainrule.data.splits import Split
from chainrule.models.protocol import HasBound, HasBoundParts, HasLogProb
from chainrule.train.evaluation import over
from chainrule.train.scores.exact_likelihood import by_token, likelihood
from chainrule.train.scoring import Evaluation, Metric, Score, mean


def bound(model: HasBound, split: Split, key: Key, data: Data) -> dict[str, Metric]:
    """The bound of the likelihood as in `likelihood`, and what it is made of where the model says so."""
    parts: dict[str, Metric] = {}
    if isinstance(model, HasBoundParts):
        found = over("bound", lambda model, batch, key: model.bound(batch, key), model, split, key)
        parts = {name: mean(scored.values, scored.unit) for name, scored in found.parts.items()}
        elbo = found.elbo
    else:
        elbo = over("bound", lambda model, batch, key: model.elbo(batch.x, key), model, split, key)
    return {f"{name}_bound": value for name, value in likelihood(elbo, data).items()} | parts


def _applies(evaluation: Evaluation) -> bool:
    known = isinstance(evaluation.model, HasLogProb) or by_token(evaluation)
    return isinstance(evaluation.model, HasBound) and not known


def _measure(evaluation: Evaluation) -> dict[str, Metric]:
    assert isinstance(evaluation.model, HasBound), "ask what applies first"
    return bound(evaluation.model, evaluation.split, evaluation.key, evaluation.data)


score = Score("A bound of the likelihood.", _applies, _measure, order=20, costly=lambda evaluation: True)

__all__ = ["bound", "score"]
