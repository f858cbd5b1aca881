"""Temperature scaling: one number, fitted on validation examples, by which probabilities of classes are made honest.

Logits are divided by a temperature, which changes no order and no accuracy (Guo et al., On calibration of modern neural
networks, 2017). The cross-entropy is convex in its inverse, so that there is one best temperature, found by Newton's
method inside a bracket that bisection closes where a Newton step would leave it.
"""

import contextlib
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, final

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from chainrule.core import random
from chainrule.core.checks import check_class_numbers
from chainrule.core.errors import ArgumentError, DiskError
from chainrule.core.formatting import short_number
from chainrule.data import targets
from chainrule.models.protocol import CanPredict
from chainrule.train.files import read_own, write_json
from chainrule.train.scores.classification import calibration
from chainrule.train.scoring import Evaluation, predictions

if TYPE_CHECKING:
    from chainrule.train.run import Run

FILE = "temperature.json"
LARGEST = 20.0
"""Temperatures lie between this and its inverse: where every example is right, none is too low."""
_TINY = np.finfo(np.float32).tiny


@final
@dataclass(frozen=True)
class Temperature:
    """A temperature, and what it does to the validation examples it was fitted on."""

    value: float
    examples: int
    """Validation examples."""
    before: float
    """Their calibration error as the model gives probabilities."""
    after: float
    """The same at this temperature."""

    def note(self) -> str:
        """What was done, in words."""
        if self.value == 1:
            return (
                f"probabilities as the model gives them: all of the {self.examples:,} validation examples are right, "
                "which fits no temperature"
            )
        errors = f"calibration error {short_number(self.before)} before, {short_number(self.after)} after"
        heat = short_number(self.value)
        return f"probabilities at temperature {heat}, fitted on {self.examples:,} validation examples: there {errors}"


def fit_temperature(logits: ArrayLike, labels: ArrayLike) -> float:
    """The temperature that gives the labels, class numbers, the lowest cross-entropy, between 1/20 and 20.

    >>> logits = np.log([[0.99, 0.01], [0.99, 0.01], [0.99, 0.01], [0.01, 0.99]])
    >>> sure = fit_temperature(logits, np.array([0, 0, 1, 1]))  # right three times in four
    >>> round(float(at_temperature(np.exp(logits), sure)[0, 0]), 6)
    0.75
    """
    logits, labels = np.asarray(logits), np.asarray(labels)
    if logits.ndim != 2 or labels.shape != logits.shape[:1] or not len(labels):
        raise ArgumentError(
            f"fit_temperature: logits of shape {logits.shape} and labels of shape {labels.shape}",
            remedy="give a row of logits, one for each class, and one class number for each example",
        )
    check_class_numbers("fit_temperature", "labels", labels, logits.shape[1])
    z = logits.astype(np.float64)
    z -= z.max(axis=1, keepdims=True)
    own = z[np.arange(len(z)), labels].mean()

    def slopes(inverse: float) -> tuple[float, float]:
        """First and second derivative of the cross-entropy by the inverse temperature."""
        p = np.exp(inverse * z)
        p /= p.sum(axis=1, keepdims=True)
        mean = (p * z).sum(axis=1)
        return float(mean.mean() - own), float(((p * z * z).sum(axis=1) - mean**2).mean())

    low, high = 1 / LARGEST, LARGEST
    if slopes(low)[0] >= 0:
        return LARGEST
    if slopes(high)[0] <= 0:
        return 1 / LARGEST
    inverse = 1.0
    while high - low > 1e-12 * high:
        first, second = slopes(inverse)
        low, high = (low, inverse) if first > 0 else (inverse, high)
        newton = inverse - first / second if second > 0 else low
        if abs(newton - inverse) <= 1e-12 * inverse:
            break
        inverse = newton if low < newton < high else (low + high) / 2
    return 1 / inverse


def at_temperature(
    probabilities: Float[np.ndarray, "examples classes"], temperature: float
) -> Float[np.ndarray, "examples classes"]:
    """Probabilities as they would be with their logits divided by the temperature.

    >>> at_temperature(np.array([[0.8, 0.2]]), 2.0).round(4).tolist()
    [[0.6667, 0.3333]]
    """
    z = np.log(np.maximum(probabilities.astype(np.float64), _TINY)) / temperature
    p = np.exp(z - z.max(axis=1, keepdims=True))
    return (p / p.sum(axis=1, keepdims=True)).astype(probabilities.dtype)


def of_run(run: "Run") -> Temperature:
    """The temperature of a run, kept in its folder, so that it is fitted once and known without the data."""
    if not (targets.of(run.schema).one_class and isinstance(run.model, CanPredict)):
        raise ArgumentError(
            "calibrated=true: only probabilities of classes have a temperature", remedy="leave calibrated out"
        )
    found = _kept(run)
    if found is None:
        found = _computed(run)
        kept = {"step": run.step, **asdict(found)}
        with contextlib.suppress(DiskError):  # a run that cannot be written to predicts all the same
            write_json(run.path / FILE, kept)
    return found


def _computed(run: "Run") -> Temperature:
    data = run.data
    if not len(data.val):
        raise ArgumentError(
            "calibrated=true: the temperature is fitted on validation examples, and there are none",
            remedy="train with some: data.split=0.8,0.1,0.1",
        )
    evaluation = Evaluation(run.model, data, data.val, len(data.val), random.key(0, "score"))
    p, y = predictions(evaluation), np.asarray(data.val.y)
    if (p.argmax(axis=1) == y).all():  # the surer the better: no temperature would be too low
        return Temperature(1.0, len(y), calibration(p, y)[0], calibration(p, y)[0])
    value = fit_temperature(np.log(np.maximum(p.astype(np.float64), _TINY)), y)
    return Temperature(value, len(y), calibration(p, y)[0], calibration(at_temperature(p, value), y)[0])


def _kept(run: "Run") -> Temperature | None:
    """What was written for the checkpoint that predicts."""
    try:
        found = json.loads(read_own(run.path / FILE))
        errors = float(found["before"]), float(found["after"])
        kept = Temperature(float(found["value"]), int(found["examples"]), *errors)
        return kept if found["step"] == run.step and 1 / LARGEST <= kept.value <= LARGEST else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None  # not there, or not ours: it is fitted again


__all__ = ["FILE", "LARGEST", "Temperature", "at_temperature", "fit_temperature", "of_run"]
