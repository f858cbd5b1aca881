"""The few names at the top of the package: train something and get a run folder with its report."""

from pathlib import Path
from typing import Any

from chainrule import report, train
from chainrule.data.dataset import Data
from chainrule.models.protocol import Model
from chainrule.train import Run, events


def fit(
    model: Model,
    data: Data,
    *,
    run: str | Path | None = None,
    listener: events.Listener = events.silent,
    **settings: Any,
) -> Run:
    """Train a model on data and leave a run folder with its report.

    `settings` are training settings (`steps`, `batch`, `seed`, `optimizer={"lr": 1e-3}`, ...); see `TrainConfig`. A
    folder that already holds this run is resumed.
    """
    trained = train.fit(model, data, run=run, listener=listener, **settings)
    report.write(trained)
    return trained


__all__ = ["Run", "fit"]
