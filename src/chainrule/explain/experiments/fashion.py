"""Eleven textbook runs on Fashion-MNIST: their accuracy as published and as measured here.

One network (784-512-512-10), one batch size, five epochs; what changes is what is done to the logits, whether examples
are shuffled, and how the weights move. Published figures are of one seed, so three points are not a difference; runs
without a published figure are here for comparison.
"""

from typing import Any, Literal, TypeAlias, final

import equinox as eqx
import numpy as np
from pydantic import Field

from chainrule import data as sources
from chainrule import models
from chainrule.core import random
from chainrule.core.pictures import Lines, Table
from chainrule.explain.methods.training import train
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.models.protocol import Model
from chainrule.train.evaluation import mean_loss

Name: TypeAlias = Literal[
    "relu-logits",
    "sgd",
    "batch-norm",
    "dropout",
    "nesterov",
    "momentum",
    "1cycle",
    "1cycle-momentum",
    "adagrad",
    "rmsprop",
    "adam",
]
_ONE_CYCLE = {"name": "1cycle"}
_SGD = {"shuffle": False, "optimizer": {"name": "sgd"}}
RUNS: dict[Name, tuple[dict[str, Any], dict[str, Any], tuple[float, ...]]] = {
    "relu-logits": ({"final_activation": "relu"}, _SGD, (38.5, 44.0, 45.1, 47.0, 52.0)),
    "sgd": ({}, _SGD, (49.8, 57.6, 60.0, 62.5, 63.9)),
    "batch-norm": ({"normalization": "batch", "normalize": "after"}, _SGD, ()),
    "dropout": ({"dropout": 0.2}, _SGD, ()),
    "nesterov": ({}, {"optimizer": {"name": "nesterov", "momentum": 0.8}}, (80.0,)),
    "momentum": ({}, {"optimizer": {"name": "momentum", "momentum": 0.9}}, (81.9,)),
    "1cycle": ({}, {"optimizer": {"name": "sgd", "lr": 0.01}, "schedule": _ONE_CYCLE}, (80.0,)),
    "1cycle-momentum": (
        {},
        {"optimizer": {"name": "momentum", "lr": 0.01}, "schedule": {**_ONE_CYCLE, "cycle_momentum": True}},
        (86.3,),
    ),
    "adagrad": ({}, {"optimizer": {"name": "adagrad"}}, (84.0,)),
    "rmsprop": ({}, {"optimizer": {"name": "rmsprop", "momentum": 0.9}}, (86.6,)),
    "adam": ({}, {"optimizer": {"name": "adam", "betas": (0.9, 0.99)}}, (87.2,)),
}
"""For each run: settings of the network, settings of training, published test accuracy in percent after each epoch or
after the last."""


@final
class FashionSettings(Settings):
    """Which runs, and on what."""

    runs: tuple[Name, ...] = Field(tuple(RUNS), min_length=1, description="which of them")
    data: str = Field(
        "fashion-mnist",
        description="images with classes: also mnist, or digits, which is built in; a subset where it is not installed",
    )
    width: int = Field(512, ge=1, description="units of each of the two hidden layers")
    epochs: int = Field(5, ge=1, description="passes over the training data")
    tolerance: float = Field(
        3.0, gt=0, description="points of accuracy that one seed may differ from another"
    )
    seed: int = Field(0, ge=0, description="initial weights, batches and noise")


def run(settings: FashionSettings, listener: Listener) -> Outcome:
    """Train every run and hold its test accuracy after each epoch against what was published."""
    data = sources.load(settings.data)
    notes = [kind for kind, _ in data.notes]
    for note in notes:
        listener(note)
    is_published = data.name == "fashion-mnist" and settings.width == 512 and settings.epochs == 5
    found = {}
    for name in settings.runs:
        found[name] = _once(settings, name, data)
        listener(f"{name}: {found[name][-1]:.1f} % after {settings.epochs} epochs")
    rows: list[list[Any]] = []
    apart = []
    for name, measured in found.items():
        published = RUNS[name][2] if is_published else ()
        difference = measured[-1] - published[-1] if published else None
        if difference is not None and abs(difference) > settings.tolerance:
            apart.append(f"{name} ({difference:+.1f})")
        compared_with = [f"{published[-1]:.1f}", f"{difference:+.1f}"] if difference is not None else ["", ""]
        each = ", ".join(f"{value:.1f}" for value in measured)
        rows.append([name, *compared_with, f"{measured[-1]:.1f}", each])
    compared = sum(bool(RUNS[name][2]) for name in found) if is_published else 0
    findings = [f"Best after {settings.epochs} epochs: {max(found, key=lambda n: found[n][-1])}."]
    findings[:0] = [f"{note}." for note in notes]
    if compared:
        close = f"{compared - len(apart)} of {compared} runs end within {settings.tolerance:g} points of the "
        findings.insert(0, f"{close}published accuracy{': not ' + ', '.join(apart) if apart else ''}.")
    epochs = np.arange(1, settings.epochs + 1, dtype=np.float64)
    series: dict[str, tuple[np.ndarray, ...]] = {n: (epochs, np.array(values)) for n, values in found.items()}
    return Outcome(
        findings,
        [Lines("fashion", "Test accuracy after each epoch", "epoch", "accuracy in percent", series)],
        Table(
            "fashion-table",
            "Test accuracy in percent",
            ["run", "published", "difference", "measured", "after each epoch"],
            rows,
        ),
        {
            name: {"measured": measured, "published": list(RUNS[name][2]) if is_published else []}
            for name, measured in found.items()
        },
    )


def _once(settings: FashionSettings, name: Name, data: sources.Data) -> list[float]:
    """Test accuracy in percent after each epoch."""
    of_model, of_training, _ = RUNS[name]
    model = models.build(
        "mlp",
        data,
        seed=settings.seed,
        **{"width": settings.width, "dropout": 0.0, "initializer": "torch", **of_model},
    )
    seen: list[float] = []

    def watch(step: int, now: Model) -> None:
        if step:
            still = eqx.nn.inference_mode(now)
            seen.append(
                100
                * mean_loss(still, data.examples("test"), random.key(settings.seed, "test"))[0]["accuracy"]
            )

    every = round(len(data.train) / 64)
    rest = {key: value for key, value in of_training.items() if key != "optimizer"}
    train(
        model,
        data,
        steps=settings.epochs * every,
        every=every,
        watch=watch,
        seed=settings.seed,
        batch=64,
        optimizer={"lr": 1e-3, "parity": "torch", **of_training["optimizer"]},
        **{"schedule": {"name": "constant"}, **rest},
    )
    return seen


experiment = Experiment(
    "Eleven textbook runs on Fashion-MNIST: published accuracy against ours.",
    FashionSettings,
    run,
    toy={"runs": ["relu-logits", "1cycle-momentum"], "data": "digits", "width": 8, "epochs": 2},
    reference="Xiao, Rasul and Vollgraf, Fashion-MNIST, 2017, arXiv:1708.07747; Smith and Topin, arXiv:1708.07120",
)

__all__ = ["RUNS", "FashionSettings", "experiment", "run"]
