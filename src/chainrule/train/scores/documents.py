"""Likelihood of documents that share windows: the numbers of a text, document by document."""

from chainrule.data.text.packing import Packed
from chainrule.models.protocol import CanPack
from chainrule.train import surprisal
from chainrule.train.scores.text import text
from chainrule.train.scoring import Evaluation, Metric, Score


def _applies(evaluation: Evaluation) -> bool:
    return isinstance(evaluation.model, CanPack) and isinstance(evaluation.split, Packed)


def _measure(evaluation: Evaluation) -> dict[str, Metric]:
    model, split, schema = evaluation.model, evaluation.split, evaluation.data.schema
    assert isinstance(model, CanPack), "ask what applies first"
    assert isinstance(split, Packed), "ask what applies first"
    judged = surprisal.documents(model, split, len(schema.tokens), evaluation.stride)
    return text(judged, split, schema)


score = Score("How well every document is predicted.", _applies, _measure, order=20, strided=True)

__all__ = ["score"]
