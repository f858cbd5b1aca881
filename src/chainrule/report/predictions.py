"""Pictures of predictions: confusion, errors, calibration.

Each function takes plain arrays and gives one record of `core.pictures`. Inputs and values are in the original units
of the data; class targets are positions in `schema.classes`.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float, Int, Shaped
from scipy.special import ndtri

from chainrule.core.formatting import number
from chainrule.core.pictures import Bars, Heatmap, Images, Lines, Scatter, Table
from chainrule.core.quoting import plain
from chainrule.data import kinds
from chainrule.data.kinds.image import unit_images
from chainrule.data.schema import Schema
from chainrule.data.targets import of as target_of
from chainrule.data.targets.votes import mean_grades
from chainrule.train.scores.classification import calibration, confusion, wilson
from chainrule.train.scores.multilabel import multilabel

Probabilities = Float[np.ndarray, "examples classes"]
Labels = Int[np.ndarray, " examples"]
Values = Float[np.ndarray, "examples ..."]

_MOST_NUMBERS = 20
WORST_IMAGES = 20
_WORST_ROWS = 12
_MOST_FEATURES = 6
_MOST_LABELS = 20
_MOST_GROUPS = 7
_MOST_POINTS = 1500
_BINS = 24
_GRID = 90
_SHORT = 10


def confusion_matrix(probabilities: Probabilities, targets: Labels, classes: Sequence[str]) -> Heatmap:
    """How often each class was taken for each other.

    >>> p = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    >>> confusion_matrix(p, np.array([0, 1, 1]), ["cat", "dog"]).values.tolist()
    [[1, 0], [1, 1]]
    """
    counts = confusion(probabilities.argmax(axis=1), targets, len(classes))
    wrong = int(counts.sum() - np.trace(counts))
    caption = f"{wrong:,} of {len(targets):,} examples wrong ({100 * wrong / max(len(targets), 1):.1f} %)."
    off = counts - np.diag(np.diag(counts))
    if wrong:
        true, taken = divmod(int(off.argmax()), len(classes))
        pair = f"“{plain(classes[true], 30)}” was taken for “{plain(classes[taken], 30)}”"
        caption += f" Most often {pair} ({off.max():,})."
    return Heatmap(
        "confusion-matrix",
        "Confusion matrix",
        "predicted",
        "true",
        counts,
        rows=list(classes),
        columns=list(classes),
        numbers=len(classes) <= _MOST_NUMBERS,
        caption=caption,
    )


def confidently_wrong(
    probabilities: Probabilities,
    targets: Labels,
    inputs: np.ndarray,
    schema: Schema,
    examples: Labels | None = None,
) -> Images | Table | None:
    """The mistakes the model was surest of, each as "true→predicted confidence"; nothing when there is no mistake.

    `examples` are the numbers of the examples in their split, where they are not simply counted through.
    """
    predicted, confidence = probabilities.argmax(axis=1), probabilities.max(axis=1)
    wrong = np.flatnonzero(predicted != targets)
    if not len(wrong):
        return None
    order = wrong[np.argsort(-confidence[wrong], kind="stable")]
    name, title = "confidently-wrong", "Most confidently wrong"
    caption = "True class → predicted class and the probability the model gave it."
    if kinds.of(schema).shows_pixels(schema):
        worst = order[:WORST_IMAGES]
        names = [plain(c, 18) for c in schema.classes]
        pairs = [f"{names[targets[i]]}→{names[predicted[i]]}" for i in worst]
        gap = " " if all(len(pair) <= _SHORT for pair in pairs) else "\n"
        labels = [f"{pair}{gap}{confidence[i]:.2f}" for pair, i in zip(pairs, worst, strict=True)]
        return Images(name, title, unit_images(schema, inputs[worst]), labels, caption=caption)
    worst = order[:_WORST_ROWS]
    heads, cells = kinds.of(schema).cells(schema, inputs[worst], _MOST_FEATURES)
    numbers = np.arange(len(targets)) if examples is None else examples
    rows = [
        [
            int(numbers[i]),
            schema.classes[targets[i]],
            schema.classes[predicted[i]],
            float(confidence[i]),
            *own,
        ]
        for i, own in zip(worst, cells, strict=True)
    ]
    columns = ["example", "true", "predicted", "confidence", *heads]
    return Table(name, title, columns, rows, caption=caption)


def reliability(probabilities: Probabilities, targets: Labels) -> Lines:
    """Accuracy against confidence, with 95 % intervals (Wilson): on the diagonal, a confidence means what it says."""
    error, confidence, accuracy, count = calibration(probabilities, targets)
    some = count > 0
    mean, share, n = confidence[some], accuracy[some], count[some]
    low, high = wilson(share, n)
    excess = float((n * (mean - share)).sum() / n.sum())
    leaning = (
        "about as sure as it should be"
        if abs(excess) < 0.005
        else "too sure"
        if excess > 0
        else "not sure enough"
    )
    return Lines(
        "reliability",
        "Reliability",
        "confidence",
        "share correct",
        {"model": (mean, share, low, high)},
        diagonal=True,
        caption=f"Expected calibration error {number(error, 3)}; on average the model is {leaning}. "
        "Examples are grouped by the probability of the predicted class; the band is a 95 % interval.",
    )


def decision_surface(
    predict: Callable[[np.ndarray], np.ndarray],
    inputs: Float[np.ndarray, "examples 2"],
    targets: np.ndarray,
    schema: Schema,
) -> Scatter:
    """Points in the plane over what the model says everywhere around them.

    `predict` maps points in original units to class probabilities or values.
    """
    low, high = inputs.min(axis=0), inputs.max(axis=0)
    margin = 0.08 * np.where(high > low, high - low, 1.0)  # a column that never changes has a width, too
    (left, bottom), (right, top) = (low - margin).tolist(), (high + margin).tolist()
    grid = np.stack(np.meshgrid(np.linspace(left, right, _GRID), np.linspace(bottom, top, _GRID)), axis=-1)
    answer = np.asarray(predict(grid.reshape(-1, 2).astype(inputs.dtype)))
    some = _some(len(inputs), _MOST_POINTS)
    by_class = target_of(schema).one_class
    if by_class:
        groups = {name: inputs[some][targets[some] == i] for i, name in enumerate(schema.classes)}
        binary = len(schema.classes) == 2
        field = answer[:, 1] if binary else answer.max(axis=1)
        what = (
            f"the probability of “{plain(schema.classes[1], 30)}”"
            if binary
            else "the probability of the likeliest class"
        )
        title = "Decision surface"
    else:
        groups, field = {"examples": inputs[some]}, answer.reshape(len(answer), -1)[:, 0]
        title, what = "Predicted surface", "the prediction"
    names = [*schema.columns, "x1", "x2"] if len(schema.columns) >= 2 else ["x1", "x2"]
    line = "; the line is where it is one half" if by_class and len(schema.classes) == 2 else ""
    caption = f"The stronger the shade, the higher {what}{line}."
    return Scatter(
        "surface",
        title,
        names[0],
        names[1],
        groups,
        field.reshape(_GRID, _GRID),
        (left, right, bottom, top),
        caption=caption,
    )


def label_scores(
    probabilities: Probabilities, targets: Shaped[np.ndarray, "examples classes"], classes: Sequence[str]
) -> Bars:
    """F1 at one half and area under the ROC curve of each label.

    >>> p = np.array([[0.9, 0.2], [0.6, 0.4], [0.1, 0.7]])
    >>> label_scores(p, np.array([[1, 0], [0, 1], [0, 1]]), ["cat", "dog"]).series["ROC area"].tolist()
    [1.0, 1.0]
    """
    scores = multilabel(probabilities, targets, classes)
    chosen = [name for name in classes if f"roc_auc.{name}" in scores][:_MOST_LABELS]
    left = len(classes) - len(chosen)
    words = {"F1": "f1", "ROC area": "roc_auc"}
    return Bars(
        "label-scores",
        "Labels one by one",
        "label",
        "",
        [plain(name, _SHORT) for name in chosen],
        {word: np.array([scores[f"{kind}.{name}"].value for name in chosen]) for word, kind in words.items()},
        caption="F1 counts a label as predicted from a probability of one half on."
        + (
            f" {left} labels are not shown: they never or always occur here, or there is no room."
            if left
            else ""
        ),
    )


def votes_beside_true(
    predicted: Probabilities, true: Probabilities, schema: Schema
) -> list[Scatter | Lines | Bars]:
    """Mean grades over the true ones, and the shares of all votes by grade."""
    means = (mean_grades(schema, shares) for shares in (predicted, true))
    said = {"predicted": predicted.mean(axis=0), "true": true.mean(axis=0)}
    shares = Bars(
        "votes",
        "Votes of all examples",
        "grade",
        "share of the votes",
        [plain(name, _SHORT) for name in schema.classes],
        said,
        caption="The mean of all distributions: a model that is careful gives the middle too much.",
    )
    return [predicted_against_true(*means), shares]


def highest_losses(
    images: np.ndarray, losses: np.ndarray, true: Sequence[str], said: Sequence[str]
) -> Images:
    """Images with the highest loss, what is true of each above what is said, where that can be written in a word."""
    pairs = (
        zip(true, said, losses.tolist(), strict=True)
        if true
        else ((None, None, one) for one in losses.tolist())
    )
    labels = [
        f"loss {number(loss, 3)}"
        if own is None
        else f"{plain(own, 24) or 'none'}→{plain(other or 'none', 24)}"
        for own, other, loss in pairs
    ]
    return Images(
        "worst-losses",
        "Images with the highest loss",
        images,
        labels,
        5 if true and max(map(len, labels)) > _SHORT else 10,
        "What is true → what is said, the highest loss first.",
    )


def predicted_against_true(predicted: Values, targets: Values) -> Scatter:
    """Every prediction over its true value, by output where there are few."""
    p, t = (np.asarray(a, dtype=float).reshape(len(targets), -1) for a in (predicted, targets))
    squares = np.square(p - t).mean()
    spread = np.square(t - t.mean(axis=0)).mean()
    r2 = f"R² {number(1 - squares / spread, 3)}, " if spread > 0 else ""
    caption = f"{r2}root mean squared error {number(math.sqrt(squares), 3)} in the units of the data."
    if p.shape[1] > _MOST_GROUPS:
        p, t = p.reshape(-1, 1), t.reshape(-1, 1)
    names = ["predictions"] if p.shape[1] == 1 else [f"output {i + 1}" for i in range(p.shape[1])]
    some = _some(len(t), _MOST_POINTS // len(names))
    if len(some) < len(t):
        caption += f" Every {len(t) / len(some):.0f}th point is shown."
    groups = {name: np.stack([t[some, i], p[some, i]], axis=-1) for i, name in enumerate(names)}
    return Scatter(
        "predicted-true",
        "Predicted against true",
        "true",
        "predicted",
        groups,
        diagonal=True,
        caption=caption,
    )


def residuals(predicted: Values, targets: Values) -> Bars:
    """How far predictions lie from the truth, as a histogram with round edges around zero."""
    differences = (np.asarray(predicted, dtype=float) - targets).ravel()
    differences = differences[np.isfinite(differences)]
    reach = float(np.abs(differences).max(initial=0.0)) or 1.0
    rough = 2 * reach / _BINS
    unit = 10.0 ** math.floor(math.log10(rough))
    width = next(m * unit for m in (1, 2, 5, 10) if m * unit >= rough)
    bucket = np.rint(differences / width).astype(int)
    span = np.arange(bucket.min(initial=0), bucket.max(initial=0) + 1)
    counts = np.bincount(bucket - span[0], minlength=len(span))
    names = ["0" if k == 0 else number(k * width, 3) for k in span]
    mean = f"Mean {number(differences.mean(), 3)}, " if len(differences) else ""
    caption = f"{mean}each bar is {number(width)} wide and centred on its label."
    return Bars(
        "residuals", "Residuals", "predicted − true", "examples", names, {"examples": counts}, caption=caption
    )


def interval_coverage(deviations: Values) -> Lines:
    """How many true values lie in intervals of every level: on the diagonal, a level means what it says.

    `deviations` are true values less their predicted means, in predicted standard deviations.
    """
    away = np.abs(np.asarray(deviations, dtype=float)).ravel()
    levels = np.linspace(0.05, 0.95, 19)
    share = (away[None, :] <= ndtri(0.5 + levels / 2)[:, None]).mean(axis=1)
    low, high = wilson(share, np.full(len(levels), len(away)))
    excess = float((share - levels).mean())
    said = (
        "about as wide as they should be"
        if abs(excess) < 0.02
        else "too wide"
        if excess > 0
        else "too narrow"
    )
    return Lines(
        "interval-coverage",
        "Coverage of intervals",
        "level of the interval",
        "share of true values inside",
        {"model": (levels, share, low, high)},
        diagonal=True,
        caption=f"Of {len(away):,} values {100 * share[-2]:.0f} % lie in their 90 % intervals; on the whole intervals "
        f"are {said}. The band is a 95 % interval.",
    )


def _some(count: int, most: int) -> np.ndarray:
    """Evenly spaced numbers below `count`, few enough to draw."""
    return np.unique(np.linspace(0, max(count - 1, 0), min(count, most)).astype(int))


__all__ = [
    "WORST_IMAGES",
    "confidently_wrong",
    "confusion_matrix",
    "decision_surface",
    "highest_losses",
    "interval_coverage",
    "label_scores",
    "predicted_against_true",
    "reliability",
    "residuals",
    "votes_beside_true",
    "wilson",
]
