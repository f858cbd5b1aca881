"""How transferable layers are: the first n layers of a network for one half of the classes, below a network for the
other half.

Early layers serve other tasks as well as their own, late ones do not; layers that had adapted to each other miss each
other; copies that go on learning recover. Whether this holds here is measured, not assumed.
"""

from typing import Any, final

import numpy as np
from pydantic import Field

from chainrule.core.pictures import Lines, Table
from chainrule.data import load
from chainrule.explain.protocol import Count, Experiment, Listener, Outcome, Settings
from chainrule.transfer.transferability import ARMS, LayerTransfer, layer_transfer, split_classes

_WORDS = {
    "BnB": "B's own layers, kept",
    "AnB": "A's layers, kept",
    "BnB+": "B's own, trained on",
    "AnB+": "A's, trained on",
    "random": "never trained, kept",
}


@final
class LayerTransferSettings(Settings):
    """The data, the halves, and the networks."""

    data: str = Field("digits", description="labelled data whose classes are split into two tasks")
    classes: tuple[str, ...] = Field((), description="classes of the first task; a random half unless given")
    channels: tuple[Count, ...] | None = Field(
        None, description="of the convolutions; none: five of them for images, none for vectors"
    )
    hidden: tuple[Count, ...] = Field((128, 128), description="units of the dense layers before the last")
    normalised: bool = Field(
        False, description="batch normalisation, whose averages are copied with each layer"
    )
    layers: tuple[Count, ...] = Field((), description="how many layers are copied; all numbers unless given")
    seeds: int = Field(5, ge=1, le=100, description="networks of each kind")
    steps: int = Field(200, ge=1, description="steps of each training")
    batch: int = Field(64, ge=1, description="examples per step")
    lr: float = Field(1e-3, gt=0, description="learning rate of Adam at the start; it falls by a cosine")
    seed: int = Field(0, ge=0, description="decides halves, weights and batches")


def run(settings: LayerTransferSettings, listener: Listener) -> Outcome:
    """Train both tasks and every copy, and compare."""
    data = load(settings.data)
    a, b = split_classes(data, settings.classes or None, settings.seed)
    if len(np.unique(a.y)) != len(np.unique(b.y)):
        listener("the two tasks have different numbers of classes; only accuracies of one task are compared")
    found = layer_transfer(
        a,
        b,
        layers=settings.layers or None,
        channels=settings.channels,
        hidden=settings.hidden,
        seeds=settings.seeds,
        steps=settings.steps,
        batch=settings.batch,
        lr=settings.lr,
        seed=settings.seed,
        normalised=settings.normalised,
    )
    return _outcome(found, data.name)


def _outcome(found: LayerTransfer, name: str) -> Outcome:
    layers = np.array(found.layers)
    base, base_error = found.mean(found.base[None])
    series: dict[str, tuple[np.ndarray, ...]] = {}
    for arm in ARMS:
        mean, error = found.mean(found.accuracy[arm])
        series[_WORDS[arm]] = (layers, mean, mean - 2 * error, mean + 2 * error)
    series["trained from the start"] = (layers, np.full(len(layers), base[0]))
    rows: list[list[Any]] = []
    gaps = {"co_adaptation": found.mean(found.co_adaptation), "specificity": found.mean(found.specificity)}
    for i, n in enumerate(found.layers):
        rows.append([n, *(f"{100 * mean[i]:+.1f} ± {200 * error[i]:.1f}" for mean, error in gaps.values())])
    first, last = (100 * gaps["specificity"][0][i] for i in (0, -1))
    tuned = 100 * (found.mean(found.accuracy["AnB+"])[0][-1] - base[0])
    return Outcome(
        [
            f"Networks trained on B from the start are right in {base[0]:.1%} ± {2 * base_error[0]:.1%} of {name}.",
            f"Kept layers of task A cost {first:+.1f} points beside B's own with {found.layers[0]} of them copied and "
            f"{last:+.1f} with {found.layers[-1]}: that is how special they are.",
            f"Trained on, copies of {found.layers[-1]} layers of A are {tuned:+.1f} points from starting afresh.",
        ],
        [
            Lines(
                "layer-transfer",
                "Accuracy with copied layers",
                "layers copied",
                "share of task B correct",
                series,
                caption="Bands are two standard errors over seeds.",
            )
        ],
        Table(
            "layer-transfer-gaps",
            "What copied layers cost, in points",
            ["layers copied", "co-adaptation: base - BnB", "specificity: BnB - AnB"],
            rows,
            "± two standard errors over seeds.",
        ),
        {
            "layers": list(found.layers),
            "base": found.base.tolist(),
            "accuracy": {arm: values.tolist() for arm, values in found.accuracy.items()},
            **{name: [mean.tolist(), error.tolist()] for name, (mean, error) in gaps.items()},
        },
    )


experiment = Experiment(
    "How transferable layers are: the first n of one task's network, kept or trained on, below fresh ones.",
    LayerTransferSettings,
    run,
    toy={"channels": (), "hidden": (8,), "layers": (1,), "seeds": 2, "steps": 3, "batch": 8},
    reference="Yosinski, Clune, Bengio and Lipson, How transferable are features in deep networks?, NeurIPS 2014",
)

__all__ = ["LayerTransferSettings", "experiment", "run"]
