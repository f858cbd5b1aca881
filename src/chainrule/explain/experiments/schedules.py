"""Learning-rate schedules on the same problem: 1cycle and others against a constant rate."""

from typing import Any, Literal, final

import numpy as np
from pydantic import Field

from chainrule import data as sources
from chainrule import models
from chainrule.core.pictures import Lines, Table
from chainrule.explain.methods.training import Trained, band, train
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.train.config import LearningRateSchedule
from chainrule.train.schedules import schedule

Name = Literal["constant", "cosine", "linear", "exponential", "1cycle"]


@final
class SchedulesSettings(Settings):
    """The race."""

    schedules: tuple[Name, ...] = Field(
        ("constant", "cosine", "1cycle"), min_length=1, description="who takes part"
    )
    data: str = Field("digits", description="data with classes or values")
    width: int = Field(64, ge=1, description="units of each hidden layer")
    optimizer: Literal["sgd", "momentum", "adam", "adamw"] = Field("momentum", description="method")
    lr: float = Field(0.1, gt=0, description="peak learning rate")
    steps: int = Field(400, ge=10, description="steps of each")
    batch: int = Field(64, ge=1, description="examples per step")
    every: int = Field(20, ge=1, description="steps between two evaluations on the validation split")
    seeds: int = Field(3, ge=1, le=20, description="runs of each, for the bands")


def run(settings: SchedulesSettings, listener: Listener) -> Outcome:
    """Train the same network under every schedule."""
    data = sources.load(settings.data)
    steps = np.arange(settings.steps)
    rates: dict[str, tuple[np.ndarray, ...]] = {}
    series: dict[str, tuple[np.ndarray, ...]] = {}
    rows: list[list[Any]] = []
    for name in settings.schedules:
        factor = schedule(LearningRateSchedule(name=name), settings.steps)
        rates[name] = (steps, settings.lr * np.asarray([float(factor(step)) for step in steps]))
        runs = [_once(settings, name, seed, data) for seed in range(settings.seeds)]
        middle, low, high = band([one.val["loss"] for one in runs])
        series[name] = (runs[0].steps[: len(middle)], middle, low, high)
        last = float(np.mean([one.val["loss"][-1] for one in runs]))
        lowest = float(np.mean([one.val["loss"].min() for one in runs]))
        accuracy = float(np.mean([one.val.get("accuracy", np.array([np.nan]))[-1] for one in runs]))
        rows.append([name, last, lowest, accuracy])
        listener(f"{name}: validation loss {last:.4g}")
    best = min(rows, key=lambda row: row[1])
    ends = ", ".join(f"{row[0]} {row[1]:.4g}" for row in rows)
    return Outcome(
        [
            f"At a peak rate of {settings.lr:g}, {best[0]} ends with the lowest validation loss: {ends} "
            f"(means over {settings.seeds} seeds)."
        ],
        [
            Lines(
                "schedules-loss",
                "Validation loss",
                "step",
                "loss",
                series,
                log_y=True,
                caption="Bands: all seeds.",
            ),
            Lines("schedules-rate", "Learning rate", "step", "", rates),
        ],
        Table(
            "schedules-table",
            "After the last step",
            ["schedule", "last loss", "lowest loss", "accuracy"],
            rows,
        ),
        {str(row[0]): {"last": row[1], "lowest": row[2], "accuracy": row[3]} for row in rows},
    )


def _once(settings: SchedulesSettings, name: str, seed: int, data: sources.Data) -> Trained:
    return train(
        models.build("mlp", data, seed=seed, width=settings.width, dropout=0.0),
        data,
        steps=settings.steps,
        every=min(settings.every, settings.steps),
        seed=seed,
        batch=settings.batch,
        optimizer={"name": settings.optimizer, "lr": settings.lr},
        schedule={"name": name},
    )


experiment = Experiment(
    "Learning-rate schedules: 1cycle and cosine against a constant rate.",
    SchedulesSettings,
    run,
    toy={
        "schedules": ["constant", "1cycle"],
        "steps": 20,
        "every": 10,
        "seeds": 1,
        "width": 8,
        "data": "moons",
    },
    reference="Smith and Topin, Super-convergence, 2017, arXiv:1708.07120",
)

__all__ = ["SchedulesSettings", "experiment", "run"]
