"""Predictions of a trained run for new inputs, chunk by chunk: memory does not grow with their number.

One compiled program of a fixed batch size serves all inputs; the last batch is filled up.
"""

import abc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, final

import jax.numpy as jnp
import numpy as np

from chainrule.core import progress
from chainrule.core.compiling import compiled
from chainrule.core.errors import CapabilityError, DataError
from chainrule.core.types import Array
from chainrule.data import kinds, targets
from chainrule.data.inputs.protocol import Given, InputChunk
from chainrule.data.target import Answers, Target
from chainrule.data.targets.labels import LabelsTarget
from chainrule.models.protocol import (
    CanContinue,
    CanEncode,
    CanPredict,
    CanSample,
    CanTranslate,
    HasPredictiveDistribution,
    HasSpoofScore,
    Model,
)
from chainrule.train import intervals, scores, thresholds
from chainrule.train.evaluation import BATCH
from chainrule.train.naming import handle
from chainrule.train.scoring import Judged, Metric
from chainrule.train.temperature import Temperature, at_temperature

if TYPE_CHECKING:
    from chainrule.train.run import Run

_BATCH_BYTES = 2**26
"""What the inputs of a batch may take in memory: of large images a batch holds fewer."""

Predict = Callable[[Any, Array], Array]


class Answered(NamedTuple):
    """Predictions for some inputs."""

    names: list[str]
    columns: Answers
    """What is predicted, a row for each input: NaN, or no word, where an input cannot be used."""


class Unanswered(NamedTuple):
    """An input that cannot be used."""

    name: str
    """As in the table of predictions."""
    where: str
    """The file, or the file and line, as a person would look for it."""
    reason: str


class Answering(abc.ABC):
    """Answers of a run to new inputs, made while one goes through them; what they are worth is known afterwards."""

    problems: list[Unanswered]
    """Inputs that cannot be used, so far."""
    count: int
    """Rows so far."""

    @abc.abstractmethod
    def __iter__(self) -> Iterator[Answered]:
        """The answers, in the order of the inputs."""

    @abc.abstractmethod
    def remarks(self) -> list[str]:
        """What has to be said about all of them."""

    def into(self, folder: Path) -> None:
        """Default: answers are rows of a table alone; otherwise they have files too, which go to this folder."""
        del folder

    def metrics(self) -> dict[str, Metric]:
        """Default: there is nothing to judge answers by; otherwise the scores of all so far."""
        return {}


@final
class Predictor(Answering):
    """Predictions of targets."""

    def __init__(
        self, run: "Run", given: Given, *, level: float = 0.9, temperature: Temperature | None = None
    ) -> None:
        intervals.check_level(level)
        self._predict = predict_function(run)
        self._model, self._prepared = run.model, run.preparation
        schema = self._prepared.schema
        self.inputs = kinds.of(schema).inputs(given, self._prepared)
        self._target: Target = targets.of(schema)
        self.notes: list[str] = []
        self._half: np.ndarray | None = None
        self._spread: Predict | None = None
        if self._target.has_values and isinstance(self._model, HasPredictiveDistribution):
            self._spread, self._reach = _deviation, intervals.deviations(level)
            self.notes.append(f"intervals of level {level:g}: by the model's own distribution of a new value")
        elif self._target.has_values:
            self._half, note = intervals.half_widths(run, level)
            self.notes.append(note)
        if self._target.has_labels:
            chosen = thresholds.of_run(run)
            self._target = LabelsTarget(chosen.values)
            self.notes.append(chosen.note(schema.classes))
        self._temperature = temperature
        if temperature is not None:
            self.notes.append(temperature.note())
        self.problems: list[Unanswered] = []
        self.count = 0
        self._unknown = 0
        self._judged: list[tuple[np.ndarray, np.ndarray]] = []

    def __iter__(self) -> Iterator[Answered]:
        most = max(1, min(BATCH, _BATCH_BYTES // (4 * self._prepared.schema.dimensions)))
        size = 0
        for chunk in self.inputs.chunks(most):
            # A few inputs need no large batch: the first chunk says whether there are more.
            size = size or min(most, 1 << max(len(chunk.x) - 1, 0).bit_length())
            yield self._answer(chunk, size)
            progress.update(f"predictions of {self.inputs.unit}", self.count, self.inputs.total)
        if not self.count:
            raise DataError(f"there are no {self.inputs.unit} to predict anything for")

    def metrics(self) -> dict[str, Metric]:
        """Scores of the inputs whose targets are there."""
        if not self._judged:
            return {}
        predicted, y = (np.concatenate(parts) for parts in zip(*self._judged, strict=True))
        prepared = self._prepared
        names = prepared.output_names
        return scores.judge(Judged(prepared.schema, predicted, y, prepared.target_scaling, outputs=names))

    def remarks(self) -> list[str]:
        """What intervals are, and whose targets are unknown."""
        found = [*filter(None, self.inputs.notes), *self.notes]
        if self._unknown and self._judged:
            found.append(
                f"the targets of {self._unknown:,} {self.inputs.unit} are not known to the run: not scored"
            )
        return found

    def _answer(self, chunk: InputChunk, size: int) -> Answered:
        predicted = in_batches(self._predict, self._model, chunk.x, size)
        if self._temperature is not None:
            predicted = at_temperature(predicted, self._temperature.value)
        self._remember(chunk, predicted)
        scaling, half = self._prepared.target_scaling, self._half
        if self._spread is not None:
            half = self._reach * in_batches(self._spread, self._model, chunk.x, size).astype(np.float64)
            half = half if scaling is None else half / np.abs(scaling.factor)
        if scaling is not None and len(predicted):
            predicted = scaling.inverse(predicted.astype(np.float64))
        if chunk.placements:
            predicted = self._target.restored(predicted, chunk.placements)
        columns = self._target.answers(self._prepared.schema, self._prepared.output_names, predicted, half)
        if isinstance(self._model, HasSpoofScore):
            columns = {**columns, "spoof_score": in_batches(_spoof_score, self._model, chunk.x, size)}
        names, rows = _rows(chunk, self._target.answer_rows(predicted))
        return Answered(names, {name: of_known(column, rows, len(names)) for name, column in columns.items()})

    def _remember(self, chunk: InputChunk, predicted: np.ndarray) -> None:
        self.problems += [
            Unanswered(chunk.names[row], chunk.faults[row].where, chunk.faults[row].reason)
            for row in sorted(chunk.faults)
        ]
        self.count += len(chunk.names)
        if chunk.targets is None:
            self._unknown += len(chunk.rows)
            return
        known = chunk.targets.known
        self._unknown += int((~known).sum())
        self._judged.append((predicted[known], chunk.targets.y[known]))


def predict_function(run: "Run") -> Predict:
    """What computes the predictions of a run's model; an error that names the right verb where it makes none."""
    model = run.model
    if isinstance(model, CanPredict):
        return _predict
    if isinstance(model, CanTranslate):
        return _translate
    raise no_predictions(run, model)


def no_predictions(run: "Run", model: Model) -> CapabilityError:
    """The error that says what a model does instead."""
    name = run.config["model"]["name"] or type(model).__name__
    score = f"how well it fits other data: chainrule score {handle(run.path)} data=FILE"
    if isinstance(model, CanContinue):
        does, remedy = (
            "writes texts",
            f"to go on with a text: chainrule sample {handle(run.path)} prompt=TEXT",
        )
    elif isinstance(model, CanSample):
        does, remedy = "draws new examples", f"to draw them: chainrule sample {handle(run.path)}"
    elif isinstance(model, CanEncode):
        does, remedy = "gives examples vectors", f"to write these: chainrule embed {handle(run.path)}"
    else:
        does, remedy = "has no targets", ""
    return CapabilityError(
        f"{name} {does} and predicts nothing about them", remedy="\n".join(filter(None, [remedy, score]))
    )


def in_batches(predict: Predict, model: Model, x: np.ndarray, size: int) -> np.ndarray:
    """Predictions for all rows, in batches of one size, so that one compiled program serves them all."""
    if not len(x):
        return np.asarray(predict(model, jnp.zeros((size, *x.shape[1:]), x.dtype)))[:0]
    found = []
    for first in range(0, len(x), size):
        part = x[first : first + size]
        filled = part if len(part) == size else np.resize(part, (size, *part.shape[1:]))
        found.append(np.asarray(predict(model, jnp.asarray(filled)))[: len(part)])
    return np.concatenate(found)


def _rows(chunk: InputChunk, of: np.ndarray | None) -> tuple[list[str], np.ndarray]:
    """Names of the rows of a table and where those with an answer stand; `of` says whose each answer is."""
    if of is None:
        return list(chunk.names), chunk.rows
    answered = chunk.rows[of]
    every = np.sort(np.concatenate([answered, np.array(sorted(chunk.faults), np.int64)]))
    return [chunk.names[row] for row in every], np.flatnonzero(np.isin(every, chunk.rows))


def of_known(column: np.ndarray, rows: np.ndarray, count: int) -> np.ndarray:
    """A column for all inputs: nothing where there is no prediction."""
    words = column.dtype.kind == "U"
    whole = np.full(count, "" if words else np.nan, column.dtype if words else np.float64)
    whole[rows] = column
    return whole


@compiled
def _predict(model: CanPredict, x: Array) -> Array:
    return model.predict(x)


@compiled
def _deviation(model: HasPredictiveDistribution, x: Array) -> Array:
    """The standard deviation of a new value at each example, in model units."""
    return jnp.sqrt(model.predictive(x).variance)


@compiled
def _spoof_score(model: HasSpoofScore, x: Array) -> Array:
    return model.spoof_score(x)


@compiled
def _translate(model: CanTranslate, x: Array) -> Array:
    return model.translate(x)


__all__ = [
    "Answered",
    "Answering",
    "Predictor",
    "Unanswered",
    "in_batches",
    "no_predictions",
    "of_known",
    "predict_function",
]
