"""Numbers that judge a model, chosen by what it can do, exact over ragged last batches.

Everything is computed example by example and reduced once over the whole split, never as a mean of batch means.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, final

import equinox as eqx
import numpy as np
import scipy.stats

from chainrule.core import random
from chainrule.core.compiling import compiled
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Key
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.data.splits import Split
from chainrule.data.text.packing import Packed
from chainrule.data.text.windows import Windows
from chainrule.models.protocol import (
    CanPack,
    CanPredict,
    CanSample,
    CanTranslate,
    HasBound,
    HasBoundParts,
    HasLogProb,
    HasScores,
    HasSurprise,
    Model,
    Scored,
)
from chainrule.train import surprisal
from chainrule.train.evaluation import batches, examples, mean_loss, over
from chainrule.train.resemblance import resemblance


@final
@dataclass(frozen=True)
class Metric:
    """A number with its unit and, where it is a mean over examples, its standard error."""

    value: float
    unit: str = ""
    stderr: float | None = None

    def __str__(self) -> str:
        error = f" ± {self.stderr:.2g}" if self.stderr is not None else ""
        return f"{self.value:.4g}{error}{' ' + self.unit if self.unit else ''}"

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def score(
    model: Model,
    data: Data,
    split: str = "test",
    *,
    seed: int = 0,
    stride: int | None = None,
    n: int | None = None,
) -> dict[str, Metric]:
    """Every number the model's capabilities give on a split, or on `n` of its examples drawn at random.

    Unless told, these are all examples, and 2,048 where the model knows only a bound, which is estimated with many
    looks at each. The draw depends on the data alone, so that models are judged on the same examples. `stride` is for
    texts, see `train.surprise`.
    """
    model = eqx.nn.inference_mode(model)
    part = examples(model, data, split, n)
    key = random.key(seed, "score")
    named = isinstance(model, CanPredict) and data.schema.target in ("class", "labels")
    found = {"loss": Metric(mean_loss(model, part, key)[0]["loss"], "nats" if named else "")}
    if isinstance(model, CanPredict):
        predicted = over("predictions", lambda model, batch, key: model.predict(batch.x), model, part, key)
        if data.schema.target == "class":
            found |= classification(predicted, np.asarray(part.y))
        elif data.schema.target == "labels":
            found |= multilabel(predicted, np.asarray(part.y), data.schema.classes)
        elif data.schema.target == "value":
            found |= regression(predicted, np.asarray(part.y), data)
    if isinstance(model, HasSurprise) and isinstance(part, Windows):
        judged = surprisal.blocks(model, part, len(data.schema.symbols), stride)
        found |= text(judged, part, data.schema)
    elif stride is not None:
        raise ArgumentError(
            f"stride={stride}: only models that predict text symbol by symbol are read in strides"
        )
    elif isinstance(model, CanPack) and isinstance(part, Packed):
        found |= text(surprisal.documents(model, part, len(data.schema.symbols)), part, data.schema)
    elif isinstance(model, HasLogProb):
        exact = over("likelihood", lambda model, batch, key: model.log_prob(batch.x), model, part, key)
        found |= likelihood(exact, data)
    elif isinstance(model, HasBound):
        found |= bound(model, part, key, data)
    if isinstance(model, CanTranslate):
        found |= translation(model, part, key, end=len(data.schema.target_symbols))
    if isinstance(model, HasScores):
        found |= own(model, part, key)
    if isinstance(model, CanSample) and data.schema.kind == "points" and min(len(part), len(data.train)) > 1:
        value, floor, error = resemblance(model, data, part, key)
        found["sinkhorn_divergence"] = Metric(value, "squared distance")
        found["sinkhorn_divergence_of_real"] = Metric(floor, "squared distance", error)
    if len(part) < len(data.split(split)):
        found["examples"] = Metric(len(part), f"of {len(data.split(split)):,}")
    return found


def bound(model: HasBound, split: Split, key: Key, data: Data) -> dict[str, Metric]:
    """The bound of the likelihood as in `likelihood`, and what it is made of where the model says so."""
    parts: dict[str, Metric] = {}
    if isinstance(model, HasBoundParts):
        found = over("bound", lambda model, batch, key: model.bound(batch, key), model, split, key)
        parts = {name: _mean(scored.values, scored.unit) for name, scored in found.parts.items()}
        elbo = found.elbo
    else:
        elbo = over("bound", lambda model, batch, key: model.elbo(batch.x, key), model, split, key)
    return {f"{name}_bound": value for name, value in likelihood(elbo, data).items()} | parts


def _mean(values: np.ndarray, unit: str) -> Metric:
    values = np.asarray(values, np.float64)
    return Metric(float(values.mean()), unit, float(values.std() / math.sqrt(len(values))))


def own(model: HasScores, split: Split, key: Key) -> dict[str, Metric]:
    """The numbers a model is judged by beyond those its capabilities give: means and their standard errors."""
    units: dict[str, str] = {}
    values: dict[str, list[np.ndarray]] = {}
    for number, (batch, _) in enumerate(batches(split)):
        for name, scored in _scores_of(model, batch, random.at(key, number)).items():
            units[name] = scored.unit
            values.setdefault(name, []).append(np.asarray(scored.values))
    return {name: _mean(np.concatenate(parts), units[name]) for name, parts in values.items()}


@compiled
def _scores_of(model: HasScores, batch: Batch, key: Key) -> Mapping[str, Scored]:
    return model.scores(batch, key)


def classification(probabilities: np.ndarray, labels: np.ndarray) -> dict[str, Metric]:
    """Accuracy, precision, recall and F1 as means over classes, area under the ROC curve, calibration error and, for
    more than five classes, top-5 accuracy.

    >>> p = np.array([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3], [0.2, 0.8]])
    >>> classification(p, np.array([0, 1, 1, 1]))["accuracy"].value
    0.75
    """
    n, classes = probabilities.shape
    accuracy = float((probabilities.argmax(axis=1) == labels).mean())
    found = {"accuracy": Metric(accuracy, stderr=math.sqrt(accuracy * (1 - accuracy) / n))}
    if classes > 5:
        own = np.take_along_axis(probabilities, labels[:, None], axis=1)
        # Of equal probabilities the lower class comes first, as in argmax: having no opinion is not being right.
        ahead = (probabilities > own) | (
            (probabilities == own) & (np.arange(classes)[None, :] < labels[:, None])
        )
        top = float((ahead.sum(axis=1) < 5).mean())
        found["top_5_accuracy"] = Metric(top, stderr=math.sqrt(top * (1 - top) / n))
    matrix = confusion(probabilities.argmax(axis=1), labels, classes)
    right, true, said = np.diag(matrix), matrix.sum(axis=1), matrix.sum(axis=0)
    present = true + said > 0
    # A class that is never predicted has no precision and one that never occurs no recall: they count as zero.
    found["precision"] = Metric(float((right / np.maximum(said, 1))[present].mean()))
    found["recall"] = Metric(float((right / np.maximum(true, 1))[present].mean()))
    found["f1"] = Metric(float((2 * right[present] / (true + said)[present]).mean()))
    if (true > 0).sum() > 1:
        found["roc_auc"] = Metric(roc_auc(probabilities, labels))
    found["calibration_error"] = Metric(calibration(probabilities, labels)[0])
    return found


def roc_auc(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Area under the ROC curve: how often an example of a class gets a higher probability for it than one of another.

    For two classes that of the second class; for more, the mean over the classes that occur, each against the rest.

    >>> p = np.array([0.1, 0.4, 0.35, 0.8])
    >>> roc_auc(np.stack([1 - p, p], axis=1), np.array([0, 0, 1, 1]))
    0.75
    """
    classes = [1] if probabilities.shape[1] == 2 else [int(c) for c in np.unique(labels)]
    return float(np.mean([area_under(probabilities[:, c], labels == c) for c in classes]))


def area_under(scores: np.ndarray, ours: np.ndarray) -> float:
    """How often one of our examples has a higher score than one of the others; ties count half.

    >>> area_under(np.array([0.1, 0.4, 0.35, 0.8]), np.array([False, False, True, True]))
    0.75
    """
    ranks = scipy.stats.rankdata(scores)  # ties share their places
    positive, negative = int(ours.sum()), int((~ours).sum())
    return float((ranks[ours].sum() - positive * (positive + 1) / 2) / (positive * negative))


def average_precision(scores: np.ndarray, ours: np.ndarray) -> float:
    """Mean, over our examples, of the precision at the threshold that just includes each; ties come together.

    >>> average_precision(np.array([0.9, 0.8, 0.7]), np.array([True, False, True]))
    0.8333333333333333
    """
    thresholds = np.sort(scores[ours])
    included = len(scores) - np.searchsorted(np.sort(scores), thresholds, side="left")
    right = len(thresholds) - np.searchsorted(thresholds, thresholds, side="left")
    return float(np.mean(right / included))


def multilabel(
    probabilities: np.ndarray, labels: np.ndarray, names: Sequence[str], threshold: float = 0.5
) -> dict[str, Metric]:
    """How often all labels of an example are right, and each; F1, area under the ROC curve and average precision as
    means over the labels; F1 and area of each label under its name.

    A label that never or always occurs in these examples has no area and no average precision, and one that neither
    occurs nor is predicted has no F1: they are left out.

    >>> p = np.array([[0.9, 0.2], [0.6, 0.4], [0.1, 0.7]])
    >>> found = multilabel(p, np.array([[1, 0], [0, 1], [0, 1]]), ["cat", "dog"])
    >>> round(found["exact_match"].value, 3), round(found["f1.cat"].value, 3), found["roc_auc.dog"].value
    (0.667, 0.667, 1.0)
    """
    truth, said = labels > 0, probabilities >= threshold
    whole, single = (said == truth).all(axis=1), (said == truth).mean(axis=1)
    root_n = math.sqrt(len(truth))
    found = {
        "exact_match": Metric(float(whole.mean()), stderr=float(whole.std() / root_n)),
        "label_accuracy": Metric(float(single.mean()), stderr=float(single.std() / root_n)),
    }
    each: dict[str, dict[str, float]] = {"f1": {}, "roc_auc": {}, "average_precision": {}}
    for name, p, ours, chosen in zip(names, probabilities.T, truth.T, said.T, strict=True):
        if ours.any() or chosen.any():
            each["f1"][name] = float(2 * (ours & chosen).sum() / (ours.sum() + chosen.sum()))
        if ours.any() and not ours.all():
            each["roc_auc"][name] = area_under(p, ours)
            each["average_precision"][name] = average_precision(p, ours)
    found |= {kind: Metric(float(np.mean([*values.values()]))) for kind, values in each.items() if values}
    for kind in ("f1", "roc_auc"):
        found |= {f"{kind}.{name}": Metric(value) for name, value in each[kind].items()}
    return found


def confusion(predicted: np.ndarray, labels: np.ndarray, classes: int) -> np.ndarray:
    """Counts by (true class, predicted class).

    >>> confusion(np.array([0, 1, 1]), np.array([0, 0, 1]), 2).tolist()
    [[1, 1], [0, 1]]
    """
    cell = labels.astype(np.int64) * classes + predicted  # small integer types would wrap around
    return np.bincount(cell, minlength=classes**2).reshape(classes, classes)


def calibration(
    probabilities: np.ndarray, labels: np.ndarray, bins: int = 15
) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """Expected calibration error, and per bin of confidence: mean confidence, accuracy, count (Guo et al., 2017)."""
    confidence = probabilities.max(axis=1).astype(np.float64)
    right = probabilities.argmax(axis=1) == labels
    which = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    count = np.bincount(which, minlength=bins)
    some = np.maximum(count, 1)
    mean = np.bincount(which, confidence, minlength=bins) / some
    accuracy = np.bincount(which, right, minlength=bins) / some
    error = float((count / len(labels) * np.abs(mean - accuracy)).sum())
    return error, mean, accuracy, count


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


def text(judged: surprisal.Blocks, split: Windows | Packed, schema: Schema) -> dict[str, Metric]:
    """Nats per symbol and what follows from them, how far windows are apart, and how many symbols were judged."""
    found = units(
        judged.mean, judged.error, bytes_per_token=split.bytes_per_token, characters=not schema.tokenizer
    )
    found["stride"] = Metric(judged.stride, f"of {split.length} tokens")
    packed = isinstance(split, Packed)
    found["tokens"] = Metric(float(judged.symbols.sum()), f"all but the first{' of each' * packed}")
    if packed:
        found["documents"] = Metric(float(len(judged.nats)))
    return found


def units(
    nats: float, stderr: float | None = None, *, bytes_per_token: float = 0.0, characters: bool = False
) -> dict[str, Metric]:
    """Nats per token in other units.

    Perplexities of different vocabularies cannot be compared, bits per byte can.

    >>> for name, metric in units(math.log(65), characters=True).items():
    ...     print(name, metric)
    nats_per_token 4.174 nats/token
    bits_per_character 6.022 bits/character
    perplexity 65
    """

    def scaled(factor: float, unit: str) -> Metric:
        return Metric(nats * factor, unit, None if stderr is None else stderr * factor)

    found = {"nats_per_token": scaled(1.0, "nats/token")}
    if characters:
        found["bits_per_character"] = scaled(1 / math.log(2), "bits/character")
    if bytes_per_token:
        found["bits_per_byte"] = scaled(1 / math.log(2) / bytes_per_token, "bits/byte")
    perplexity = math.exp(nats)
    found["perplexity"] = Metric(perplexity, stderr=None if stderr is None else stderr * perplexity)
    return found


def translation(model: CanTranslate, split: Split, key: Key, *, end: int) -> dict[str, Metric]:
    """Nats per target symbol, over all symbols with the end mark of each, and how often a target is exactly right."""
    nats = -over(
        "translations", lambda model, batch, key: model.log_prob_given(batch.y, batch.x), model, split, key
    )
    nats, y = nats.astype(np.float64), np.asarray(split.y)
    symbols = (y != end).sum(axis=1) + 1  # whatever follows the end mark repeats it
    mean = nats.sum() / symbols.sum()
    spread = (
        np.sqrt(np.square(nats - mean * symbols).mean() / len(nats)) / symbols.mean()
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


__all__ = [
    "Metric",
    "area_under",
    "average_precision",
    "bound",
    "calibration",
    "classification",
    "confusion",
    "likelihood",
    "multilabel",
    "own",
    "regression",
    "roc_auc",
    "score",
    "text",
    "translation",
    "units",
]
