"""Variance through depth, by initialiser."""

from collections.abc import Mapping
from typing import Any, Literal, final

import jax
import numpy as np
from pydantic import Field

from chainrule import data as sources
from chainrule import models
from chainrule.core import random
from chainrule.core.pictures import Lines, Table
from chainrule.explain.methods.variance import VarianceReport, variance_report
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.nn.activations import ActivationName
from chainrule.nn.constructions import mlp

Initializer = Literal["he", "xavier", "lecun", "orthogonal", "torch"]


@final
class VarianceSettings(Settings):
    """The networks."""

    width: int = Field(512, ge=2, description="units of each layer")
    depth: int = Field(20, ge=2, le=200, description="affine layers")
    activation: ActivationName = Field("relu", description="nonlinearity")
    initializers: tuple[Initializer, ...] = Field(
        ("he", "xavier", "lecun", "torch"),
        min_length=1,
        description="initialisers; he has the gain of the activation",
    )
    batch: int = Field(256, ge=2, description="standard normal inputs, or training examples for a model")
    model: str = Field("", description="a model of the registry instead, as it is before training: model=cnn")
    data: str = Field("digits", description="of the model: name or path of data")
    config: dict[str, Any] = Field(default_factory=dict, description="settings of the model: config.depth=18")
    seed: int = Field(0, ge=0, description="weights and inputs")


def run(settings: VarianceSettings, listener: Listener) -> Outcome:
    """Push noise through networks that differ in their initial weights only, or data through a model."""
    if settings.model:
        data = sources.load(settings.data)
        model = models.build(settings.model, data, seed=settings.seed, **settings.config)
        batch = data.train.batch(np.arange(min(settings.batch, len(data.train))))
        report = variance_report(model, batch.x, batch.y, seed=settings.seed)
        shape = f"{settings.model} on {data.name}, {len(report.layers)} layers"
        return _outcome(
            {settings.model: report}, shape, [f"What helps: {report.suggestion}."] * bool(report.suggestion)
        )
    x = jax.random.normal(random.key(settings.seed, "inputs"), (settings.batch, settings.width))
    reports = {}
    for name in settings.initializers:
        scaled = name in ("he", "orthogonal")
        network = mlp(
            [settings.width] * (settings.depth + 1),
            settings.activation,
            settings.activation,
            key=random.key(settings.seed, "weights"),
            initializer=name,
            gain=None if scaled else 1.0,
        )
        label = f"{name}, gain of {settings.activation}" if scaled else f"{name}, gain 1"
        reports[label] = variance_report(network, x, seed=settings.seed)
        listener(f"{label}: {reports[label].verdict}")
    shape = f"{settings.depth} layers of {settings.width} {settings.activation} units"
    return _outcome(reports, shape, [])


def _outcome(reports: Mapping[str, VarianceReport], shape: str, more: list[str]) -> Outcome:
    rows: list[list[str | float]] = [
        [label, float(one.activations[-2]), one.forward_factor, one.backward_factor, one.verdict]
        for label, one in reports.items()
    ]
    heads = ["start", "last hidden mean square", "forward factor", "backward factor", "verdict"]
    names = ("last", "forward", "backward", "verdict")
    return Outcome(
        [
            f"{label}: {one.verdict}; the mean square of the activations changes by {one.forward_factor:.3g} a "
            f"layer, that of the gradients by {one.backward_factor:.3g} on the way back."
            for label, one in reports.items()
        ]
        + more,
        _pictures(reports, shape),
        Table("variance-table", shape, heads, rows),
        {str(row[0]): dict(zip(names, row[1:], strict=True)) for row in rows},
    )


def _pictures(reports: Mapping[str, VarianceReport], shape: str) -> list[Lines]:
    layers = np.arange(1, len(next(iter(reports.values())).layers) + 1)
    forward = {label: (layers[:-1], one.activations[:-1]) for label, one in reports.items()}
    backward = {label: (layers[:-1], one.gradients[:-1]) for label, one in reports.items()}
    return [
        Lines(
            "variance-forward",
            "Activations through depth",
            "layer",
            "mean square",
            forward,
            log_y=True,
            caption=shape,
        ),
        Lines(
            "variance-backward",
            "Gradients through depth",
            "layer",
            "mean square, relative to the last hidden layer",
            backward,
            log_y=True,
            caption=f"{shape}. Read from right to left, the way gradients go.",
        ),
    ]


experiment = Experiment(
    "Activations and gradients through depth, by initialiser or of a model: vanishing, healthy or exploding.",
    VarianceSettings,
    run,
    toy={"width": 32, "depth": 6, "initializers": ["he", "xavier"], "batch": 32},
    reference="He, Zhang, Ren and Sun, Delving deep into rectifiers, 2015, arXiv:1502.01852",
)

__all__ = ["VarianceSettings", "experiment", "run"]
