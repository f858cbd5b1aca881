"""Gates of recurrent layers along a sequence: open, closed, or in between."""

import itertools
from typing import final

import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.pictures import Heatmap, Table
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.methods.prompts import passages
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.models.protocol import HasRecurrence, Model
from chainrule.train import Run

_BINS = 20
_SATURATED = 0.05
"""Values within this share of their range from one of its ends count as saturated."""


@final
class GatesSettings(Settings):
    """What is looked at."""

    text: str = Field("", description="of a model of text: a text to read; validation sequences if not given")
    passages: int = Field(32, ge=1, description="validation sequences")
    steps: int = Field(64, ge=1, description="steps of each, at most")


def examine(run: Run, data: Data, settings: GatesSettings) -> Outcome:
    """Histograms of every gate over time."""
    model = run.model
    assert isinstance(model, HasRecurrence)
    sequences, said = passages(data, settings.text, settings.passages)
    x = jnp.asarray(sequences)[:, : settings.steps]
    pictures: list[Heatmap] = []
    rows: list[list[str | float]] = []
    for number, (layer, inputs) in enumerate(model.recurrence(x), start=1):
        for gate, values in layer.gates(inputs).items():
            label, found = f"layer {number}, {gate}", np.asarray(values)
            low = -1.0 if gate == layer.cell.squashed else 0.0
            edge = _SATURATED * (1 - low)
            rows.append(
                [
                    label,
                    *(
                        float(v)
                        for v in (found.mean(), (found < low + edge).mean(), (found > 1 - edge).mean())
                    ),
                ]
            )
            pictures.append(_histogram(f"gates-{number}-{gate}", label, found, low, said))
    heads = ["gate", "mean", "share at the lower end", "share at the upper end"]
    names = ("mean", "low", "high")
    extreme = max(rows, key=lambda row: float(row[2]) + float(row[3]))
    return Outcome(
        [
            f"Most saturated is {extreme[0]}: {float(extreme[2]):.0%} of its values lie at the lower end of their "
            f"range and {float(extreme[3]):.0%} at the upper.",
        ],
        pictures,
        Table("gates-table", "Gates", heads, rows),
        {str(row[0]): dict(zip(names, row[1:], strict=True)) for row in rows},
    )


def _histogram(name: str, label: str, values: np.ndarray, low: float, said: str) -> Heatmap:
    """Shares by value, upwards, and step."""
    edges = np.linspace(low, 1.0, _BINS + 1)
    shares = np.stack([np.histogram(values[:, t], edges)[0] for t in range(values.shape[1])], axis=1)
    middles = [f"{(a + b) / 2:.2f}" for a, b in itertools.pairwise(edges)]
    return Heatmap(
        name,
        f"Values of {label}",
        "step",
        "value",
        shares[::-1] / shares.sum(axis=0, keepdims=True).clip(1),
        rows=middles[::-1],
        caption=f"Share of the units at each step, for {said}.",
    )


def _applies(model: Model, schema: Schema) -> bool:
    del schema
    return isinstance(model, HasRecurrence)


probe = Probe(
    "Histograms of every gate over time, and how many values are stuck at an end of their range.",
    "a model with recurrent layers",
    _applies,
    examine,
    GatesSettings,
    toy={"passages": 2, "steps": 4},
)

__all__ = ["GatesSettings", "examine", "probe"]
