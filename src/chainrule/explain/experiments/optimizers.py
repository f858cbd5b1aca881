"""Optimisers on the same problem: the same start, the same batches, several seeds."""

from typing import Annotated, Any, Literal, final

import numpy as np
from pydantic import Field

from chainrule import data as sources
from chainrule import models
from chainrule.core.pictures import Lines, Table
from chainrule.explain.methods.training import Trained, band, train
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings

Name = Literal["sgd", "momentum", "nesterov", "adagrad", "rmsprop", "adam", "adamw"]
METHODS: dict[str, dict[str, Any]] = {
    "sgd": {"lr": 0.1},
    "momentum": {"lr": 0.02, "momentum": 0.9},
    "nesterov": {"lr": 0.02, "momentum": 0.8},
    "adagrad": {"lr": 0.02},
    "rmsprop": {"lr": 1e-3, "momentum": 0.9},
    "adam": {"lr": 2e-3, "betas": (0.9, 0.99)},
    "adamw": {"lr": 2e-3, "betas": (0.9, 0.99), "decay": 0.01},
}


@final
class OptimizersSettings(Settings):
    """The race."""

    methods: tuple[Name, ...] = Field(
        ("sgd", "momentum", "nesterov", "adagrad", "rmsprop", "adam", "adamw"),
        min_length=1,
        description="who takes part",
    )
    data: str = Field("digits", description="data with classes or values")
    width: int = Field(64, ge=1, description="units of each hidden layer")
    depth: int = Field(3, ge=1, le=20, description="affine layers")
    initializer: Literal["he", "xavier", "lecun", "torch"] = Field("he", description="initial weights")
    steps: int = Field(400, ge=1, description="steps of each")
    batch: int = Field(64, ge=1, description="examples per step")
    every: int = Field(20, ge=1, description="steps between two evaluations on the validation split")
    seeds: Annotated[int, Field(ge=1, le=20)] = Field(3, description="runs of each, for the bands")
    lr: float | None = Field(None, gt=0, description="one learning rate for all; none: each its own")
    examples: int = Field(10_000, ge=1, description="validation examples per look, at most")


def run(settings: OptimizersSettings, listener: Listener) -> Outcome:
    """Train the same network with every method and every seed."""
    data = sources.load(settings.data)
    raced: dict[str, list[Trained]] = {}
    for name in settings.methods:
        raced[name] = [_once(settings, name, seed, data) for seed in range(settings.seeds)]
        last = np.mean([one.val["loss"][-1] for one in raced[name]])
        listener(f"{name}: validation loss {last:.4g} after {settings.steps} steps")
    pictures = [_picture(raced, "step"), _picture(raced, "second")]
    rows: list[list[Any]] = []
    numbers: dict[str, Any] = {}
    for label, runs in raced.items():
        loss = np.array([one.val["loss"][-1] for one in runs])
        accuracy = np.array([one.val.get("accuracy", np.array([np.nan]))[-1] for one in runs])
        seconds = float(np.mean([one.seconds[-1] for one in runs]))
        lr = settings.lr or METHODS[label]["lr"]
        rows.append([label, lr, float(loss.mean()), float(np.ptp(loss)), float(accuracy.mean()), seconds])
        numbers[label] = {
            "lr": lr,
            "val_loss": loss.tolist(),
            "val_accuracy": accuracy.tolist(),
            "seconds": seconds,
            "finite": all(one.is_finite for one in runs),
        }
    order = sorted(rows, key=lambda row: (not np.isfinite(row[2]), row[2]))
    best, worst = order[0], order[-1]
    lost = [label for label, runs in raced.items() if not all(one.is_finite for one in runs)]
    findings = [
        f"After {settings.steps} steps {best[0]} has the lowest validation loss ({best[2]:.4g}), {worst[0]} the "
        f"highest ({worst[2]:.4g}); means over {settings.seeds} seed{'s' if settings.seeds > 1 else ''}.",
        *([f"The loss did not stay finite with {', '.join(lost)}."] if lost else []),
    ]
    columns = ["method", "learning rate", "validation loss", "spread", "accuracy", "seconds"]
    return Outcome(
        findings, pictures, Table("optimizers-table", "After the last step", columns, rows), numbers
    )


def _once(settings: OptimizersSettings, name: Name, seed: int, data: sources.Data) -> Trained:
    method = {**METHODS[name], **({"lr": settings.lr} if settings.lr else {})}
    model = models.build(
        "mlp",
        data,
        seed=seed,
        width=settings.width,
        depth=settings.depth,
        dropout=0.0,
        initializer=settings.initializer,
    )
    return train(
        model,
        data,
        steps=settings.steps,
        every=min(settings.every, settings.steps),
        seed=seed,
        batch=settings.batch,
        optimizer={"name": name, **method},
        schedule={"name": "constant"},
        eval_examples=settings.examples,
    )


def _picture(raced: dict[str, list[Trained]], against: Literal["step", "second"]) -> Lines:
    series = {}
    for name, runs in raced.items():
        middle, low, high = band([one.val["loss"] for one in runs])
        across = runs[0].steps if against == "step" else band([one.seconds for one in runs])[0]
        series[name] = (across[: len(middle)], middle, low, high)
    return Lines(
        f"optimizers-by-{against}",
        f"Validation loss against {'steps' if against == 'step' else 'seconds of training'}",
        "step" if against == "step" else "seconds",
        "loss",
        series,
        log_y=True,
        caption="Same start and same batches for all; bands from the best to the worst seed.",
    )


experiment = Experiment(
    "Seven optimisers from the same start on the same batches: loss against steps and seconds.",
    OptimizersSettings,
    run,
    toy={"methods": ["sgd", "adam"], "steps": 20, "every": 10, "seeds": 2, "width": 8, "data": "moons"},
    reference="Kingma and Ba, Adam, 2015, arXiv:1412.6980; Loshchilov and Hutter, 2019, arXiv:1711.05101",
)

__all__ = ["METHODS", "OptimizersSettings", "experiment", "run"]
