"""The space of codes: what lies along its axes and between its points, who is near whom, and how it is filled."""

from typing import Any, NamedTuple, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from pydantic import Field
from scipy.stats import norm

from chainrule.core.errors import CapabilityError
from chainrule.core.pictures import Heatmap, Images, Lines, Picture, Table
from chainrule.core.types import Array
from chainrule.data import kinds, targets
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.data.splits import Split
from chainrule.explain.methods import code_space
from chainrule.explain.protocol import Count, Outcome, Probe, Settings
from chainrule.models.protocol import HasLatents
from chainrule.probability.interpolation import between
from chainrule.train import Run

_AT_ONCE = 512
_AXES = 8
"""Entries of a code that are walked along at most."""
_WAY = 9
"""Examples along a walk."""
_RANGE = (2.0, 98.0)
"""Percentiles of held-out codes between which a walk goes."""
_NEAR = 6
"""Neighbours that are shown."""
_ASKED = 8
"""Examples whose neighbours are shown."""
_QUANTILES = 99


@final
class LatentSpaceSettings(Settings):
    """How many examples are encoded, and which entries are shown."""

    n: Count = Field(
        1000, description="examples of the held-out and of the training split whose codes are compared"
    )
    axes: tuple[Count, ...] = Field(
        (), description="entries of the code to walk along, from 1; if not given, those that vary most"
    )
    neighbours: Count = Field(5, description="codes that vote on the class of a code")


class _Coded(NamedTuple):
    x: np.ndarray
    y: np.ndarray | None
    codes: np.ndarray


def examine(run: Run, data: Data, settings: LatentSpaceSettings) -> Outcome:
    """Encode training and held-out examples, measure how their codes lie, and decode what lies around them."""
    model: Any = eqx.nn.inference_mode(run.model)  # encodes and decodes, or the probe does not apply
    part, said = data.held_out()
    held, train = (_coded(model, data.schema, split, settings.n) for split in (part, data.train))
    axes = _axes(held.codes, settings.axes)
    rows, findings = _measures(model, held, train, settings)
    pictures: list[Picture] = []
    if kinds.of(data.schema).shows_pixels(data.schema):
        pictures = [
            _traversals(model, held.codes, axes),
            _interpolations(model, held),
            _nearest(held, train),
            *_attributes(model, data.schema, held, train),
        ]
    if isinstance(model, HasLatents):
        pictures.append(_quantiles(held.codes, axes))
        if held.codes.shape[1] > 1:
            pictures.append(_cells(held.codes, axes))
    table = Table("latent-space", "How the codes lie", ["measure", "value", "for comparison"], rows)
    numbers = {str(row[0]): row[1] for row in rows} | {"axes": (axes + 1).tolist()}
    return Outcome([*findings, *said], pictures, table, numbers)


def _coded(model: Any, schema: Schema, split: Split, most: int) -> _Coded:
    index = np.unique(np.linspace(0, len(split) - 1, min(most, len(split))).astype(int))
    batch = split.batch(index)
    parts = [
        np.asarray(_encoded(model, jnp.asarray(batch.x[first : first + _AT_ONCE])), np.float64)
        for first in range(0, len(index), _AT_ONCE)
    ]
    y = np.asarray(batch.y) if batch.y is not None and targets.of(schema).one_class else None
    return _Coded(np.asarray(batch.x), y, np.concatenate(parts))


@eqx.filter_jit
def _encoded(model: Any, x: Array) -> Array:
    return model.encode(x)


@eqx.filter_jit
def _decoded(model: Any, z: Array) -> Array:
    return model.decode(z)


def _pixels(model: Any, codes: np.ndarray) -> np.ndarray:
    return np.clip(np.asarray(_decoded(model, jnp.asarray(codes, jnp.float32))), 0, 1)


def _axes(codes: np.ndarray, given: tuple[int, ...]) -> np.ndarray:
    size = codes.shape[1]
    if not given:
        return np.argsort(-codes.var(axis=0))[: min(_AXES, size)]
    wrong = [number for number in given if number > size]
    if wrong:
        raise CapabilityError(
            f"axes={','.join(map(str, given))}: a code of this model has {size} entries",
            remedy=f"use numbers from 1 to {size}",
        )
    return np.asarray(given) - 1


def _measures(
    model: Any, held: _Coded, train: _Coded, settings: LatentSpaceSettings
) -> tuple[list[list[Any]], list[str]]:
    """Rows of the table, and what is to be said of them."""
    rows: list[list[Any]] = []
    findings = []
    if held.y is not None and train.y is not None and len(np.unique(train.y)) > 1:
        accuracy, error = code_space.linear_probe(train.codes, train.y, held.codes, held.y)
        common = float(np.bincount(held.y).max() / len(held.y))
        near = code_space.neighbour_error(held.codes, held.y, min(settings.neighbours, len(held.y) - 1))
        apart = code_space.silhouette(held.codes, held.y)
        rows += [
            ["accuracy of a linear probe", accuracy, f"± {error:.2g}; the commonest class: {common:.3g}"],
            ["error of the nearest neighbours", near, f"{settings.neighbours} held-out codes vote"],
            ["silhouette of the classes", apart, "1: apart, 0: they overlap"],
        ]
        findings.append(
            f"Straight cuts through the codes tell the class of {accuracy:.1%} of held-out examples; of "
            f"{near:.1%} the nearest codes are mostly of another class."
        )
    found = code_space.spread(held.codes)
    rows += [
        ["length of the mean code", found.mean_length, "standard normal: 0"],
        ["largest variance along a direction", float(found.variances[0]), "standard normal: 1"],
        ["smallest variance along a direction", float(found.variances[-1]), "standard normal: 1"],
        ["anisotropy", found.anisotropy, "largest over smallest variance"],
    ]
    if isinstance(model, HasLatents):
        floor = f"two samples of a standard normal: {found.discrepancy_floor:.3g}"
        rows.append(["discrepancy (MMD) from a standard normal", found.discrepancy, floor])
        findings.append(
            f"Centres of the codes are {found.discrepancy:.3g} from a standard normal distribution by their maximum "
            f"mean discrepancy; two samples of it are {found.discrepancy_floor:.3g} apart."
        )
    return rows, findings or [f"Codes vary by {found.variances[0]:.3g} along their widest direction."]


def _traversals(model: Any, codes: np.ndarray, axes: np.ndarray) -> Images:
    centre = np.median(codes, axis=0)
    walks = np.tile(centre, (len(axes), _WAY, 1))
    for row, axis in enumerate(axes):
        low, high = np.percentile(codes[:, axis], _RANGE)
        walks[row, :, axis] = np.linspace(low, high, _WAY)
    labels = [f"entry {axis + 1}" if column == 0 else "" for axis in axes for column in range(_WAY)]
    return Images(
        "traversals",
        "Along single entries of the code",
        _pixels(model, walks.reshape(-1, codes.shape[1])),
        labels,
        _WAY,
        "Each row moves one entry between the 2nd and 98th percentile of held-out codes, the others at their median.",
        aligned=True,
    )


def _interpolations(model: Any, held: _Coded) -> Images:
    other = int(np.argmax(held.y != held.y[0])) if held.y is not None else min(1, len(held.codes) - 1)
    first, last = held.codes[0], held.codes[other]
    share = np.linspace(0, 1, _WAY)[:, None]
    straight = (1 - share) * first[None] + share * last[None]
    round_ = np.asarray(between(jnp.asarray(first, jnp.float32), jnp.asarray(last, jnp.float32), _WAY))
    mixed = (1 - share[..., None, None]) * held.x[:1] + share[..., None, None] * held.x[other : other + 1]
    images = np.concatenate([_pixels(model, straight), _pixels(model, round_), np.clip(mixed, 0, 1)])
    names = ("straight", "great circle", "pixels")
    return Images(
        "interpolation",
        "Between two held-out examples",
        images,
        [name if column == 0 else "" for name in names for column in range(_WAY)],
        _WAY,
        "Codes on the straight line between two codes and on the great circle, decoded; below, the pixels mixed.",
        aligned=True,
    )


def _nearest(held: _Coded, train: _Coded) -> Images:
    count = min(_ASKED, len(held.x))
    near = code_space.neighbours(held.codes[:count], train.codes, _NEAR)
    images = np.concatenate([np.concatenate([held.x[i : i + 1], train.x[near[i]]]) for i in range(count)])
    columns = 1 + near.shape[1]
    return Images(
        "neighbours",
        "Nearest training examples by their codes",
        np.clip(images, 0, 1),
        ["held out" if number % columns == 0 else "" for number in range(len(images))],
        columns,
        "First in each row a held-out example, then the training examples with the nearest codes, nearest first.",
        aligned=True,
    )


def _attributes(model: Any, schema: Schema, held: _Coded, train: _Coded) -> list[Picture]:
    """Held-out examples moved by the difference between the mean codes of two classes."""
    if held.y is None or train.y is None or len(np.unique(train.y)) < 2:
        return []
    numbers, counts = np.unique(train.y, return_counts=True)
    one, other = numbers[np.argsort(-counts, kind="stable")[:2]]
    vector = code_space.attribute_vector(train.codes, train.y == other, train.y == one)
    begun = np.flatnonzero(held.y == one)[:_ASKED]
    if not len(begun):
        return []
    share = np.linspace(0, 1.5, _WAY)
    moved = held.codes[begun][:, None, :] + share[None, :, None] * vector[None, None, :]
    names = [schema.classes[number] for number in (one, other)]
    return [
        Images(
            "attributes",
            f"From {names[0]} towards {names[1]}",
            _pixels(model, moved.reshape(-1, moved.shape[2])),
            (),
            _WAY,
            f"Codes of held-out examples of {names[0]}, moved by 0 to 1.5 of the difference between the mean codes of "
            "the two classes.",
            aligned=True,
        )
    ]


def _quantiles(codes: np.ndarray, axes: np.ndarray) -> Lines:
    share = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    expected = norm.ppf(share)
    return Lines(
        "quantiles",
        "Codes beside the standard normal",
        "quantile of the standard normal",
        "quantile of the codes",
        {f"entry {axis + 1}": (expected, np.quantile(codes[:, axis], share)) for axis in axes[:4]},
        diagonal=True,
        caption="Centres of the codes of held-out examples; on the diagonal they would be distributed as the prior. A "
        "flatter line: their own spread makes up for the rest.",
    )


def _cells(codes: np.ndarray, axes: np.ndarray) -> Heatmap:
    pair = axes[:2] if len(axes) > 1 else np.array([axes[0], (axes[0] + 1) % codes.shape[1]])
    cells = code_space.occupancy(codes[:, pair])
    empty, expected = code_space.empty_share(cells, len(codes))
    ticks = [f"{(number + 0.5) / len(cells):.0%}" for number in range(len(cells))]
    return Heatmap(
        "occupancy",
        "Where codes lie",
        f"entry {pair[0] + 1}, share of the prior below",
        f"entry {pair[1] + 1}, share of the prior below",
        cells[::-1] * cells.size,
        ticks[::-1],
        ticks,
        caption="All cells have the same probability under a standard normal prior; 1 is its share. "
        f"{empty:.0%} of the cells are empty; of as many codes from the prior {expected:.0%} would be.",
    )


probe = Probe(
    "The space of codes: along its axes, between codes, neighbours, how it is filled, what it tells of classes.",
    "a model that gives every example a vector and makes examples of vectors, as auto-encoders do",
    code_space.has_vector_codes,
    examine,
    LatentSpaceSettings,
    toy={"n": 60},
)

__all__ = ["LatentSpaceSettings", "examine", "probe"]
