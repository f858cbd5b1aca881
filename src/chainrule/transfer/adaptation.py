"""Did adaptation help? The method beside what one gets without it, over several seeds, in one honest sentence.

Four trainings of one network: on the source alone, on the few labelled target examples alone, by the method (source
with targets, target without), and on the target with all its targets, which is all there is to gain. All are judged
on test examples of the target, whose targets nothing else has seen. Seeds of a training are one program, and the gain
is compared seed by seed; with one seed, example by example, which tells chance in the examples and not in the training.
Where the method is below the source alone beyond its interval, that is negative transfer.

Reference: Ben-David et al., A theory of learning from different domains, 2010; Wang et al., Characterizing and avoiding
negative transfer, 2019, arXiv:1811.09751.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float
from scipy import stats

from chainrule import models
from chainrule.core.errors import ArgumentError, DataError, DivergedError
from chainrule.core.progress import update
from chainrule.core.types import Array
from chainrule.data.dataset import Data
from chainrule.data.domains import alike, few_of, pooled, training_split
from chainrule.data.splits import Rows, Split
from chainrule.models.protocol import CanPredict, Model
from chainrule.train.config import TrainConfig
from chainrule.train.loop import merge
from chainrule.train.seeds import SeedStepper

_LEVEL = 0.95
_CALL = 100
"""Steps of a compiled call, so that Ctrl-C is heard and progress is seen."""


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
    right: dict[str, Bool[np.ndarray, " examples"]] = field(default_factory=dict)
    """With one seed, which test examples of the target each training is right on; empty with several."""

    def judged(self, training: str) -> Float[np.ndarray, " draws"]:
        """What the accuracy of a training is the mean of: seeds, or the test examples of one seed."""
        return self.right[training].astype(float) if self.right else self.accuracy[training]

    def interval(self, values: Float[np.ndarray, " draws"]) -> tuple[float, float]:
        """Mean and the half-width of its 95 % interval by Student's t."""
        count = len(values)
        if count < 2:
            return float(values.mean()), math.inf
        half = stats.t.ppf(0.5 + _LEVEL / 2, count - 1) * values.std(ddof=1) / math.sqrt(count)
        return float(values.mean()), float(half)

    @property
    def gain(self) -> tuple[float, float]:
        """How much better the method is than the source alone, each beside each, and the half-width of the interval."""
        return self.interval(self.judged("method") - self.judged("source only"))

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
        seeds = ", one seed" if self.right else ""
        if self.is_negative:
            return f"negative transfer: {gain:.1f} points ± {half:.1f}{seeds}"
        kind = "gain" if gain > half else "no gain beyond chance"
        return f"{kind}: {gain:+.1f} points ± {half:.1f}{seeds}"


def adaptation_report(
    data: Data,
    *,
    seeds: int = 5,
    few: int = 20,
    model: str = "dann",
    settings: Mapping[str, Any] | None = None,
    baseline: Mapping[str, Any] | None = None,
    trained: Model | None = None,
    seed: int = 0,
    **training: Any,
) -> AdaptationReport:
    """Train and judge the method and what it has to beat, on data with another domain beside them (`with_target`).

    `settings` are those of the model, `baseline` what changes in them where nothing is adapted to, `training` those of
    training. `few` target examples keep their targets in the second training; 0 leaves it out. `seed` is the first of
    the seeds. With one seed, `trained` is a model that the method gave already and that is not trained anew.
    """
    other = _comparable(data, model, seeds, few)
    if trained is not None and seeds != 1:
        raise ArgumentError(
            f"adaptation_report(trained=..., seeds={seeds}): a model that is trained is one seed",
            remedy="use seeds=1, or leave trained out",
        )
    own = dict(settings or {})
    plain = {**own, **(models.entry(model).unadapted if baseline is None else baseline)}
    alone = replace(data, other=None, labels=0)
    target = replace(other, schema=data.schema)
    assert isinstance(target.train, Rows), "another domain is made of rows"
    runs: dict[str, tuple[Data, dict[str, Any]]] = {"source only": (alone, plain)}
    if few:
        chosen = few_of(target.train, few)
        labelled = {name: array[chosen] for name, array in target.train.arrays.items()}
        runs["few target labels"] = (replace(target, train=replace(target.train, arrays=labelled)), plain)
    runs |= {"method": (data, own), "oracle": (target, plain)}
    there: dict[str, list[np.ndarray]] = {}
    here: dict[str, np.ndarray] = {}
    for name, (seen, config) in runs.items():
        if name == "method" and trained is not None:
            judged = [trained]
        else:
            judged = train_seeds(model, seen, seeds, config, training, seed=seed, name=name)
        there[name] = [_right(one, other.held_out()[0]) for one in judged]
        here[name] = np.array([accuracy_of(one, data.held_out()[0]) for one in judged])
    accuracy = {name: np.array([one.mean() for one in right]) for name, right in there.items()}
    alone_right = {name: right[0] for name, right in there.items()} if seeds == 1 else {}
    return AdaptationReport(accuracy, here, few, alone_right)


def _comparable(data: Data, model: str, seeds: int, few: int) -> Data:
    """The other domain, where a comparison can be made with it; raises what stands in the way."""
    if not models.entry(model).target_data:
        adapting = [name for name in models.names() if models.entry(name).target_data]
        raise ArgumentError(
            f"adaptation_report(model={model!r}): {model} learns from one domain and adapts to no other",
            remedy=f"models that do: {', '.join(adapting)}",
        )
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
    return data.other


def train_seeds(
    model: str,
    data: Data,
    seeds: int,
    settings: Mapping[str, Any],
    training: Mapping[str, Any],
    *,
    seed: int = 0,
    name: str = "training",
) -> list[Model]:
    """Models of several seeds, from `seed` on, as they are after the last step, trained in one program.

    `name` is what is said of it while it goes on.
    """
    numbers = range(seed, seed + seeds)
    defaults = merge(models.entry(model).training_for(data.schema), training)
    config = TrainConfig.parse(**merge({"steps": 1000}, defaults))
    split = training_split(data)
    config = config.model_copy(update={"batch": min(config.batch, len(split))})
    steps = config.total_steps(len(split) / config.batch)
    starts = [models.build(model, data, seed=number, **settings) for number in numbers]
    stepper = SeedStepper(starts, numbers, config, split, steps=steps, most=min(_CALL, steps))
    states = stepper.start()
    for first in range(0, steps, _CALL):
        update(name, first, steps)
        count = min(_CALL, steps - first)
        states, _, done = stepper.run(states, first, np.full(seeds, count))
        if (done < count).any():
            raise DivergedError(
                f"the loss of seed {numbers[int(np.argmax(done < count))]} was not finite",
                remedy="try a lower optimizer.lr",
            )
    return [eqx.nn.inference_mode(stepper.model(states, number)) for number in range(seeds)]


def accuracy_of(model: Model, split: Split) -> float:
    """The share of examples whose class a model predicts."""
    return float(_right(model, split).mean())


def _right(model: Model, split: Split) -> Bool[np.ndarray, " examples"]:
    """On which examples a model is right."""
    assert isinstance(model, CanPredict), "classifiers are compared"
    said = np.asarray(_predicted(model, jnp.asarray(split.x))).argmax(axis=1)
    return np.asarray(said == np.asarray(split.y))


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
