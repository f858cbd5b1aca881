"""How far other data are from what a network was trained on: layer by layer, and example by example.

At the input and after every layer the two sets are compared by their maximum mean discrepancy and by a classifier that
tells them apart. The witness, the function on which they differ most, names the examples that are typical of one set
only. A layer at which the sets come together is one whose features transfer; one at which they come apart is not.
"""

from dataclasses import replace
from typing import Any, NamedTuple, final

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from pydantic import Field

from chainrule.core.pictures import Lines, Picture, Scatter, Table
from chainrule.data import kinds, targets
from chainrule.data.dataset import Data
from chainrule.data.loading.others import load_other
from chainrule.data.schema import Schema
from chainrule.data.splits import Split, Subset
from chainrule.explain.methods.all_outputs import all_outputs
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.kernels.hypothesis_tests import two_sample_test
from chainrule.kernels.mean_embedding import mmd, witness
from chainrule.models import layer_activations
from chainrule.models.protocol import HasLogits, Model
from chainrule.train import Run
from chainrule.transfer.distances import proxy_distance
from chainrule.transfer.domain_classifier import principal_scores

_KEPT = 32
"""Principal components of a layer that are compared."""
_SHOWN = 10
"""Examples of either sign of the witness."""
_LEVEL = 0.01

Features = Float[np.ndarray, "examples features"]


@final
class DomainShiftSettings(Settings):
    """The other data, and how much of them."""

    against: str = Field(
        "", description="name or path of the other data; none: training against held-out ones"
    )
    load: dict[str, Any] = Field(
        default_factory=dict, description="options of the other data, e.g. load.angle=35"
    )
    examples: int = Field(500, ge=10, le=5000, description="of either, at most")
    permutations: int = Field(200, ge=19, le=10_000, description="shuffles of each test")
    seed: int = Field(0, ge=0, description="shuffles and folds")


class _Layer(NamedTuple):
    name: str
    own: Features
    other: Features


class _Measured(NamedTuple):
    name: str
    mmd: float
    p: float
    proxy: float
    uncertainty: float


def examine(run: Run, data: Data, settings: DomainShiftSettings) -> Outcome:
    """Compare the run's own held-out examples with the others, at the input and after every layer."""
    held, said = data.held_out()
    sets, names = (data.train, held), ("training", "held out")
    if settings.against:
        other = load_other(settings.against, run.preparation, needs_targets=False, **settings.load)
        sets, names = (held, other.test), (data.name, other.name)
    few = [Subset.drawn(one, settings.examples) if len(one) > settings.examples else one for one in sets]
    batches = [one.batch(np.arange(len(one))) for one in few]
    layers = _layers(run.model, *(jnp.asarray(batch.x) for batch in batches))
    measured = [_measured(layer, settings) for layer in layers]
    labels = [targets_of(data.schema, batch.y) for batch in batches]
    pictures: list[Picture] = [_by_layer(measured, names)]
    pictures += [_map(layer, names, labels, data.schema) for layer in (layers[0], layers[-1])]
    pictures += _witnessed(data, few, layers[0], names)
    rows = [[one.name, *(f"{value:.4g}" for value in one[1:])] for one in measured]
    findings = _findings(measured, names, [len(one) for one in few])
    return Outcome(
        [*findings, *_accuracies(run.model, batches, labels, names), *said],
        pictures,
        Table(
            "domain-shift-table",
            f"{names[0]} and {names[1]} at every layer",
            ["at", "MMD", "p", "proxy distance", "its standard error"],
            rows,
        ),
        {"layers": [one._asdict() for one in measured], "examples": [len(one) for one in few]},
    )


def targets_of(schema: Schema, y: Any) -> np.ndarray | None:
    """Class numbers where there are classes; nothing otherwise."""
    return np.asarray(y) if y is not None and targets.of(schema).one_class else None


def _layers(model: Any, own: Any, other: Any) -> list[_Layer]:
    """The input, what enters every layer but the first, and what the last one gives; principal components of each."""
    both = jnp.concatenate([own, other])
    flows = layer_activations.observe(model, lambda model: model.logits(both))
    found = {"input": both}
    for number, (name, flow) in enumerate(flows.items()):
        if number and flow.input.shape[0] == len(both):
            found[f"into {name}"] = flow.input
    last, flow = list(flows.items())[-1]
    if flow.output.shape[0] == len(both):
        found[f"out of {last}"] = flow.output
    layers = []
    for name, value in found.items():
        scores = np.asarray(principal_scores(jnp.asarray(value, jnp.float32).reshape(len(both), -1), _KEPT))
        # Empty columns change no distance and no classifier: with them, one program serves all layers.
        scores = np.pad(scores, ((0, 0), (0, _KEPT - scores.shape[1])))
        layers.append(_Layer(name, scores[: len(own)], scores[len(own) :]))
    return layers


def _measured(layer: _Layer, settings: DomainShiftSettings) -> _Measured:
    test = two_sample_test(layer.own, layer.other, permutations=settings.permutations)
    proxy = proxy_distance(layer.own, layer.other, seed=settings.seed)
    return _Measured(
        layer.name, float(mmd(layer.own, layer.other)), test.p_value, proxy.value, proxy.uncertainty
    )


def _findings(measured: list[_Measured], names: tuple[str, str], counts: list[int]) -> list[str]:
    first, last = measured[0], measured[-1]
    apart = "differ" if first.p <= _LEVEL else "cannot be told from each other"
    found = [
        f"At the input {counts[0]:,} examples of {names[0]} and {counts[1]:,} of {names[1]} {apart}: MMD "
        f"{first.mmd:.3g} (p = {first.p:.3g}), and a classifier tells them apart with a proxy distance of "
        f"{first.proxy:.2f} of 2.",
    ]
    if len(measured) > 1 and any(one.p <= _LEVEL for one in measured):
        change, noise = last.proxy - first.proxy, 2 * (last.uncertainty + first.uncertainty)
        trend = (
            "come together"
            if change < -noise
            else "come further apart"
            if change > noise
            else "stay as far apart"
        )
        closest = min(measured, key=lambda one: one.proxy)
        where = "at the input" if closest is first else closest.name
        least = "its least" if closest is last else f"and least {where} ({closest.proxy:.2f})"
        found.append(
            f"Through the network they {trend}: the proxy distance is {last.proxy:.2f} {last.name}, {least}."
        )
    return found


def _accuracies(model: Any, batches: list[Any], labels: list[Any], names: tuple[str, str]) -> list[str]:
    if any(one is None for one in labels):
        return []
    right = [
        float((all_outputs(model.logits, batch.x).argmax(axis=-1) == y).mean())
        for batch, y in zip(batches, labels, strict=True)
    ]
    return [f"It is right on {100 * right[0]:.1f} % of {names[0]} and {100 * right[1]:.1f} % of {names[1]}."]


def _by_layer(measured: list[_Measured], names: tuple[str, str]) -> Lines:
    at = np.arange(len(measured), dtype=float)
    proxy, error = (np.array([getattr(one, name) for one in measured]) for name in ("proxy", "uncertainty"))
    return Lines(
        "domain-shift-layers",
        f"{names[0]} and {names[1]} through the network",
        "layer",
        "distance",
        {
            "proxy distance / 2": (at, proxy / 2, (proxy - error) / 2, (proxy + error) / 2),
            "MMD": (at, np.array([one.mmd for one in measured])),
        },
        caption="Half the proxy distance is 0 where a classifier cannot tell the sets apart and 1 where it always can. "
        f"The first {_KEPT} principal components of each layer are compared.",
        names=[one.name for one in measured],
    )


def _map(layer: _Layer, names: tuple[str, str], labels: list[Any], schema: Schema) -> Scatter:
    """The two leading components, coloured by domain and, where there are few classes, by class."""
    groups: dict[str, np.ndarray] = {}
    for name, rows, y in zip(names, (layer.own, layer.other), labels, strict=True):
        plane = np.pad(rows, ((0, 0), (0, max(0, 2 - rows.shape[1]))))[:, :2]
        if y is None or len(schema.classes) > 3:
            groups[name] = plane
        else:
            groups |= {f"{name}: {schema.classes[k]}": plane[y == k] for k in np.unique(y)}
    where = "the input" if layer.name == "input" else f"what goes {layer.name}"
    return Scatter(
        f"domain-shift-map-{'input' if layer.name == 'input' else 'last'}",
        f"Both sets at {where}",
        "first principal component",
        "second principal component",
        groups,
    )


def _witnessed(data: Data, few: list[Split], layer: _Layer, names: tuple[str, str]) -> list[Picture]:
    """The examples at which the witness is largest and smallest: typical of one set, unlike the other."""
    if not float(mmd(layer.own, layer.other)) > 0:
        return []
    f = witness(layer.own, layer.other)
    chosen = [
        np.argsort(-np.asarray(f(layer.own)))[:_SHOWN],
        np.argsort(np.asarray(f(layer.other)))[:_SHOWN],
    ]
    kind, pictures = kinds.of(data.schema), []
    for part, rows, name, other in zip(few, chosen, names, names[::-1], strict=True):
        x = data.inverse(part.batch(rows).x)
        picture = kind.picture(
            data.schema,
            x,
            title=f"Most typical of {name}, unlike {other}",
            caption="By the witness at the input.",
        )
        pictures.append(picture)
    return _renamed(pictures)


def _renamed(pictures: list[Picture]) -> list[Picture]:
    return [replace(one, name=f"domain-shift-witness-{number}") for number, one in enumerate(pictures, 1)]


def _applies(model: Model, schema: Schema) -> bool:
    return (
        isinstance(model, HasLogits) and kinds.of(schema).comparable and bool(layer_activations.layers(model))
    )


probe = Probe(
    "How far other data are from those of training: at every layer, and which examples make the difference.",
    "a network that gives logits or values, on images, points or tables",
    _applies,
    examine,
    DomainShiftSettings,
    toy={"examples": 16, "permutations": 19},
)

__all__ = ["DomainShiftSettings", "examine", "probe"]
