"""Activations and gradients of the layers of a trained model, with dead and silent units."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core import random
from chainrule.core.pictures import Bars, Lines, Table
from chainrule.core.types import Array
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.protocol import NoSettings, Outcome, Probe
from chainrule.models import layer_activations
from chainrule.models.protocol import HasParts, Model
from chainrule.train import Run

_EXAMPLES = 256
_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


def examine(run: Run, data: Data, settings: NoSettings) -> Outcome:
    """Watch every affine layer on a batch of training examples."""
    del settings
    batch = jax.tree.map(jnp.asarray, data.train.batch(np.arange(min(_EXAMPLES, len(data.train)))))
    key = random.key(run.settings.seed, "probe")
    flows = layer_activations.gradients(run.model, lambda model: model.loss(batch, key)[0])
    rows: list[list[Any]] = []
    for name, (flow, slope) in flows.items():
        entering = np.asarray(flow.input).reshape(-1, flow.input.shape[-1])
        squares = [float(np.square(np.asarray(a)).mean()) for a in (entering, flow.output, slope)]
        rows.append([name, *squares, float((entering == 0).all(axis=0).mean())])
    sizes = [row[2] for row in rows]
    silent = max(rows, key=lambda row: float(row[4]))
    seen = f"for all of {len(batch.x)} examples"
    heads = ["layer", "inputs", "outputs", "gradients of outputs", "inputs always zero"]
    names = ("inputs", "outputs", "gradients", "silent")
    return Outcome(
        [
            f"{len(rows)} layers; the mean square of their outputs lies between {min(sizes):.3g} and {max(sizes):.3g}.",
            f"{100 * silent[4]:.1f} % of the inputs of {silent[0]} are zero {seen}."
            if silent[4]
            else f"No input of any layer is zero {seen}.",
        ],
        _pictures(flows, rows, len(batch.x)),
        Table("layers-table", "Mean squares", heads, rows),
        {str(row[0]): dict(zip(names, row[1:], strict=True)) for row in rows},
    )


def _pictures(
    flows: dict[str, tuple[layer_activations.Flow, Array]], rows: list[list[Any]], examples: int
) -> list[Lines | Bars]:
    numbers = np.arange(1, len(rows) + 1, dtype=float)
    spread = np.array([np.quantile(np.asarray(flow.output), _LEVELS) for flow, _ in flows.values()])
    return [
        Lines(
            "layers-outputs",
            "Outputs by layer",
            "layer",
            "output",
            {
                "5 to 95 %": (numbers, spread[:, 2], spread[:, 0], spread[:, 4]),
                "25 to 75 %": (numbers, spread[:, 2], spread[:, 1], spread[:, 3]),
            },
            caption=f"Median and bands over {examples} training examples, before any nonlinearity.",
        ),
        *_silent(rows),
    ]


def _silent(rows: list[list[Any]]) -> list[Bars]:
    """Which layers have inputs that say nothing; no picture where none has."""
    if not any(float(row[4]) for row in rows):
        return []
    return [
        Bars(
            "layers-silent",
            "Inputs that are always zero",
            "layer",
            "share",
            [str(row[0]) for row in rows],
            {"share": np.array([float(row[4]) for row in rows])},
            caption="A hidden unit whose output never leaves zero is dead; a pixel that is never lit counts too.",
        ),
    ]


def _applies(model: Model, schema: Schema) -> bool:
    del schema
    return not isinstance(model, HasParts) and bool(layer_activations.layers(model))


probe = Probe(
    "Activations and gradients layer by layer, and units that are always zero.",
    "dense layers or convolutions, and one loss",
    _applies,
    examine,
)

__all__ = ["examine", "probe"]
