"""Scores: numbers that judge a model, and what one file of `train/scores` has to say.

Everything is computed example by example and reduced once over the whole split, never as a mean of batch means.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, final

import numpy as np

from chainrule.core import notebook
from chainrule.core.errors import ArgumentError
from chainrule.core.quoting import plain
from chainrule.core.types import Key
from chainrule.data import targets
from chainrule.data.dataset import Data
from chainrule.data.scaling import Scaling
from chainrule.data.schema import Schema
from chainrule.data.splits import Split
from chainrule.data.target import Target
from chainrule.models.protocol import CanPredict, Model
from chainrule.train.evaluation import over


@final
@dataclass(frozen=True)
class Metric:
    """A number with its unit and, where it is a mean over examples, its standard error."""

    value: float
    unit: str = ""
    stderr: float | None = None
    kind: str = ""
    """Of likelihoods: whether the number is exact, a bound or an estimate, and how it was come by."""
    basis: str = ""
    """Of distances of samples: how many were compared, and in which features; only numbers of one basis compare."""

    def __str__(self) -> str:
        error = f" ± {self.stderr:.2g}" if self.stderr is not None else ""
        said = f" ({self.kind})" if self.kind else ""
        return f"{self.value:.4g}{error}{' ' + self.unit if self.unit else ''}{said}"

    def to_json(self) -> dict[str, Any]:
        """Plain values, without a kind or a basis where there is none."""
        return {name: value for name, value in asdict(self).items() if name not in ("kind", "basis") or value}


def check_comparable(name: str, found: Mapping[str, Metric]) -> None:
    """Raise where a number of several runs, by their names, does not rest on the same basis.

    >>> few, many = (Metric(1.0, basis=f"{n} samples") for n in (100, 500))
    >>> check_comparable("kernel_distance", {"one": few, "other": many})
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: kernel_distance of one (100 samples) and of other (500 samples) do not compare
           score all of them with the same number of samples, on the same data, on one machine
    """
    (first, one), *others = found.items()
    for run, metric in others:
        if metric.basis != one.basis:
            raise ArgumentError(
                f"{name} of {plain(first)} ({one.basis or 'no samples'}) and of {plain(run)} "
                f"({metric.basis or 'no samples'}) do not compare",
                remedy="score all of them with the same number of samples, on the same data, on one machine",
            )


@final
class Scores(dict[str, Metric]):
    """Scores by name, which a notebook shows as a table."""

    def _repr_html_(self) -> str:
        return notebook.table(["score", "value"], self.items())


@final
@dataclass(frozen=True)
class Evaluation:
    """What is judged, on what."""

    model: Model
    """In inference mode."""
    data: Data
    split: Split
    """The examples to judge the model by: a split of the data, or some of its examples."""
    of: int
    """How many examples the whole split has."""
    key: Key
    stride: int | None = None
    """Texts: tokens between the ends of two windows; half a window unless given."""
    positive: str | None = None
    """Two classes: the one that is looked for; the second unless given."""
    top: tuple[int, ...] = ()
    """Classes: among how many of the likeliest the true one is looked for, beside the usual numbers."""
    temperature: float | None = None
    """Classes: a temperature at which probabilities are judged too."""
    thresholds: np.ndarray | None = None
    """Labels: the probability from which on each is said to be there, as judged beside one half."""
    k: int | None = None
    """Latent variables: codes by which the likelihood of an example is estimated; 100 unless given.

    Densities of data with levels: draws of the noise between these; one unless given.
    """
    samples: int | None = None
    """Models that sample: examples they draw to be compared with real ones; as many as suit the data unless given."""


@final
@dataclass(frozen=True)
class Judged:
    """Predictions beside the targets, and what both mean."""

    schema: Schema
    predicted: np.ndarray
    """What `CanPredict.predict` gives for each example."""
    y: np.ndarray
    """The target of each, as a split keeps it."""
    target_scaling: Scaling | None = None
    positive: str | None = None
    """Two classes: the one that is looked for; the second unless given."""
    outputs: tuple[str, ...] = ()
    """Names of several outputs; they are numbered unless given."""
    top: tuple[int, ...] = ()
    """Classes: among how many of the likeliest the true one is looked for, beside the usual numbers."""


@final
@dataclass(frozen=True)
class Score:
    """Numbers of one kind. A file of `train/scores` that holds one registers it."""

    summary: str
    """One line."""
    applies: Callable[[Evaluation], bool]
    """Whether these numbers exist for this model and these data; asks for capabilities, never for names of models."""
    measure: Callable[[Evaluation], dict[str, Metric]]
    """The numbers by name; a name that an earlier score gave is replaced."""
    order: int = 50
    """Scores are computed and shown from low to high."""
    costly: Callable[[Evaluation], bool] = lambda evaluation: False
    """Whether an example takes many evaluations of the model; some examples then stand for all by default."""
    strided: bool = False
    """Whether it reads text in windows, `stride` tokens apart."""
    suits: Callable[[Target], bool] = lambda target: False
    """Whether predictions of such a target are enough to compute it, by `judge`."""
    judge: Callable[[Judged], dict[str, Metric]] = lambda judged: {}
    """The same numbers as `measure` gives, from predictions and targets alone."""


def of_predictions(
    summary: str, suits: Callable[[Target], bool], judge: Callable[[Judged], dict[str, Metric]]
) -> Score:
    """A score that compares predictions with targets, whichever model they come from."""

    def applies(evaluation: Evaluation) -> bool:
        return isinstance(evaluation.model, CanPredict) and suits(targets.of(evaluation.data.schema))

    def measure(evaluation: Evaluation) -> dict[str, Metric]:
        data, y = evaluation.data, np.asarray(evaluation.split.y)
        predicted = predictions(evaluation)
        columns = data.reading.targets if data.reading is not None else ()
        asked = evaluation.positive, columns, evaluation.top
        return judge(Judged(data.schema, predicted, y, data.target_scaling, *asked))

    return Score(summary, applies, measure, order=10, suits=suits, judge=judge)


def mean(values: np.ndarray, unit: str = "", kind: str = "") -> Metric:
    """The mean over examples and its standard error."""
    values = np.asarray(values, np.float64)
    return Metric(float(values.mean()), unit, float(values.std() / math.sqrt(len(values))), kind)


def predictions(evaluation: Evaluation) -> np.ndarray:
    """What the model predicts for every example."""
    assert isinstance(evaluation.model, CanPredict), "ask what applies first"
    return np.asarray(
        over(
            "predictions",
            lambda model, batch, key: model.predict(batch.x),
            evaluation.model,
            evaluation.split,
            evaluation.key,
        )
    )


__all__ = [
    "Evaluation",
    "Judged",
    "Metric",
    "Score",
    "Scores",
    "check_comparable",
    "mean",
    "of_predictions",
    "predictions",
]
