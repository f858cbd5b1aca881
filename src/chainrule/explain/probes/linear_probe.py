"""What each layer knows about the classes: simple classifiers on top of its values, layer by layer.

The cheap first answer before fine-tuning: where classes can be told by a linear classifier, the nearest neighbours or
the class means, on the run's own data or on any other data with classes of their own.
"""

from typing import Any, final

import numpy as np
from pydantic import Field

from chainrule.core.pictures import Bars, Table
from chainrule.data import load, targets
from chainrule.data.dataset import Data
from chainrule.data.domains import check_inputs, in_units
from chainrule.data.schema import Schema
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.models import layer_activations
from chainrule.models.protocol import CanPredict, HasOwnTraining, Model
from chainrule.train import Run
from chainrule.transfer.features import METHODS, NEIGHBOURS, judge_layers

_WORDS = {
    "linear": "linear classifier",
    "neighbours": "nearest neighbours",
    "means": "class means",
    "ridge": "ridge regression",
}


@final
class LinearProbeSettings(Settings):
    """The examples and the classifiers."""

    on: str = Field(
        "", description="other data with classes to tell, a name or a path; the run's own unless given"
    )
    load: dict[str, Any] = Field(
        default_factory=dict, description="options of the other data, e.g. load.size=28"
    )
    examples: int = Field(1000, ge=20, le=100_000, description="most examples of each split")
    k: int = Field(NEIGHBOURS, ge=1, le=10_000, description="nearest neighbours, by the cosine")


def examine(run: Run, data: Data, settings: LinearProbeSettings) -> Outcome:
    """Judge the values of every layer."""
    judged = data
    if settings.on:
        other = load(settings.on, **settings.load)
        check_inputs(data, other, "; options of the other data are load.OPTION=")
        judged = in_units(other, data)
    found = judge_layers(run.model, judged, examples=settings.examples, k=settings.k)
    layers = list(found.scores)
    methods = list(METHODS)
    best = found.best()
    values = {
        _WORDS[method]: np.array([found.scores[layer][method].accuracy for layer in layers])
        for method in methods
    }
    top = found.scores[best]["linear"]
    last = found.scores[layers[-1]]["linear"]
    rows: list[list[str | float | int]] = [
        [layer, found.widths[layer], *(f"{found.scores[layer][method].accuracy:.1%}" for method in methods)]
        for layer in layers
    ]
    return Outcome(
        [
            f"A linear classifier tells most from {best}: {top.accuracy:.1%} ± {top.stderr:.1%} of test "
            f"examples of {judged.name}; from what goes {layers[-1]} it is {last.accuracy:.1%}.",
            f"From the raw input it is {found.scores[layers[0]]['linear'].accuracy:.1%}.",
        ],
        [
            Bars(
                "linear-probe",
                "What simple classifiers read in each layer",
                "layer",
                "share correct",
                layers,
                values,
                "Penalties are chosen on validation examples; features are what goes into each layer.",
            )
        ],
        Table(
            "linear-probe-table", "Accuracy by layer", ["layer", "width", *(_WORDS[m] for m in methods)], rows
        ),
        {
            "layers": layers,
            "accuracy": {m: [found.scores[layer][m].accuracy for layer in layers] for m in methods},
            "best": best,
        },
    )


def _applies(model: Model, schema: Schema) -> bool:
    return (
        isinstance(model, CanPredict)
        and not isinstance(model, HasOwnTraining)
        and targets.of(schema).one_class
        and bool(layer_activations.layers(model))
    )


probe = Probe(
    "What each layer knows about the classes, by a linear classifier, nearest neighbours and class means on top of it.",
    "a network that predicts classes",
    _applies,
    examine,
    LinearProbeSettings,
    toy={"examples": 40},
)

__all__ = ["LinearProbeSettings", "examine", "probe"]
