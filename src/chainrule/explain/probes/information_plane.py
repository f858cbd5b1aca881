"""The information plane of a trained network: what each layer knows about its input and about the target, checkpoint by
checkpoint.

What is plotted is what is left of a layer in bins, or under noise; the axes say which. Wide layers tell all examples
apart in any bins: then I(X; h) is the logarithm of their number and says nothing, and noise is the better choice.
"""

from typing import Any, Literal, final

import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.pictures import Picture, Table
from chainrule.data import targets
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.data.splits import Subset
from chainrule.explain.methods.plane_paths import (
    HEADS,
    PlanePath,
    by_step,
    film,
    over_time,
    path_of,
    phase_rows,
    typical_distances,
)
from chainrule.explain.probes.ntk import initial
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.information.plane import estimator_label
from chainrule.models import layer_activations
from chainrule.models.protocol import HasLogits, HasOwnTraining, Model
from chainrule.train import Run

_SAME = 0.98
"""Share of log n above which examples are as good as told apart."""
_DISTANCE = "d"
"""What the median distance between two examples in a layer is called on axes."""
_SHARE, _LEAST = 1 / 3, 1e-9
"""Noise as a share of the distance between examples, and at least."""
_GROUPS = 10
"""Parts that numeric targets are put into, as many in each."""


@final
class InformationPlaneProbeSettings(Settings):
    """The examples and the estimator."""

    estimator: Literal["binning", "noise"] = Field(
        "noise", description="bins for each unit, or noise that is added to it"
    )
    bins: int = Field(30, ge=2, le=10_000, description="binning: bins of a unit, over all its layer reaches")
    noise: float | None = Field(
        None,
        gt=0,
        description="noise: its standard deviation; none: for each layer a third of the distance that two examples "
        "have in it in the end",
    )
    examples: int = Field(1000, ge=16, le=20_000, description="held-out examples")


def examine(run: Run, data: Data, settings: InformationPlaneProbeSettings) -> Outcome:
    """Watch the layers of all checkpoints on the same held-out examples."""
    whole, said = data.held_out()
    part = Subset.drawn(whole, settings.examples) if settings.examples < len(whole) else whole
    batch = part.batch(np.arange(len(part)))
    classes, note = _classes(data.schema, np.asarray(batch.y))
    models, begins = _models(run, data)
    moments = _layers(models, jnp.asarray(batch.x))
    noise, how = _noise(settings, moments)
    path = path_of(moments, classes, estimator=settings.estimator, bins=settings.bins, noise=noise)
    return _outcome(run, path, how, len(part), [*said, *note, *begins], moments)


def _noise(
    settings: InformationPlaneProbeSettings, moments: dict[int, dict[str, np.ndarray]]
) -> tuple[float | dict[str, float], str]:
    """The noise of every layer, and what axes say about the estimator."""
    if settings.noise is not None or settings.estimator == "binning":
        noise = settings.noise or 1.0
        return noise, estimator_label(settings.estimator, settings.bins, noise)
    typical = typical_distances(moments[max(moments)])
    noises = {name: max(_SHARE * apart, _LEAST) for name, apart in typical.items()}
    return noises, f"with noise of {_DISTANCE}/3"


def _models(run: Run, data: Data) -> tuple[dict[int, Model], list[str]]:
    """The start, where it is known, and every checkpoint that is kept."""
    found: dict[int, Model] = {}
    first, said = initial(run, data)
    if first is not None:
        found[0] = first
    for step in run.checkpoints:
        found[step] = run.model_at(step)
    few = (
        [f"{run.id} keeps {len(run.checkpoints)} checkpoints; keep=1000 save_every=20 shows more of the way."]
        if len(run.checkpoints) < 5
        else []
    )
    return found, [*said, *few]


def _layers(models: dict[int, Model], x: Any) -> dict[int, dict[str, np.ndarray]]:
    """What enters every affine layer but the first, made by the layers before it, and what the last one gives."""
    some = next(iter(models.values()))

    def call(model: Any) -> Any:
        return model.logits(x)

    look = layer_activations.observer(some, call)
    found: dict[int, dict[str, np.ndarray]] = {}
    for step, model in models.items():
        flows = look(model)
        values = {
            f"into {name}": np.asarray(flow.input).reshape(len(x), -1)
            for number, (name, flow) in enumerate(flows.items())
            if number and flow.input.shape[0] == len(x)
        }
        last, flow = list(flows.items())[-1]
        found[step] = {**values, f"out of {last}": np.asarray(flow.output).reshape(len(x), -1)}
    return found


def _classes(schema: Schema, y: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Numbers of classes; of labels those of their combinations, of numbers those of parts of equal size."""
    flat = y.reshape(len(y), -1)
    if targets.of(schema).one_class:
        return flat[:, 0], []
    if targets.of(schema).link == "sigmoid":
        return np.unique(flat, axis=0, return_inverse=True)[1].reshape(-1), [
            "Y is the combination of all labels of an example."
        ]
    edges = np.quantile(flat[:, 0], np.linspace(0, 1, _GROUPS + 1)[1:-1])
    return np.searchsorted(edges, flat[:, 0]), [f"Y is the target in {_GROUPS} parts of equal size."]


def _outcome(
    run: Run,
    path: PlanePath,
    how: str,
    count: int,
    said: list[str],
    moments: dict[int, dict[str, np.ndarray]],
) -> Outcome:
    note = (
        f"Here {_DISTANCE} is the median distance between two examples in a layer in the end."
        if f"of {_DISTANCE}/" in how
        else ""
    )
    pictures: list[Picture] = [by_step("information-plane", "Information plane", path, how, note)]
    if len(path.steps) > 1:
        pictures += [
            over_time("information-plane-input", "What layers know about the input", path, how),
            over_time(
                "information-plane-target", "What layers know about the target", path, how, of="target"
            ),
            film("information-plane-film", "Layers in the information plane", {run.id: path}, how),
        ]
    return Outcome(
        [*_findings(path, how, count), *([note] if note else []), *said],
        pictures,
        Table(
            "information-plane-table", "Two phases, as measured", ["run", *HEADS], phase_rows({run.id: path})
        ),
        {
            "estimator": how,
            "steps": path.steps.tolist(),
            "layers": list(path.layers),
            "units": [int(values.shape[1]) for values in next(iter(moments.values())).values()],
            "about_input": path.about_input.tolist(),
            "about_target": path.about_target.tolist(),
            "rises": path.rises(),
        },
    )


def _findings(path: PlanePath, how: str, count: int) -> list[str]:
    ceiling = float(np.log2(count))
    flat = [name for number, name in enumerate(path.layers) if path.about_input[-1, number] > _SAME * ceiling]
    rises, phases = path.rises(), path.phases()
    first, last = path.layers[0], path.layers[-1]
    findings = [
        f"At step {int(path.steps[-1]):,} what goes {first} has {path.about_input[-1, 0]:.3g} bits about the input and "
        f"{path.about_target[-1, 0]:.3g} about the target; what goes {last} has {path.about_input[-1, -1]:.3g} and "
        f"{path.about_target[-1, -1]:.3g} ({how}, {count:,} examples, at most {ceiling:.3g} bits).",
        "After I(h; Y) has levelled off I(X; h) changes by "
        + ", ".join(f"{phase.compression:+.2f} ({name})" for name, phase in list(phases.items())[-3:])
        + " bits; that need not go along with better answers.",
    ]
    if flat:
        findings.append(
            f"{len(flat)} of {len(path.layers)} layers tell all examples apart: there the axis shows the logarithm of "
            "their number and nothing about the layer; fewer bins or more noise show more."
        )
    findings.append(
        f"Estimator failure: {len(rises)} of {len(path.layers)} layers ({', '.join(rises[-3:])}) read more than "
        "a layer before, which the data-processing inequality forbids of the truth; each is measured by itself."
        if rises
        else "The data-processing inequality holds between all layers in the end."
    )
    return findings


def _applies(model: Model, schema: Schema) -> bool:
    return (
        isinstance(model, HasLogits)
        and not isinstance(model, HasOwnTraining)
        and targets.of(schema).given
        and bool(layer_activations.layers(model))
    )


probe = Probe(
    "The information plane: what each layer knows about the input and the target, checkpoint by checkpoint.",
    "a network that gives logits or values for a target",
    _applies,
    examine,
    InformationPlaneProbeSettings,
    toy={"examples": 16},
)

__all__ = ["InformationPlaneProbeSettings", "examine", "probe"]
