"""Training functions at the top of the package: a run folder and its report."""

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from chainrule import models, report, train
from chainrule.core.errors import DivergedError
from chainrule.data.dataset import Data
from chainrule.data.domains import with_target
from chainrule.models.protocol import Model
from chainrule.nn.summary import Summary
from chainrule.report.progress import listener as shown
from chainrule.train import Run, events
from chainrule.train.callbacks import Callback
from chainrule.train.preparing import prepared

AnyRun = TypeVar("AnyRun")
"""A run of a model or of agents."""


def fit(
    model: Model,
    data: Data,
    *,
    target: Data | None = None,
    target_labels: int = 0,
    run: str | Path | None = None,
    runs: str | Path | None = None,
    progress: bool | None = None,
    listener: events.Listener = events.silent,
    callbacks: Sequence[Callback] = (),
    importance: Any = None,
    **settings: Any,
) -> Run:
    """Train a model on data and leave a run folder with its report.

    A network of your own becomes a model by `cr.models.wrap(network, loss=..., metrics=[...])`.

    Progress is shown as a bar in a notebook and as a live line on a terminal; `progress=True` writes the line wherever
    output goes, `progress=False` nothing. `listener` is called with every event (`train/events.py`).
    `callbacks` are asked after every evaluation and may stop the run or change its rate (`train.Moment`).

    `target` is another domain that the model is brought to: training sees its examples without their targets, but for
    `target_labels` of them, and chooses nothing by them.

    `run` is the name of the run, or the path of its folder if there is a slash in it; named runs go to `runs`, or
    `$CHAINRULE_RUNS`, or `./runs`, as on the command line.

    `importance` says how much each parameter counts where `anchor` holds them, as `cr.train.fisher_diagonal` gives it.

    `settings` are training settings (`steps`, `batch`, `seed`, `optimizer={"lr": 1e-3}`, ...); see `TrainConfig`. A
    folder that already holds this run is resumed.
    """
    data = data if target is None else with_target(data, target, labels=target_labels)
    model = prepared(model, data)
    show = shown(data.schema, model, shown=progress)

    def listen(event: events.Event) -> None:
        show(event)
        listener(event)
        if isinstance(event, events.Noticed):
            warnings.warn(event.text, stacklevel=2)

    return with_report(
        lambda listener: train.fit(
            model,
            data,
            run=run,
            runs=runs,
            listener=listener,
            callbacks=callbacks,
            importance=importance,
            **settings,
        ),
        listen,
        opened=lambda path: Run.open(path, model=model, data=data),
    )


def summary(network: Any, example: Any = None) -> Summary:
    """Layers, shapes, parameters, multiply-adds and receptive fields of a model, a run, or any Equinox module.

    A run knows its data, and a model that predicts its inputs; other models need `Data`, a module of your own the
    shape of what it is called with. `print` shows the table, a notebook draws it, `.to_json()` gives plain values.

    >>> from chainrule.nn import Linear
    >>> import jax
    >>> summary(Linear(3, 2, key=jax.random.key(0)), (5, 3)).multiply_adds
    30
    """
    if isinstance(network, Run):
        return models.summary(network.model, network.data if example is None else example)
    return models.summary(network, example)


def with_report(
    training: Callable[[events.Listener], AnyRun],
    listener: events.Listener = events.silent,
    *,
    opened: Callable[[Path], Any] = Run.open,
    write: Callable[[Any], object] = lambda run: report.write(run),
) -> AnyRun:
    """Train, and write the report of the run whether it is done, was interrupted or diverged.

    A second signal, which stops a run at once, and errors of other kinds leave no report. `training` is called with the
    listener to pass events to; `opened` opens the folder of a run that diverged.
    """
    folder = ""

    def listen(event: events.Event) -> None:
        nonlocal folder
        if isinstance(event, events.Started):
            folder = event.path
        listener(event)

    try:
        run = training(listen)
    except DivergedError:
        if folder:
            write(opened(Path(folder)))
        raise
    write(run)
    return run


__all__ = ["Run", "fit", "summary", "with_report"]
