"""The number by which checkpoints are compared and early stopping judges: which one, and which way is better."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import equinox as eqx
import numpy as np

from chainrule.core import random
from chainrule.core.errors import ArgumentError, suggest
from chainrule.core.types import Key
from chainrule.data.dataset import Data
from chainrule.data.splits import Split, Subset
from chainrule.models.protocol import CanPredict, Model
from chainrule.models.protocol.criteria import names as losses
from chainrule.train import robust_accuracy, scores
from chainrule.train.config import TrainConfig
from chainrule.train.evaluation import Loss, mean_loss
from chainrule.train.scoring import Evaluation, Judged, predictions

_HIGHER = {
    *("robust_accuracy", "accuracy", "balanced_accuracy", "label_accuracy", "exact_match"),
    *("precision", "recall", "specificity", "f1", "roc_auc", "average_precision"),
    *("r2", "pearson", "spearman"),
    *("map", "map50", "map75", "ap50"),
    *("miou", "iou", "dice", "pixel_accuracy", "boundary_f"),
}
_LOWER = {"loss", "rmse", "mae", "calibration_error", *losses()}


def direction(name: str) -> int:
    """1 where more is better, -1 where less is, 0 where nothing is known of a number of this name.

    >>> direction("accuracy"), direction("f1.cat"), direction("top_3_accuracy"), direction("val_perplexity")
    (1, 1, 1, 0)
    """
    if top_of(name):
        return 1
    measure = name.split(".")[0].removeprefix("positive_")
    return 1 if measure in _HIGHER else -1 if measure in _LOWER else 0


@final
@dataclass(frozen=True)
class Watched:
    """A number of the validation split, and the sign with which more of it is better."""

    name: str
    sign: int
    predicted: bool
    """Whether it comes from predictions of the whole split instead of the loss."""

    @classmethod
    def of(cls, config: TrainConfig, model: Model, data: Data, loss: Loss) -> "Watched":
        """What the settings ask for; a number that there will not be is refused."""
        name, plain = config.best, config.best == "loss"
        sign = {"min": -1, "max": 1}.get(config.best_mode, direction(name))
        if plain and config.best_mode == "auto":
            return cls(name, sign, predicted=False)
        if not len(data.val):
            raise ArgumentError(
                f"best={name}: {data.name} have no validation split to measure it on",
                remedy="give them one with data.split, or leave best out",
            )
        batch = data.val.batch(np.zeros(1, np.int32))
        still = eqx.nn.inference_mode(model)
        given = ["loss", *eqx.filter_eval_shape(loss, still, batch, random.key(0, "evaluate"))[1]]
        given += robust_accuracy.names(config, model, data)
        judged = [] if name in given else _judged_names(model, data, top_of(name))
        if name not in (*given, *judged):
            known = list(dict.fromkeys([*given, *judged]))
            raise ArgumentError(
                f"best={name}: this run will have no such number{suggest(name, known)}",
                remedy=f"it will have {', '.join(one for one in known if '.' not in one)}",
            )
        if not sign:
            raise ArgumentError(
                f"best={name}: is more or less of it better?", remedy="say so: best_mode=max or min"
            )
        return cls(name, sign, predicted=name not in given)

    def measure(self, model: Model, data: Data, loss: Loss, config: TrainConfig) -> dict[str, float]:
        """Loss and metrics on the validation split, with what is watched among them."""
        key = random.key(config.seed, "evaluate")
        values, _ = mean_loss(model, data.val, key, most=config.eval_examples, loss=loss)
        values |= robust_accuracy.measured(config, model, data)
        if self.predicted:
            found = _judged(model, data, key, config.eval_examples, top_of(self.name))
            values[self.name] = found[self.name]
        return values

    def takes(
        self, journal: dict[str, Any], values: Mapping[str, float], step: int, least: float, model: Model
    ) -> bool:
        """Whether a step is the best so far, or as good up to chance; the lowest so far is kept beside it.

        Measured from the lowest of all, so that steps that are each a little worse do not add up.
        """
        lowest = journal["lowest"] or dict(journal["best"])
        if self.improves(values, lowest, least):
            journal["lowest"] = {self.name: values[self.name], "step": step}
            return True
        journal["lowest"] = lowest
        chance = model.loss_resolution() if self.name == "loss" else 0.0
        return chance > 0 and self.improves(values, lowest, -chance)

    def improves(self, values: Mapping[str, float], best: Mapping[str, float], least: float) -> bool:
        """Whether these values are better than the best so far, by more than `least`."""
        value = self.sign * values[self.name]
        if not math.isfinite(value):
            return False
        return self.name not in best or value > self.sign * best[self.name] + least


def top_of(name: str) -> tuple[int, ...]:
    """The k of a top-k accuracy; nothing for other numbers.

    >>> top_of("top_3_accuracy"), top_of("accuracy")
    ((3,), ())
    """
    found = re.fullmatch(r"top_(\d+)_accuracy", name)
    return (int(found[1]),) if found else ()


def _judged(model: Model, data: Data, key: Key, most: int, top: tuple[int, ...]) -> dict[str, float]:
    split: Split = data.val if len(data.val) <= most else Subset(data.val, np.arange(most))
    predicted = predictions(Evaluation(model, data, split, len(data.val), key))
    judged = Judged(data.schema, predicted, np.asarray(split.y), data.target_scaling, top=top)
    return {name: metric.value for name, metric in scores.judge(judged).items()}


def _judged_names(model: Model, data: Data, top: tuple[int, ...]) -> list[str]:
    """The numbers that predictions will give, found with predictions that say nothing."""
    if not isinstance(model, CanPredict) or "y" not in data.val.arrays:
        return []
    shape = eqx.filter_eval_shape(model.predict, data.val.batch(np.zeros(1, np.int32)).x).shape
    y = np.asarray(data.val.y)
    silent = np.full((len(y), *shape[1:]), 0.5, np.float32)
    return list(scores.judge(Judged(data.schema, silent, y, data.target_scaling, top=top)))


__all__ = ["Watched", "direction", "top_of"]
