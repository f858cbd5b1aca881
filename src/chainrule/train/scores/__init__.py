"""Scores, one file each, and the file is the registration.

`train/scores/regression.py` holds a `score` and is thereby known as `regression`. A score says itself what it applies
to, by what a model can do and what its data are.
"""

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import replace

import equinox as eqx
import numpy as np

from chainrule.core import random
from chainrule.core.errors import ArgumentError
from chainrule.data import targets
from chainrule.data.dataset import Data
from chainrule.data.splits import Subset
from chainrule.data.text.packing import Packed
from chainrule.data.text.windows import Windows
from chainrule.models.protocol import HasImportanceBound, HasLatents, Model
from chainrule.train.generation.drawing import can_be_judged
from chainrule.train.scores.exact_likelihood import needs_noise
from chainrule.train.scoring import Evaluation, Judged, Metric, Score, Scores

ESTIMATED = 2048
"""Examples by which costly numbers are estimated unless told otherwise."""


def names() -> tuple[str, ...]:
    """Every score.

    >>> "regression" in names()
    True
    """
    return tuple(sorted(found.name.replace("_", "-") for found in pkgutil.iter_modules(__path__)))


def get(name: str) -> Score:
    """A score by name."""
    found: Score = importlib.import_module(f"{__name__}.{name.replace('-', '_')}").score
    return found


def score(
    model: Model,
    data: Data,
    split: str = "test",
    *,
    seed: int = 0,
    stride: int | None = None,
    n: int | None = None,
    positive: str | None = None,
    top: Sequence[int] = (),
    temperature: float | None = None,
    thresholds: np.ndarray | None = None,
    k: int | None = None,
    samples: int | None = None,
) -> Scores:
    """Every number there is for a model on a split, or on `n` of its examples drawn at random.

    Unless told, these are all examples, and 2,048 where a number is costly, such as a bound, which is estimated by many
    evaluations of each. The draw depends on the data alone, so that models are judged on the same examples. `stride` is
    for texts, see `train.surprisal`; `positive` names the one of two classes that is looked for; `top` says among how
    many of the likeliest classes the true one is looked for; at a `temperature` probabilities are judged too, labels at
    `thresholds`, one for each. `k` is for models with a latent variable: codes by which the likelihood of each
    example is estimated, 100 unless told. `samples` is for models that draw examples: how many are compared with real
    ones, 1,000 at most unless told.
    """
    whole = data.examples(split)
    if n is not None and n < 1:
        raise ArgumentError(f"n={n}: at least one example is needed")
    if n is not None and isinstance(whole, Windows | Packed):
        raise ArgumentError(f"n={n}: texts are read as a whole", remedy="leave n out; stride= is for texts")
    key = random.key(seed, "score")
    asked = stride, positive, tuple(top), temperature, thresholds, k, samples
    evaluation = Evaluation(eqx.nn.inference_mode(model), data, whole, len(whole), key, *asked)
    chosen = [one for one in map(get, names()) if one.applies(evaluation)]
    if stride is not None and not any(one.strided for one in chosen):
        raise ArgumentError(
            f"stride={stride}: only models that predict text token by token are read in strides"
        )
    if samples is not None and not can_be_judged(model, data.schema):
        raise ArgumentError(
            f"samples={samples}: only models that draw points, images or rows of tables are judged by their samples"
        )
    if k is not None and k < 2:
        raise ArgumentError(f"k={k}: at least two codes of each example are needed")
    noisy = isinstance(model, HasImportanceBound) or needs_noise(model, data.schema)
    if k is not None and not isinstance(model, HasLatents) and not noisy:
        raise ArgumentError(
            f"k={k}: only models with a latent variable are judged by codes drawn from it, and densities of data with "
            "levels by draws of the noise between these"
        )
    target = targets.of(data.schema)
    of_classes = target.one_class and any(one.suits(target) for one in chosen)
    if positive is not None and not of_classes:
        raise ArgumentError(f"positive={positive!r}: only predictions of classes have a positive one")
    if top and not of_classes:
        raise ArgumentError(f"top={top[0]}: only predictions of classes have likeliest ones")
    count = n or (ESTIMATED if any(one.costly(evaluation) for one in chosen) else len(whole))
    if count < len(whole):
        evaluation = replace(evaluation, split=Subset.drawn(whole, count))
    found = Scores()
    for one in sorted(chosen, key=lambda one: one.order):
        found |= one.measure(evaluation)
    return found


def judge(judged: Judged) -> dict[str, Metric]:
    """Every number that predictions and targets alone give: those of `score` but for what a model itself is asked."""
    target = targets.of(judged.schema)
    found: dict[str, Metric] = {}
    for one in map(get, names()):
        if one.suits(target):
            found |= one.judge(judged)
    return found


def by_item(found: Mapping[str, Metric]) -> tuple[dict[str, Metric], dict[str, dict[str, Metric]]]:
    """Numbers of the whole, and those of each class, label or output (`f1.cat`) by its name.

    >>> whole, each = by_item({"f1": Metric(0.5), "f1.cat": Metric(0.4), "f1.dog": Metric(0.6)})
    >>> list(whole), each["dog"]["f1"].value
    (['f1'], 0.6)
    """
    whole: dict[str, Metric] = {}
    each: dict[str, dict[str, Metric]] = {}
    for name, metric in found.items():
        measure, dot, item = name.partition(".")
        if dot:
            each.setdefault(item, {})[measure] = metric
        else:
            whole[name] = metric
    return whole, each


__all__ = ["ESTIMATED", "by_item", "get", "judge", "names", "score"]
