"""Did adaptation help? The method beside what one gets without it, over several seeds, in one honest sentence.

Four trainings of one network: on the source alone, on the few labelled target examples alone, by the method (source
with targets, target without), and on the target with all its targets, which is all there is to gain. All are judged
on test examples of the target, whose targets nothing else has seen. Seeds of a training are one program, and the gain
is compared seed by seed. Where the method is below the source alone beyond its interval, that is negative transfer.

Reference: Ben-David et al., A theory of learning from different domains, 2010; Wang et al., Characterizing and avoiding
negative transfer, 2019, arXiv:1811.09751.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy import stats

from chainrule import models
from chainrule.core.errors import ArgumentError, DataError, DivergedError
from chainrule.core.types import Array
from chainrule.data.dataset import Data
from chainrule.data.domains import alike, few_of, pooled, training_split
from chainrule.data.splits import Rows, Split
from chainrule.models.protocol import CanPredict, Model
from chainrule.train.config import TrainConfig
from chainrule.train.loop import merge
from chainrule.train.seeds import SeedStepper

_LEVEL = 0.95


@final
@dataclass(frozen=True)
class AdaptationReport:
    """Accuracies on the target, of each training and seed."""

    accuracy: dict[str, Float[np.ndarray, " seeds"]]
    """By training: `source only`, `few target labels`, `method`, `oracle`; those that could be run."""
    source_accuracy: dict[str, Float[np.ndarray, " seeds"]]
    """The same on test examples of the source."""
    few: int
    """Labelled target examples of the second."""

    def interval(self, values: Float[np.ndarray, " seeds"]) -> tuple[float, float]:
        """Mean over seeds and the half-width of its 95 % interval by Student's t."""
        count = len(values)
        if count < 2:
            return float(values.mean()), math.inf
        half = stats.t.ppf(0.5 + _LEVEL / 2, count - 1) * values.std(ddof=1) / math.sqrt(count)
        return float(values.mean()), float(half)

    @property
    def gain(self) -> tuple[float, float]:
        """How much better the method is than the source alone, seed by seed, and the half-width of the interval."""
        return self.interval(self.accuracy["method"] - self.accuracy["source only"])

    @property
    def is_negative(self) -> bool:
        """Whether the method is worse than the source alone beyond its interval."""
        gain, half = self.gain
        return gain + half < 0

    @property
    def verdict(self) -> str:
        """The gain in words."""
        gain, half = (100 * value for value in self.gain)
        if not math.isfinite(half):
            return f"gain: {gain:+.1f} points with one seed, which says nothing of chance"
        if self.is_negative:
            return f"negative transfer: {gain:.1f} points ± {half:.1f}"
        kind = "gain" if gain > half else "no gain beyond chance"
        return f"{kind}: {gain:+.1f} points ± {half:.1f}"


def adaptation_report(
    data: Data,
    *,
    seeds: int = 5,
    few: int = 20,
    model: str = "dann",
    settings: Mapping[str, Any] | None = None,
    baseline: Mapping[str, Any] | None = None,
    **training: Any,
) -> AdaptationReport:
    """Train and judge the method and what it has to beat, on data with another domain beside them (`with_target`).

    `settings` are those of the model, `baseline` what changes in them where nothing is adapted to, `training` those of
    training. `few` target examples keep their targets in the second training; 0 leaves it out.
    """
    if data.other is None:
        raise ArgumentError(
            f"adaptation_report: {data.name} has no other domain",
            remedy="give it one: data.with_target(data, target)",
        )
    if "y" not in data.other.held_out()[0].arrays:
        raise DataError(
            f"{data.other.name} has no targets to judge by", remedy="take a target with some for evaluation"
        )
    if seeds < 1 or few < 0:
        raise ArgumentError(
            f"adaptation_report(seeds={seeds}, few={few}): at least one seed, and no fewer than 0 labels"
        )
    if few > len(data.other.train):
        raise ArgumentError(
            f"adaptation_report(few={few}): {data.other.name} has {len(data.other.train)} training examples",
            remedy=f"use {len(data.other.train)} or fewer",
        )
    own = dict(settings or {})
    plain = {**own, **({"align": "none"} if baseline is None else baseline)}
    alone = replace(data, other=None, labels=0)
    target = replace(data.other, schema=data.schema)
    assert isinstance(target.train, Rows), "another domain is made of rows"
    runs: dict[str, tuple[Data, dict[str, Any]]] = {"source only": (alone, plain)}
    if few:
        chosen = few_of(target.train, few)
        labelled = {name: array[chosen] for name, array in target.train.arrays.items()}
        runs["few target labels"] = (replace(target, train=replace(target.train, arrays=labelled)), plain)
    runs |= {"method": (data, own), "oracle": (target, plain)}
    found: dict[str, dict[str, list[float]]] = {"target": {}, "source": {}}
    for name, (seen, config) in runs.items():
        trained = train_seeds(model, seen, seeds, config, training)
        for where, split in (("target", data.other.held_out()[0]), ("source", data.held_out()[0])):
            found[where][name] = [accuracy_of(one, split) for one in trained]
    target_side, source_side = ({n: np.array(v) for n, v in found[w].items()} for w in ("target", "source"))
    return AdaptationReport(target_side, source_side, few)


def train_seeds(
    model: str, data: Data, seeds: int, settings: Mapping[str, Any], training: Mapping[str, Any]
) -> list[Model]:
    """Models of several seeds as they are after the last step, trained in one program."""
    defaults = merge(models.entry(model).training_for(data.schema), training)
    config = TrainConfig.parse(**merge({"steps": 1000}, defaults))
    split = training_split(data)
    config = config.model_copy(update={"batch": min(config.batch, len(split))})
    steps = config.total_steps(len(split) / config.batch)
    starts = [models.build(model, data, seed=number, **settings) for number in range(seeds)]
    stepper = SeedStepper(starts, list(range(seeds)), config, split, steps=steps, most=steps)
    states = stepper.start()
    states, _, done = stepper.run(states, 0, np.full(seeds, steps))
    if (done < steps).any():
        raise DivergedError(
            f"the loss of seed {int(np.argmax(done < steps))} was not finite",
            remedy="try a lower optimizer.lr",
        )
    return [eqx.nn.inference_mode(stepper.model(states, number)) for number in range(seeds)]


def accuracy_of(model: Model, split: Split) -> float:
    """The share of examples whose class a model predicts."""
    assert isinstance(model, CanPredict), "classifiers are compared"
    said = np.asarray(_predicted(model, jnp.asarray(split.x))).argmax(axis=1)
    return float((said == np.asarray(split.y)).mean())


@eqx.filter_jit
def _predicted(model: Any, x: Array) -> Array:
    return model.predict(x)


def leave_one_out(
    domains: Sequence[Data],
    *,
    model: str = "mlp",
    seeds: int = 3,
    settings: Mapping[str, Any] | None = None,
    **training: Any,
) -> Float[np.ndarray, "domains seeds"]:
    """Accuracy on each domain of models that were trained on all the others and have seen nothing of it."""
    if len(domains) < 2:
        raise ArgumentError(f"leave_one_out: {len(domains)} domains", remedy="give two or more")
    rows = []
    for number, held in enumerate(domains):
        joined = pooled([one for i, one in enumerate(domains) if i != number])
        trained = train_seeds(model, joined, seeds, dict(settings or {}), training)
        unseen = alike(held.held_out()[0], held, joined)
        rows.append([accuracy_of(one, unseen) for one in trained])
    return np.array(rows)


__all__ = ["AdaptationReport", "accuracy_of", "adaptation_report", "leave_one_out", "train_seeds"]
