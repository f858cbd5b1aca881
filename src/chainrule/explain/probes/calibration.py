"""Calibration of a classifier: how often it is right at each confidence, as it is and at a fitted temperature."""

from typing import final

import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.pictures import Bars, Lines, Table
from chainrule.data import targets
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.models.protocol import CanPredict, Model
from chainrule.train import Run
from chainrule.train.scores.classification import calibration, wilson
from chainrule.train.scoring import Evaluation, predictions
from chainrule.train.temperature import at_temperature, of_run

_TINY = np.finfo(np.float64).tiny


@final
class CalibrationSettings(Settings):
    """How confidence is grouped."""

    bins: int = Field(15, ge=1, le=1000, description="groups of confidence, equally wide")


def examine(run: Run, data: Data, settings: CalibrationSettings) -> Outcome:
    """Reliability before and after temperature scaling; the temperature is that of the validation examples."""
    part, said = data.held_out()
    y = np.asarray(part.y)
    before = predictions(Evaluation(run.model, data, part, len(part), random.key(0, "score"))).astype(
        np.float64
    )
    fitted = of_run(run)
    both = {"as it is": before, f"at temperature {fitted.value:.3g}": at_temperature(before, fitted.value)}
    series: dict[str, tuple[np.ndarray, ...]] = {}
    counts: dict[str, np.ndarray] = {}
    rows: list[tuple[str, float, float, float]] = []
    numbers = {}
    for name, p in both.items():
        error, confidence, accuracy, count = calibration(p, y, settings.bins)
        some = count > 0
        series[name] = (confidence[some], accuracy[some], *wilson(accuracy[some], count[some]))
        counts[name] = count / len(y)
        loss = float(-np.log(np.maximum(np.take_along_axis(p, y[:, None], axis=1), _TINY)).mean())
        excess = float(p.max(axis=1).mean() - (p.argmax(axis=1) == y).mean())
        rows.append((name, error, excess, loss))
        numbers[name] = {"calibration_error": error, "overconfidence": excess, "loss": loss}
    edges = np.arange(settings.bins) / settings.bins
    return Outcome(
        [
            f"The calibration error is {rows[0][1]:.3g}, at the temperature {fitted.value:.3g} it is {rows[1][1]:.3g}: "
            f"mean confidence minus accuracy is {rows[0][2]:+.3g} and {rows[1][2]:+.3g}.",
            f"The temperature was fitted on {fitted.examples:,} validation examples; it changes no predicted class.",
            *said,
        ],
        [
            Lines(
                "calibration",
                "Reliability before and after temperature scaling",
                "confidence",
                "share correct",
                series,
                diagonal=True,
                caption=f"{len(y):,} held-out examples, grouped by the probability of the predicted class; bands are "
                "95 % intervals. Below the diagonal the model is too sure.",
            ),
            Bars(
                "calibration-confidence",
                "How sure the model is",
                "confidence of at least",
                "share of held-out examples",
                [f"{edge:.2g}" for edge in edges],
                counts,
            ),
        ],
        Table(
            "calibration-table",
            "Before and after",
            ["probabilities", "calibration error", "confidence minus accuracy", "loss, nats"],
            rows,
        ),
        {"temperature": fitted.value, **numbers},
    )


def _applies(model: Model, schema: Schema) -> bool:
    return isinstance(model, CanPredict) and targets.of(schema).one_class


probe = Probe(
    "Reliability of a classifier's probabilities, before and after temperature scaling.",
    "a model that predicts one class",
    _applies,
    examine,
    CalibrationSettings,
)

__all__ = ["CalibrationSettings", "examine", "probe"]
