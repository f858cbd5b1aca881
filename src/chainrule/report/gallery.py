"""The pictures of a run: learning curves, then one group for each capability of its model.

Only capabilities are asked for, never names of models. A set that cannot be made (the data are gone, there is no
checkpoint yet) says why instead of being left out in silence.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core import random
from chainrule.core.errors import ChainruleError
from chainrule.core.formatting import number
from chainrule.core.pictures import Lines, Picture, Sounds, Table
from chainrule.core.quoting import plain
from chainrule.core.types import Array
from chainrule.data import kinds, targets
from chainrule.data.batches import Batch
from chainrule.data.kinds.image import unit_images
from chainrule.data.schema import Schema
from chainrule.data.targets.mask import IGNORE
from chainrule.data.text.pairs import source_text, target_text
from chainrule.models.protocol import (
    CanPredict,
    CanSample,
    CanSeparate,
    CanTranslate,
    HasDiagnostics,
    HasLatents,
    HasOutputs,
    HasOwnTraining,
    HasPictures,
    HasPredictiveDistribution,
    HasSampleCaption,
    HasSnapshots,
    HasSurprisal,
)
from chainrule.networks.pictures import detections, segmentations
from chainrule.nn.segmentation import agreement
from chainrule.report import densities, language_models, predictions, snapshots
from chainrule.report.highest_losses import highest_losses
from chainrule.report.samples import captions_to_show, classes_to_show, values_to_show
from chainrule.report.separation import separation_pictures
from chainrule.train import Run
from chainrule.train.folder import decisive

_MOST_EXAMPLES = 5000
_MOST_MASKS = 2**26
"""Probabilities of classes at pixels that are in memory together."""
_MOST_POINTS = 1000
"""Points of a curve; more are averaged."""
_BATCH = 500
_TRANSLATIONS = 10
_CAPTIONS = 50
"""Most captions to draw for: each is read below its image."""
_LOG_RATIO = 30.0
"""Positive curves that span more than this are drawn on a logarithmic axis."""
_SPLITS = {"train": "training", "val": "validation"}
_WORDS = {
    "lr": ("Learning rate", ""),
    "grad_norm": ("Gradient norm", ""),
    "accuracy": ("Accuracy", "share correct"),
}


@final
@dataclass(frozen=True)
class PictureGroup:
    """Pictures that belong together, or the reason why there are none."""

    title: str
    pictures: Sequence[Picture]
    problem: str = ""


def pictures(run: Run) -> list[Picture]:
    """Every picture of a run, learning curves first."""
    return [picture for group in groups(run) for picture in group.pictures]


def groups(run: Run) -> list[PictureGroup]:
    """The same by what they show."""
    found = [PictureGroup("Learning", learning_curves(run))]
    try:
        model = run.model
    except ChainruleError as error:
        return [*found, PictureGroup("The model", (), problem=str(error))]
    compared = language_models.compared if isinstance(model, HasSurprisal) else densities.with_entropy
    curves = [compared(c, run) if c.name == "curve-loss" else c for c in learning_curves(run)]
    found = [
        PictureGroup("Learning", [*curves, *(stacked_bound(run) if isinstance(model, HasLatents) else ())])
    ]
    if isinstance(model, HasDiagnostics):
        main = [curve for curve in curves if curve.name == "curve-loss"]
        found = [PictureGroup("Learning", [*main, *model.curves(run.metrics)])]
    if isinstance(model, HasSnapshots):
        found.append(PictureGroup("Along the way", snapshots.pictures(run)))
    for title, capability, make in _CAPABILITIES:
        if isinstance(model, capability):
            try:
                found.append(PictureGroup(title, make(run)))
            except ChainruleError as error:
                found.append(PictureGroup(title, (), problem=str(error)))
    return [group for group in found if group.pictures or group.problem]


def judged_split(run: Run) -> str:
    """The split a model is judged on: test where there is one, validation otherwise."""
    return next((name for name in ("test", "val") if len(run.data.split(name))), "train")


# ---------------------------------------------------------------------- learning


def learning_curves(run: Run) -> list[Lines]:
    """Loss first, then every other number that was logged, the optimiser's own last; none that was always zero.

    A closed form has one step, and no curve.
    """
    columns = run.metrics
    if run.checkpoints and run.step == 1 and isinstance(run.model, HasOwnTraining):
        return []
    names = [name for name in columns if name not in ("step", "split") and np.nan_to_num(columns[name]).any()]
    last = ["lr", "grad_norm"]
    order = ["loss", *(name for name in names if name not in ("loss", *last)), *last]
    return [_curve(run, columns, name) for name in order if name in names]


def _curve(run: Run, columns: dict[str, np.ndarray], name: str) -> Lines:
    title, unit = _WORDS.get(name, (name.replace("_", " ").capitalize(), ""))
    series, words = {}, []
    for split, label in _SPLITS.items():
        chosen = (columns["split"] == split) & np.isfinite(columns[name])
        if chosen.any():
            step, value, mean_of = _thin(columns["step"][chosen], columns[name][chosen])
            series[label] = (step, value)
            words += [f"Every {label} point is the mean of {mean_of}."] if mean_of > 1 else []
    values = np.concatenate([y for _, y in series.values()]) if series else np.empty(0)
    marks: list[tuple[float, str]] = []
    best = run.status["best"]
    if name == "loss":
        unit = (
            "nats per example" if {"accuracy", "exact_match"} & columns.keys() else ""
        )  # only a classifier's loss is a cross-entropy
        if best and not isinstance(run.model, HasOwnTraining):
            by = decisive(best)
            marks = [(best["step"], f"best {number(best[by], 3)} at {best['step']:,}")]
            words.append(
                "The mark is the lowest validation loss."
                if by == "loss"
                else f"The mark is the best validation {by}."
            )
    wide = name != "lr" and len(values) > 0 and 0 < _LOG_RATIO * values.min() < values.max()
    return Lines(
        f"curve-{name}", title, "step", unit, series, log_y=bool(wide), marks=marks, caption=" ".join(words)
    )


def stacked_bound(run: Run) -> list[Picture]:
    """Distortion and rate on top of each other over training: their sum is the bound."""
    columns = run.metrics
    if not {"distortion", "rate"} <= columns.keys():
        return []
    found = {split: (columns["split"] == split) & np.isfinite(columns["rate"]) for split in _SPLITS}
    split = "val" if found["val"].any() else "train"
    step, distortion, _ = _thin(columns["step"][found[split]], columns["distortion"][found[split]])
    _, rate, _ = _thin(columns["step"][found[split]], columns["rate"][found[split]])
    if not len(step):
        return []
    total, floor = distortion + rate, np.full_like(distortion, min(0.0, float(distortion.min())))
    return [
        Lines(
            "bound",
            "The bound and its parts",
            "step",
            "nats per example",
            {"rate": (step, total, distortion, total), "distortion": (step, distortion, floor, distortion)},
            caption=f"On {_SPLITS[split]} examples: what is left once the code is known, and on top of it what "
            "the code costs. The upper edge is the bound of the negative log-likelihood.",
        )
    ]


def _thin(step: np.ndarray, value: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """A curve of at most `_MOST_POINTS` points, each the mean of as many of the given ones as it says."""
    size = -(-len(step) // _MOST_POINTS)
    edges = np.arange(0, len(step), size)
    count = np.diff([*edges, len(step)])
    ends = np.minimum(edges + size, len(step)) - 1
    return step[ends], np.add.reduceat(value, edges) / count, size


# ---------------------------------------------------------------------- predictions


def prediction_pictures(run: Run) -> list[Picture]:
    """Predictions on the test split against the truth."""
    model, data, schema = run.model, run.data, run.schema
    assert isinstance(model, CanPredict)
    part = data.split(judged_split(run))
    target = targets.of(schema)
    most = _MOST_EXAMPLES
    if target.has_mask:  # a probability for each class at each pixel
        most = max(segmentations.SHOWN, _MOST_MASKS // (math.prod(schema.shape[:2]) * len(schema.classes)))
    chosen = np.unique(np.linspace(0, len(part) - 1, min(len(part), most)).astype(int))
    x, y = part.batch(chosen)[:2]
    answer = _predict(model, x)
    inputs = data.inverse(x)
    found: list[Picture | None] = []
    if kinds.of(schema).is_plane(schema) and (target.one_class or target.has_values):

        def over(points: np.ndarray) -> np.ndarray:
            return _predict(model, np.asarray(data.scaling.apply(points.astype(np.float32))))

        found.append(predictions.decision_surface(over, inputs, np.asarray(y), schema))
    if target.one_class:
        probabilities, labels = answer.astype(np.float64), np.asarray(y).astype(int)
        found += [
            predictions.confusion_matrix(probabilities, labels, schema.classes),
            predictions.reliability(probabilities, labels),
            predictions.confidently_wrong(probabilities, labels, inputs, schema, chosen),
        ]
    elif target.has_boxes:
        found += _detections(model, np.asarray(x), np.asarray(y), answer, unit_images(schema, inputs), schema)
    elif target.has_mask:
        found += _masks(model, np.asarray(x), np.asarray(y), answer, unit_images(schema, inputs), schema)
    elif target.has_labels:
        found.append(predictions.label_scores(answer.astype(np.float64), np.asarray(y), schema.classes))
    elif target.has_votes:
        found += predictions.votes_beside_true(answer.astype(np.float64), np.asarray(y), schema)
    elif target.has_values:
        back = data.target_scaling.inverse if data.target_scaling else np.asarray
        truth, said = (np.asarray(back(np.asarray(a, dtype=np.float64))) for a in (y, answer))
        found += [predictions.predicted_against_true(said, truth), predictions.residuals(said, truth)]
        if isinstance(model, HasPredictiveDistribution):
            spread = np.sqrt(_spread(model, x).astype(np.float64))
            found.append(predictions.interval_coverage((np.asarray(y, np.float64) - answer) / spread))
    numbered = target.has_labels or target.has_votes or target.has_values
    if numbered and kinds.of(schema).shows_pixels(schema) and isinstance(model, HasOutputs):
        losses = _loss_of_each(model, np.asarray(x), np.asarray(y))
        found.append(highest_losses(run, np.asarray(x), np.asarray(y), answer, losses))
    return [picture for picture in found if picture is not None]


def _detections(
    model: CanPredict, x: np.ndarray, y: np.ndarray, found: np.ndarray, images: np.ndarray, schema: Schema
) -> list[Picture]:
    """Boxes beside what is there, how well they fit, what is wrong with them, and the images of the highest loss."""
    answer = found.astype(np.float64)
    first = slice(0, detections.SHOWN)
    losses = _loss_of_each(model, x, y)
    return [
        detections.beside_truth(images[first], answer[first], y[first], schema.classes),
        detections.precision_recall(answer, y, schema.classes),
        detections.error_bars(answer, y),
        detections.worst(images, answer, y, losses, schema.classes),
    ]


def _masks(
    model: CanPredict, x: np.ndarray, y: np.ndarray, answer: np.ndarray, images: np.ndarray, schema: Schema
) -> list[Picture]:
    """Masks beside what is there, how far each class is found, and the images of the highest loss."""
    predicted = answer.argmax(axis=-1)
    found = agreement(predicted, y, len(schema.classes), ignore=IGNORE)
    first = slice(0, segmentations.SHOWN)
    return [
        segmentations.beside_truth(schema, images[first], predicted[first], y[first]),
        segmentations.overlap_bars(found, schema.classes),
        segmentations.worst(schema, images, predicted, y, _loss_of_each(model, x, y)),
    ]


def _loss_of_each(model: CanPredict, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The loss of every example by itself, in equal batches."""
    size = min(_BATCH, len(x))
    rows = np.resize(np.arange(len(x)), -(-len(x) // size) * size).reshape(-1, size)
    losses = [np.asarray(_losses(model, jnp.asarray(x[r]), jnp.asarray(y[r]))) for r in rows]
    return np.concatenate(losses)[: len(x)]


@eqx.filter_jit
def _losses(model: CanPredict, x: Array, y: Array) -> Array:
    """The loss of each example by itself, in inference mode."""
    still = eqx.nn.inference_mode(model)
    return jax.lax.map(
        lambda one: still.loss(Batch(one[0][None], one[1][None]), random.key(0, "pictures"))[0], (x, y)
    )


def _predict(model: CanPredict, x: np.ndarray) -> np.ndarray:
    """Predictions for all examples."""
    return _in_batches(_call, model, x)


def _spread(model: HasPredictiveDistribution, x: np.ndarray) -> np.ndarray:
    """Variances of new values."""
    return _in_batches(_variance, model, x)


def _in_batches(function: Callable[[Any, Array], Array], model: CanPredict, x: np.ndarray) -> np.ndarray:
    """In equal batches (the last one filled up), so that one compiled call serves all."""
    size = min(_BATCH, len(x))
    full = np.resize(np.arange(len(x)), -(-len(x) // size) * size)
    parts = [np.asarray(function(model, jnp.asarray(x[rows]))) for rows in full.reshape(-1, size)]
    return np.concatenate(parts)[: len(x)]


@eqx.filter_jit
def _variance(model: HasPredictiveDistribution, x: Array) -> Array:
    return model.predictive(x).variance


@eqx.filter_jit
def _call(model: CanPredict, x: Array) -> Array:
    return model.predict(x)


# ---------------------------------------------------------------------- samples, and what the model shows of itself


def sample_pictures(run: Run) -> list[Picture]:
    """New examples, class by class where the model takes a class."""
    model, schema = run.model, run.schema
    assert isinstance(model, CanSample)
    if isinstance(model, CanTranslate):
        return [_translations(run, model)]
    kind, part = kinds.of(schema), run.data.split(judged_split(run))
    labels = classes_to_show(model, schema, kind.sample_count)
    said = captions_to_show(schema, part, min(kind.sample_count, _CAPTIONS))
    count = len(said) or (kind.sample_count if labels is None else len(labels))
    condition = said or labels
    drawn = np.asarray(
        run.sample(count, condition=values_to_show(run, part, count) if condition is None else condition)
    )
    names = said if labels is None else [plain(schema.classes[i]) for i in labels]
    real = None
    if kind.has_distances:
        real = run.data.inverse(part.batch(np.arange(min(len(part), len(drawn)))).x)
    how = f"by {model.sample_caption(condition=condition)} " if isinstance(model, HasSampleCaption) else ""
    caption = f"Drawn {how}from the checkpoint of step {run.step:,} with seed {run.settings.seed}."
    pictures = [kind.picture(schema, drawn, names, real=real, caption=caption)]
    if clips := kind.clips(schema, drawn):
        pictures.append(Sounds("sample-sounds", "Samples to listen to", clips, kind.clip_rate(schema)))
    return pictures


def _translations(run: Run, model: CanTranslate) -> Picture:
    """What held-out texts become, beside what they should."""
    schema = run.schema
    part = run.data.split(judged_split(run))
    x, y = part.batch(np.linspace(0, len(part) - 1, min(len(part), _TRANSLATIONS)).astype(int))[:2]
    said = np.asarray(model.translate(jnp.asarray(x), beams=4))
    rows = [
        [source_text(schema, source), target_text(schema, own), target_text(schema, true)]
        for source, own, true in zip(x, said, y, strict=True)
    ]
    caption = f"The likeliest a beam of 4 finds, from the checkpoint of step {run.step:,}."
    return Table("translations", "Held-out texts", ["text", "becomes", "should become"], rows, caption)


def own_pictures(run: Run) -> list[Picture]:
    """The pictures a model offers of its own inside."""
    model = run.model
    assert isinstance(model, HasPictures)
    return list(model.pictures(run.data, random.key(run.settings.seed, "pictures")))


_CAPABILITIES: Sequence[tuple[str, type, Callable[[Run], list[Picture]]]] = (
    ("Samples", CanSample, sample_pictures),
    ("Predictions", CanPredict, prediction_pictures),
    ("Separation", CanSeparate, separation_pictures),
    ("Text", HasSurprisal, language_models.surprisal_pictures),
    ("Inside the model", HasPictures, own_pictures),
)

__all__ = [
    "PictureGroup",
    "groups",
    "judged_split",
    "learning_curves",
    "own_pictures",
    "pictures",
    "prediction_pictures",
    "sample_pictures",
]
