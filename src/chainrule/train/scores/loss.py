"""The mean loss and, where a model is judged by what it has not seen, the overfitting gap.

The gap is the loss on held-out examples minus that on training examples: the same model, the same loss, in inference
mode and without augmentation. What was logged during training is no substitute, because it is a mean over weights that
were still changing, with dropout and augmented examples.
"""

from collections.abc import Mapping

from chainrule.core.formatting import short_number
from chainrule.data import targets
from chainrule.data.splits import Split, Subset
from chainrule.data.text.packing import Packed
from chainrule.data.text.windows import Windows
from chainrule.models.protocol import CanPredict, HasLogProb, HasOutputs, HasSurprisal
from chainrule.train.evaluation import mean_loss
from chainrule.train.scoring import Evaluation, Metric, Score

_SEEN = 2048
"""Training examples, drawn at random, that stand for all."""
_NOTICEABLE = 0.1
"""A gap in nats, or in squared standard deviations of the target, that is worth a word."""
_RATIO = 1.5
"""How many times the training loss the other has to be."""


def _measure(evaluation: Evaluation) -> dict[str, Metric]:
    model, target = evaluation.model, targets.of(evaluation.data.schema)
    unit = model.loss_unit()
    if not unit and isinstance(model, CanPredict) and not isinstance(model, HasOutputs):
        unit = target.loss_unit
    if isinstance(model, HasSurprisal) and isinstance(evaluation.split, Windows | Packed):
        unit = f"nats/token at stride {evaluation.split.length}"
    loss = mean_loss(model, evaluation.split, evaluation.key)[0]["loss"]
    found = {"loss": Metric(loss, unit)}
    train = evaluation.data.train
    if isinstance(model, CanPredict | HasLogProb) and len(train) and not _part_of(evaluation.split, train):
        seen = Subset.drawn(train, min(len(train), len(evaluation.split), _SEEN))
        known = mean_loss(model, seen, evaluation.key)[0]["loss"]
        found |= {"train_loss": Metric(known, unit), "overfitting_gap": Metric(loss - known, unit)}
    return found


def _part_of(split: Split, whole: Split) -> bool:
    return split is whole or (isinstance(split, Subset) and split.split is whole)


def overfitting(found: Mapping[str, Metric]) -> str:
    """What a large overfitting gap of predictions means and what helps, in words; empty where there is none.

    The size of a density's loss says nothing by itself: it grows with the dimensions and may be negative.

    >>> overfitting({"loss": Metric(0.9), "train_loss": Metric(0.1), "overfitting_gap": Metric(0.8)})[:66]
    'overfitting: the loss is 0.1 on training examples and 0.9 on these'
    >>> overfitting({"loss": Metric(0.12), "train_loss": Metric(0.1), "overfitting_gap": Metric(0.02)})
    ''
    >>> overfitting({"loss": Metric(-45.0), "train_loss": Metric(-47.0), "overfitting_gap": Metric(2.0)})
    ''
    """
    if "overfitting_gap" not in found or {"nll", "nll_bound"} & found.keys():
        return ""
    loss, known, gap = (found[name].value for name in ("loss", "train_loss", "overfitting_gap"))
    if known <= 0 or gap < _NOTICEABLE or loss < _RATIO * known:
        return ""
    return (
        f"overfitting: the loss is {short_number(known)} on training examples and {short_number(loss)} on these. "
        "What helps: more examples, a smaller or smoother model; where gradients train it, augmentation, "
        "stopping.patience=5, a larger optimizer.decay"
    )


score = Score(
    "The mean loss, and how much lower it is on training examples.",
    lambda evaluation: True,
    _measure,
    order=0,
)

__all__ = ["overfitting", "score"]
