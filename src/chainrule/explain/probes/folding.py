"""Representations layer by layer: how a classifier separates its examples."""

import jax.numpy as jnp
import numpy as np

from chainrule.core.pictures import Lines, Scatter
from chainrule.data import targets
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.methods.all_outputs import all_outputs
from chainrule.explain.protocol import NoSettings, Outcome, Probe
from chainrule.models import layer_activations
from chainrule.models.protocol import CanPredict, HasOutputs, Model
from chainrule.train import Run

_EXAMPLES = 400
_MOST = 6
"""Layers drawn, the first and the last among them."""


def examine(run: Run, data: Data, settings: NoSettings) -> Outcome:
    """Project what enters each layer onto its two main directions, and ask how well classes are apart there."""
    del settings
    model = run.model
    assert isinstance(model, CanPredict)
    part, said = data.held_out()
    x, y = part.batch(np.arange(min(_EXAMPLES, len(part))))[:2]
    labels = np.asarray(y)
    flows = layer_activations.observe(model, lambda model: model.predict(jnp.asarray(x)))
    states = {name: np.asarray(flow.input).reshape(len(labels), -1) for name, flow in flows.items()}
    last = list(flows)[-1]
    answer = all_outputs(model.logits, x) if isinstance(model, HasOutputs) else flows[last].output
    states["answer"] = np.asarray(answer).reshape(len(labels), -1)
    apart = {name: _neighbours(state, labels) for name, state in states.items()}
    names = list(states)
    drawn = [names[i] for i in np.unique(np.linspace(0, len(names) - 1, min(_MOST, len(names))).astype(int))]
    classes = data.schema.classes
    pictures: list[Lines | Scatter] = [
        Lines(
            "folding-neighbours",
            "How often the nearest example has the same class",
            "layer",
            "share",
            {"share": (np.arange(1, len(names) + 1, dtype=float), np.array(list(apart.values())))},
            caption=f"Before each layer, then for the answer itself; {len(labels)} examples.",
        )
    ]
    for name in drawn:
        flat = _project(states[name])
        pictures.append(
            Scatter(
                f"folding-{name}",
                "The answer" if name == "answer" else f"Before {name}",
                "first main direction",
                "second main direction",
                {
                    label: flat[labels == number]
                    for number, label in enumerate(classes)
                    if (labels == number).any()
                },
            )
        )
    return Outcome(
        [
            f"The nearest example has the same class for {100 * apart[names[0]]:.1f} % of the examples as they come "
            f"in, and for {100 * apart['answer']:.1f} % in the answer.",
            *said,
        ],
        pictures,
        None,
        {"same_class_nearest": apart},
    )


def _project(state: np.ndarray) -> np.ndarray:
    """The two main directions; what has two coordinates stays as it is."""
    if state.shape[1] <= 2:
        return np.pad(state, ((0, 0), (0, 2 - state.shape[1])))
    centred = state - state.mean(axis=0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    return np.asarray(centred @ directions[:2].T)


def _neighbours(state: np.ndarray, labels: np.ndarray) -> float:
    squares = np.square(state).sum(axis=1)
    distance = squares[:, None] + squares[None, :] - 2 * state @ state.T
    np.fill_diagonal(distance, np.inf)
    return float((labels[distance.argmin(axis=1)] == labels).mean())


def _applies(model: Model, schema: Schema) -> bool:
    return (
        isinstance(model, CanPredict)
        and targets.of(schema).one_class
        and len(layer_activations.layers(model)) > 1
    )


probe = Probe(
    "The examples as every layer sees them, and how far their classes are apart there.",
    "a classifier with at least two layers",
    _applies,
    examine,
)

__all__ = ["examine", "probe"]
