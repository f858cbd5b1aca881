"""Pictures of support vector machines: examples that carry the border, margins, examples on the wrong side."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from chainrule.core.pictures import Bars, Images, Lines, Picture, Scatter, Table
from chainrule.data import kinds, targets
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.splits import Split
from chainrule.kernels.support_vectors.calibration import pairs_of

if TYPE_CHECKING:
    from chainrule.models.kernel.svm.decisions import SupportVectors

_GRID = 60
_SHOWN = 1000
_WORST = 10
_BINS = 30
_AT_ONCE = 500


def all_of(model: "SupportVectors", data: Data) -> Sequence[Picture]:
    """What these data can show."""
    found: list[Picture] = [] if model.coefficients is None else [counts(model, data)]
    plane = kinds.of(data.schema).is_plane(data.schema) and len(model.intercepts) == 1
    if plane:
        found.append(margins(model, data))
    return [*found, histogram(model, data), worst(model, data)]


def own_margins(
    decision: Float[np.ndarray, "rows pairs"], y: np.ndarray, classes: int
) -> Float[np.ndarray, " rows"]:
    """The least decision value in favour of each row's own class, over the pairs that it is part of."""
    pairs = pairs_of(classes)
    own = np.where(
        y[:, None] == pairs[None, :, 1],
        decision,
        np.where(y[:, None] == pairs[None, :, 0], -decision, np.inf),
    )
    return own.min(axis=1)


def _some(split: Split, most: int = _SHOWN) -> Batch:
    return split.batch(np.unique(np.linspace(0, len(split) - 1, min(most, len(split))).astype(int)))


def _decision(model: "SupportVectors", x: np.ndarray) -> np.ndarray:
    parts = [x[start : start + _AT_ONCE] for start in range(0, len(x), _AT_ONCE)]
    values = eqx.filter_jit(lambda m, x: m.decision(x))
    return np.concatenate([np.asarray(values(model, jnp.asarray(part, jnp.float32))) for part in parts])


def counts(model: "SupportVectors", data: Data) -> Bars:
    """Support vectors and other kept examples; by class where there are classes."""
    weights = np.asarray(model.coefficients)
    carries = np.asarray(weights.any(axis=1))
    schema = data.schema
    caption = f"{carries.sum()} of {len(carries)} kept training examples are support vectors."
    if not targets.of(schema).one_class:
        return Bars(
            "support-vectors",
            "Support vectors",
            "",
            "training examples",
            ["support vectors", "others"],
            {"examples": np.array([carries.sum(), (~carries).sum()])},
            caption,
        )
    # The sign of a coefficient says which class of its pair an example is of.
    pairs = pairs_of(len(schema.classes))
    pair = np.abs(weights).argmax(axis=1)
    second = (weights[np.arange(len(weights)), pair] > 0).astype(int)
    own = pairs[pair, second][carries]
    there = np.bincount(np.asarray(data.train.y), minlength=len(schema.classes))
    return Bars(
        "support-vectors",
        "Support vectors by class",
        "class",
        "training examples",
        list(schema.classes),
        {"support vectors": np.bincount(own, minlength=len(schema.classes)), "training examples": there},
        caption,
    )


def margins(model: "SupportVectors", data: Data) -> Scatter:
    """Examples of the plane with their support vectors, if they are kept, over the decision value and its margins."""
    batch = _some(data.train)
    inputs = data.inverse(batch.x)
    low, high = inputs.min(axis=0), inputs.max(axis=0)
    edge = 0.08 * np.maximum(high - low, 1e-9)
    (left, bottom), (right, top) = (low - edge).tolist(), (high + edge).tolist()
    grid = np.stack(np.meshgrid(np.linspace(left, right, _GRID), np.linspace(bottom, top, _GRID)), axis=-1)
    field = _decision(model, np.asarray(data.scaling.apply(grid.reshape(-1, 2).astype(np.float32))))[:, 0]
    schema = data.schema
    target = targets.of(schema)
    contours: list[tuple[float, str]] = [(0.0, "border")]
    groups: dict[str, np.ndarray] = {"examples": inputs}
    if target.one_class:
        groups = {name: inputs[np.asarray(batch.y) == k] for k, name in enumerate(schema.classes)}
        contours = [(-1.0, "-1"), (0.0, "0"), (1.0, "1")]
    if target.has_values:
        contours = []
    if model.coefficients is not None:
        carries = np.asarray(model.coefficients).any(axis=1)
        support = np.asarray(model.points)[carries].reshape(-1, *schema.shape)
        groups["support vectors"] = data.inverse(support)[:_SHOWN]
    names = [*schema.columns, "x1", "x2"] if len(schema.columns) >= 2 else ["x1", "x2"]
    title = "Support vectors and margins" if target.one_class else "Support vectors"
    if model.coefficients is None:
        title = "Margins" if target.one_class else "Decision values"
    return Scatter(
        "margins",
        title,
        names[0],
        names[1],
        groups,
        field.reshape(_GRID, _GRID),
        (left, right, bottom, top),
        contours,
        caption="The shade is the decision value."
        + (" Lines are the border and the margins on both sides." if target.one_class else ""),
    )


def histogram(model: "SupportVectors", data: Data) -> Lines:
    """How far examples are on their side, for training and held-out ones."""
    held, _ = data.held_out()
    series = {}
    values = {
        name: _room(model, _some(split)) for name, split in (("training", data.train), ("held out", held))
    }
    every = np.concatenate(list(values.values()))
    edges = np.linspace(every.min(), max(every.max(), every.min() + 1e-9), _BINS + 1)
    for name, value in values.items():
        share = np.histogram(value, edges)[0] / len(value)
        series[name] = (0.5 * (edges[1:] + edges[:-1]), share)
    inside = float((values["held out"] < 0).mean())
    return Lines(
        "room",
        "How far examples are on their side",
        model.room_name,
        "share of examples",
        series,
        marks=[(0.0, "violated below")],
        caption=f"Below zero examples violate: {100 * inside:.3g} % of those held out.",
    )


def _room(model: "SupportVectors", batch: Batch) -> np.ndarray:
    return model.room(_decision(model, np.asarray(batch.x)), batch)


def worst(model: "SupportVectors", data: Data) -> Picture:
    """The held-out examples that violate most."""
    held, _ = data.held_out()
    batch = _some(held)
    room = _room(model, batch)
    order = np.argsort(room, kind="stable")[:_WORST]
    schema = data.schema
    names = (
        [schema.classes[int(batch.y[i])] for i in order]
        if targets.of(schema).one_class
        else [""] * len(order)
    )
    title, name = "Examples that violate most", "violating"
    if kinds.of(schema).shows_pixels(schema):
        pixels = np.clip(np.asarray(batch.x)[order], 0, 1)
        labels = [f"{label} {room[i]:.2f}".strip() for label, i in zip(names, order, strict=True)]
        return Images(name, title, pixels, labels, caption="Held-out examples, and by how much they violate.")
    inputs = data.inverse(np.asarray(batch.x)[order]).reshape(len(order), -1)[:, :6]
    columns = (
        list(schema.columns[:6])
        if len(schema.columns) >= inputs.shape[1]
        else [f"x{i + 1}" for i in range(inputs.shape[1])]
    )
    rows: list[list[str | float | int]] = [
        [label, float(f"{room[i]:.4g}"), *(float(f"{value:.4g}") for value in row)]
        for label, i, row in zip(names, order, inputs, strict=True)
    ]
    return Table(name, title, ["class" if names and names[0] else "", model.room_name, *columns], rows)


__all__ = ["all_of", "counts", "histogram", "margins", "own_margins", "worst"]
