"""Activations over the first steps of training, with and without batch norm; units that are dead or saturated."""

from collections.abc import Callable
from typing import Any, Literal, final

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule import data as sources
from chainrule import models
from chainrule.core.errors import ArgumentError, suggest
from chainrule.core.pictures import Heatmap, Lines, Table
from chainrule.explain.methods import histograms, layer_activations
from chainrule.explain.methods.training import train
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.models.protocol import Model

_SATURATED = {"tanh": 0.05, "sigmoid": 0.05}
"""A bounded unit whose slope is below this share of its largest slope has nothing left to learn from."""


@final
class HistogramsSettings(Settings):
    """The network and where it is watched."""

    data: str = Field("digits", description="data with classes or values")
    width: int = Field(64, ge=1, description="units of each hidden layer")
    depth: int = Field(4, ge=2, le=50, description="affine layers")
    activation: Literal["relu", "tanh", "sigmoid"] = Field("relu", description="nonlinearity")
    layer: str = Field("", description="name of the watched layer; default: the second one")
    steps: int = Field(50, ge=2, description="steps of training")
    every: int = Field(1, ge=1, description="steps between two histograms")
    batch: int = Field(64, ge=2, description="examples per step")
    lr: float = Field(0.1, gt=0, description="learning rate of plain gradient descent")
    seed: int = Field(0, ge=0, description="weights and batches")


def run(settings: HistogramsSettings, listener: Listener) -> Outcome:
    """Watch the outputs of one layer while the network learns, twice."""
    data = sources.load(settings.data)
    batch = jax.tree.map(jnp.asarray, data.train.batch(np.arange(min(256, len(data.train)))))
    seen: dict[str, list[np.ndarray]] = {}
    shares: dict[str, list[float]] = {}
    steps: list[int] = []
    for label, norm in (("plain", "none"), ("batch norm", "batch")):
        model = models.build(
            "mlp",
            data,
            seed=settings.seed,
            width=settings.width,
            depth=settings.depth,
            activation=settings.activation,
            normalization=norm,
            dropout=0.0,
        )
        layer = _layer(model, settings.layer)
        seen[label], shares[label] = [], []

        flows = layer_activations.observer(model, lambda model: model.loss(batch, jax.random.key(0))[0])

        def look(
            step: int,
            model: Model,
            label: str = label,
            layer: str = layer,
            flows: Callable[[Any], dict[str, layer_activations.Flow]] = flows,
        ) -> None:
            found = flows(model)
            names = list(found)
            after = np.asarray(
                found[names[names.index(layer) + 1]].input
            )  # what the nonlinearity let through
            seen[label].append(np.asarray(found[layer].output).ravel())
            shares[label].append(_idle(after, settings.activation))
            if label == "plain":
                steps.append(step)

        train(
            model,
            data,
            steps=settings.steps,
            every=min(settings.every, settings.steps),
            watch=look,
            seed=settings.seed,
            batch=settings.batch,
            optimizer={"name": "sgd", "lr": settings.lr},
            schedule={"name": "constant"},
        )
        listener(f"{label}: {100 * shares[label][-1]:.1f} % of the units idle at the end")
    return _outcome(settings, seen, shares, np.array(steps))


def _layer(model: Model, wanted: str) -> str:
    names = layer_activations.layers(model)
    if not wanted:
        return names[1]
    if wanted not in names[:-1]:
        raise ArgumentError(
            f"layer={wanted}: there is no such hidden layer{suggest(wanted, names)}",
            remedy=f"it has: {', '.join(names[:-1])}",
        )
    return wanted


def _idle(after: np.ndarray, activation: str) -> float:
    """The share of units that are zero for every example (ReLU), or flat for nearly every one (tanh, sigmoid)."""
    if activation == "relu":
        return float((after <= 0).all(axis=0).mean())
    slope = 1 - after**2 if activation == "tanh" else 4 * after * (1 - after)
    return float(((slope < _SATURATED[activation]).mean(axis=0) > 0.95).mean())


def _outcome(
    settings: HistogramsSettings,
    seen: dict[str, list[np.ndarray]],
    shares: dict[str, list[float]],
    steps: np.ndarray,
) -> Outcome:
    bins = histograms.edges([values for columns in seen.values() for values in columns])
    word = "dead" if settings.activation == "relu" else "saturated"
    pictures: list[Heatmap | Lines] = []
    rows: list[list[str | float]] = []
    for label, columns in seen.items():
        where = settings.layer or "Second linear layer"
        pictures.append(
            histograms.heatmap(
                f"histogram-{label.replace(' ', '-')}",
                f"{where}, {label}",
                "output",
                columns,
                bins,
                steps.tolist(),
                "Darker: more of the outputs, before any nonlinearity.",
            )
        )
        rows.append(
            [label, float(columns[0].std()), float(columns[-1].std()), shares[label][0], shares[label][-1]]
        )
    pictures.append(
        Lines(
            "idle-units",
            f"Share of {word} units",
            "step",
            "share",
            {label: (steps, np.array(values)) for label, values in shares.items()},
        )
    )
    names = ("std_first", "std_last", "idle_first", "idle_last")
    return Outcome(
        [
            f"{row[0]}: standard deviation {row[1]:.3g} before training and {row[2]:.3g} after {settings.steps} "
            f"steps; {100 * float(row[4]):.1f} % of the units are {word} then."
            for row in rows
        ],
        pictures,
        Table(
            "histograms-table",
            "Before and after",
            ["network", "deviation before", "after", f"{word} before", f"{word} after"],
            rows,
        ),
        {str(row[0]): dict(zip(names, row[1:], strict=True)) for row in rows},
    )


experiment = Experiment(
    "Activations over the first steps of training, with and without batch norm; dead and saturated units.",
    HistogramsSettings,
    run,
    toy={"steps": 6, "every": 2, "width": 8, "depth": 3, "data": "moons", "batch": 16},
    reference="Ioffe and Szegedy, Batch normalization, 2015, arXiv:1502.03167",
)

__all__ = ["HistogramsSettings", "experiment", "run"]
