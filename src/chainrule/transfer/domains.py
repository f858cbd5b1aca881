"""Domain pair: labelled examples of a source and examples of a target, whose labels are kept back as they should be.

Whether target labels may be used is decided once, here: "none" are there, a "few" of each class may be learnt from, or
they are there for evaluation ("eval") and nothing else. In the last two cases those that may not be used are taken out
of the splits, so that a trainer that asks for them meets an error instead of a leak; `evaluate` alone knows them.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, final, get_args

import numpy as np
from jaxtyping import Int

from chainrule.core.checks import check_class_numbers, whole
from chainrule.core.errors import ArgumentError, CapabilityError, DataError, check_choice
from chainrule.data import targets
from chainrule.data.batches import Batch, Batches
from chainrule.data.dataset import Data
from chainrule.data.division import NAMES
from chainrule.data.domains import check_inputs, coloured_alike, in_units, warn_of_same
from chainrule.data.matching_classes import LabelMap, matched, some_of_each
from chainrule.data.splits import Rows, Split, Subset
from chainrule.data.withheld import withheld

TargetLabels = Literal["none", "few", "eval"]
Extractors = Literal["shared", "separate"]


@final
@dataclass(frozen=True)
class DomainTask:
    """What is to be predicted: the kind of target, and the names of its classes where it has any."""

    target: str
    classes: tuple[str, ...] = ()

    @classmethod
    def of(cls, data: Data) -> "DomainTask":
        """The task that data come with."""
        return cls(data.schema.target, data.schema.classes)


class PairBatch(NamedTuple):
    """As many examples of the source as of the target; those of the target have no targets."""

    source: Batch
    target: Batch

    @property
    def domains(self) -> Int[np.ndarray, " batch"]:
        """0 for every example of the source, 1 for every one of the target, in this order."""
        return np.repeat(np.arange(2, dtype=np.int32), [len(self.source.x), len(self.target.x)])


class TargetScore(NamedTuple):
    """How good predictions are on the target."""

    name: str
    """"accuracy", or "mean squared error" in model units for numbers."""
    value: float
    error: float
    """The standard error of the value."""
    examples: int

    def __str__(self) -> str:
        return f"{self.name} {self.value:.4f} ± {self.error:.4f} ({self.examples:,} examples)"


@final
@dataclass(frozen=True)
class PairBatches:
    """Which examples form the batch of a step: a half of each domain, each drawn anew when it has been gone through."""

    source: Batches
    target: Batches

    def indices(
        self, first: int, count: int
    ) -> tuple[Int[np.ndarray, "count half"], Int[np.ndarray, "count half"]]:
        """Numbers of source and of target examples of `count` steps from step `first` on."""
        return self.source.indices(first, count), self.target.indices(first, count)


@final
class DomainPair:
    """A source with labels and a target with as many as may be used.

    `source` and `target` are data with the same inputs; target examples are put into the units of the source. Tasks are
    read from the data; `label_map` takes names of target classes to those of the source where they differ. `few` is the
    number of labelled target examples of each class for `target_labels="few"`.

    >>> from chainrule.data import load
    >>> pair = DomainPair(load("moons", n=100), load("moons", n=60, seed=1), target_labels="eval")
    >>> next(pair.loader(32)).target.x.shape, pair.evaluate(np.zeros(6)).value
    ((16, 2), 0.5)
    """

    source: Data
    target: Data
    """The target without the labels that may not be used."""
    few: Split | None
    """The labelled target examples that may be learnt from, numbered as classes of the source."""
    task_s: DomainTask
    task_t: DomainTask
    target_labels: TargetLabels

    def __init__(
        self,
        source: Data,
        target: Data,
        task_s: DomainTask | None = None,
        task_t: DomainTask | None = None,
        *,
        target_labels: str = "none",
        few: int = 5,
        label_map: LabelMap | None = None,
        extractors: str = "shared",
        seed: int = 0,
    ) -> None:
        check_choice("DomainPair", "target_labels", target_labels, get_args(TargetLabels))
        check_choice("DomainPair", "extractors", extractors, get_args(Extractors))
        if not len(target.train):
            raise DataError(f"the target {target.name} has no examples", remedy="give data with some")
        if extractors == "shared":
            source, target = coloured_alike(source, target)
            check_inputs(source, target, ', or use two networks: extractors="separate"')
            target = in_units(target, source)
        warn_of_same(source, target)
        self.source, self.target_labels = source, target_labels  # type: ignore[assignment]  # checked above
        self.task_s, self.task_t = task_s or DomainTask.of(source), task_t or DomainTask.of(target)
        self._numbers = self._matching(label_map)
        labels = {} if target_labels == "none" else self._labels(target)
        self.few, self._answers = None, labels
        if target_labels == "few":
            rows = some_of_each(labels["train"], whole("DomainPair", "few", few), seed)
            self.few = Rows({"x": np.asarray(target.train.batch(rows).x), "y": labels["train"][rows]})
            rest = np.setdiff1d(np.arange(len(target.train)), rows)
            if not len(rest):
                raise ArgumentError(
                    f"DomainPair(few={few}): {target.name} has {len(rows)} training examples, all would be labelled",
                    remedy="choose fewer of each class, or train on the target itself",
                )
            labels["train"] = labels["train"][rest]
            target = replace(target, train=Subset(target.train, rest))
        self.target = withheld(target)

    def __repr__(self) -> str:
        return (
            f"DomainPair({self.source.name!r} to {self.target.name!r}, target_labels={self.target_labels!r})"
        )

    @property
    def shared_task(self) -> bool:
        """Whether both domains are labelled with the same classes, as far as labels of the target are known."""
        return not self.task_t.classes or self._numbers is not None

    def require_shared_task(self, method: str) -> None:
        """Raise unless both domains have the same classes, which methods of adaptation assume."""
        if not self.shared_task:
            raise CapabilityError(
                f"{method} assumes one task: the source has the classes {_shown(self.task_s)}, "
                f"the target {_shown(self.task_t)}",
                remedy="map them: label_map={'target class': 'source class'}, or fine-tune with a new head instead",
            )

    def batches(self, size: int = 128, seed: int = 0) -> PairBatches:
        """The training stream: batches of `size`, half of them of either domain."""
        if whole("DomainPair", "size", size, least=2) % 2:
            raise ArgumentError(
                f"DomainPair(size={size}): halves of a batch are equal", remedy=f"use size={size + 1}"
            )
        half = size // 2
        for data in (self.source, self.target):
            if len(data.train) < half:
                raise ArgumentError(
                    f"size={size}: {data.name} has {len(data.train)} training examples, half a batch is {half}",
                    remedy=f"use size={2 * len(data.train)}, or give more examples",
                )
        # Domains of one size would otherwise be gone through in the same order.
        return PairBatches(
            Batches(len(self.source.train), half, seed),
            Batches(len(self.target.train), half, seed + (1 << 32)),
        )

    def loader(self, size: int = 128, seed: int = 0) -> Iterator[PairBatch]:
        """Batches without end: equal halves of both domains, the smaller one gone through more often."""
        stream = self.batches(size, seed)  # refused here, not when the first batch is asked for

        def batches() -> Iterator[PairBatch]:
            for step in itertools.count():
                (first,), (second,) = stream.indices(step, 1)
                yield PairBatch(self.source.train.batch(first), self.target.train.batch(second))

        return batches()

    def evaluate(self, predicted: Any, split: str = "test") -> TargetScore:
        """Predictions for a split of the target beside the labels that are kept back.

        `predicted` are class numbers or probabilities of the source's classes, or numbers in model units.
        """
        check_choice("evaluate", "split", split, NAMES)
        if not self._answers:
            raise CapabilityError(
                "the target has no labels to judge by",
                remedy='with labels that are there for evaluation: target_labels="eval"',
            )
        truth, found = self._answers[split], np.asarray(predicted)
        if len(found) != len(truth):
            raise ArgumentError(
                f"evaluate: {len(found)} predictions for {len(truth)} target examples of {split}",
                remedy="predict pair.target.split(split).x, in its order",
            )
        return _judged(self.task_s, truth, found)

    def _matching(self, label_map: LabelMap | None) -> list[int] | None:
        if self.task_s.target != self.task_t.target and self.task_t.classes:
            return None
        return matched(self.task_s.classes, self.task_t.classes, label_map)

    def _labels(self, target: Data) -> dict[str, np.ndarray]:
        """The labels of every split, numbered as classes of the source where they are the same."""
        if not targets.of(target.schema).given:
            raise DataError(
                f'target_labels="{self.target_labels}": {target.name} has no labels',
                remedy='use target_labels="none"',
            )
        if self.task_t.classes:
            self.require_shared_task(f'target_labels="{self.target_labels}"')
        found = {name: np.asarray(target.split(name).y) for name in NAMES}
        if self._numbers and self.task_t.classes:
            numbers = np.asarray(self._numbers, np.int32)
            found = {name: numbers[y] for name, y in found.items()}
        return found


def _judged(task: DomainTask, truth: np.ndarray, found: np.ndarray) -> TargetScore:
    if task.classes:
        if found.ndim == 1:
            check_class_numbers("evaluate", "predicted", found, len(task.classes))
        elif found.shape[1:] != (len(task.classes),):
            raise ArgumentError(
                f"evaluate(predicted): shape {found.shape}, the source has {len(task.classes)} classes",
                remedy="give class numbers, or probabilities of the source's classes",
            )
        right = (found.argmax(axis=1) if found.ndim == 2 else found) == truth
        share = float(right.mean())
        return TargetScore("accuracy", share, math.sqrt(share * (1 - share) / len(truth)), len(truth))
    squares = np.square(found.reshape(truth.shape) - truth).reshape(len(truth), -1).mean(axis=1)
    error = float(squares.std(ddof=1) / math.sqrt(len(truth))) if len(truth) > 1 else math.nan
    return TargetScore("mean squared error", float(squares.mean()), error, len(truth))


def _shown(task: DomainTask) -> str:
    names = ", ".join(task.classes[:6]) or f"targets of kind {task.target!r}"
    return names + (", ..." if len(task.classes) > 6 else "")


__all__ = ["DomainPair", "DomainTask", "PairBatch", "PairBatches", "TargetLabels", "TargetScore"]
