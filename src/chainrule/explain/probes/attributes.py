"""Attribute vectors: codes moved by what tells examples that have an attribute from those that lack it.

The vector is the mean code of training examples of a class, or with a label, less that of the others, or of one other
class. Held-out examples that lack the attribute and samples of the model are moved along it, and a classifier that
never saw the model says how many of them then have it (Kingma and Dhariwal, Glow, 2018).
"""

from typing import Any, NamedTuple, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.errors import ArgumentError, suggest
from chainrule.core.pictures import Images, Lines, Picture, Table
from chainrule.core.types import Array
from chainrule.data import kinds, targets
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.data.splits import Split
from chainrule.explain.methods import code_space
from chainrule.explain.protocol import Count, Outcome, Probe, Settings
from chainrule.models.protocol import CanSample, Model
from chainrule.train import Run
from chainrule.train.generation.drawing import as_rows, draw
from chainrule.train.generation.reference_classifier import trained

_AT_ONCE = 256
_STRENGTHS = np.linspace(0, 2, 9)
_SHOWN = 4
"""Examples of either kind that are shown."""


@final
class AttributesSettings(Settings):
    """Which attribute, and how many examples say what it is."""

    attribute: str | None = Field(
        None, description="the class or label to move towards; none: the commonest one"
    )
    away_from: str | None = Field(
        None, description="classes: the one to move away from; none: all but the attribute"
    )
    n: Count = Field(
        1000, description="training examples whose codes make the vector, and held-out ones that are moved"
    )
    samples: Count = Field(64, description="samples of the model that are moved")
    seed: int = Field(0, ge=0, description="noise the samples start from")


class _Known(NamedTuple):
    """Examples in model units, and whether each has the attribute or what is moved away from."""

    x: np.ndarray
    has: np.ndarray
    lacks: np.ndarray


def examine(run: Run, data: Data, settings: AttributesSettings) -> Outcome:
    """Find the vector, move codes along it, and ask a classifier what became of them."""
    model: Any = eqx.nn.inference_mode(run.model)
    part, said = data.held_out()
    attribute, other = _chosen(data.schema, data.train, settings)
    train, held = (_known(data, split, settings.n, attribute, other) for split in (data.train, part))
    vector = code_space.attribute_vector(_encoded(model, train.x), train.has, train.lacks)
    either = train.has | train.lacks
    judge = trained(as_rows(train.x)[either], train.has[either].astype(int), 2)
    begun = {"held-out examples": held.x[held.lacks]}
    if isinstance(model, CanSample):
        begun["samples"] = draw(model, data, settings.samples, random.key(settings.seed, "probe"), part, None)
    names = data.schema.classes
    label = names[attribute] if other is None else f"{names[attribute]} instead of {names[other]}"
    shares: dict[str, np.ndarray] = {}
    sheets: list[np.ndarray] = []
    for kind, x in begun.items():
        if not len(x):
            continue
        moved = _moved(model, _encoded(model, x), vector)
        rows = as_rows(moved.reshape(-1, *x.shape[1:]))
        asked = judge.probabilities(rows).argmax(axis=1).reshape(moved.shape[:2])
        shares[kind] = asked.mean(axis=0)
        sheets.append(moved[:_SHOWN])
    if not shares:
        raise ArgumentError(f"attribute={names[attribute]}: every held-out example has it already")
    right = judge.accuracy(as_rows(held.x), held.has.astype(int))
    first, whole = (float(next(iter(shares.values()))[np.argmin(abs(_STRENGTHS - at))]) for at in (0.0, 1.0))
    return Outcome(
        [
            f"Moved by the whole vector, {whole:.0%} of {next(iter(shares))} without it are taken for {label}; before, "
            f"{first:.0%} (a classifier of training examples, right for {right:.0%} of held-out ones).",
            f"The vector has length {np.linalg.norm(vector):.3g}; codes themselves have "
            f"{np.linalg.norm(_encoded(model, held.x), axis=1).mean():.3g}.",
            *said,
        ],
        [_curve(shares, label), *_sheet(data.schema, sheets, list(shares), label)],
        Table(
            "attributes",
            f"Share taken for {label}",
            ["part of the vector", *shares],
            [[f"{at:g}", *(float(one[row]) for one in shares.values())] for row, at in enumerate(_STRENGTHS)],
        ),
        {
            "attribute": names[attribute],
            "away_from": None if other is None else names[other],
            "length": float(np.linalg.norm(vector)),
            "strength": _STRENGTHS.tolist(),
            "classifier_accuracy": right,
            **{f"share of {kind}": one.tolist() for kind, one in shares.items()},
        },
    )


def _chosen(schema: Schema, train: Split, settings: AttributesSettings) -> tuple[int, int | None]:
    """Numbers of the attribute and of the class to move away from."""
    y, one_class = np.asarray(train.y), targets.of(schema).one_class
    counts = np.bincount(y, minlength=len(schema.classes)) if one_class else y.sum(axis=0)

    def number(option: str, word: str) -> int:
        if word not in schema.classes:
            raise ArgumentError(
                f"{option}={word}: the data know no such class or label{suggest(word, schema.classes)}",
                remedy=f"they know: {', '.join(schema.classes[:12])}",
            )
        return schema.classes.index(word)

    attribute = (
        int(np.argmax(counts)) if settings.attribute is None else number("attribute", settings.attribute)
    )
    if settings.away_from is None:
        return attribute, None
    other = number("away_from", settings.away_from)
    if not one_class or other == attribute:
        raise ArgumentError(
            f"away_from={settings.away_from}: it has to be another class than the attribute",
            remedy="leave it out: then it is all that lack the attribute",
        )
    return attribute, other


def _known(data: Data, split: Split, most: int, attribute: int, other: int | None) -> _Known:
    batch = split.batch(np.unique(np.linspace(0, len(split) - 1, min(most, len(split))).astype(int)))
    y = np.asarray(batch.y)
    has = y == attribute if targets.of(data.schema).one_class else y[:, attribute] > 0
    return _Known(np.asarray(batch.x), has, ~has if other is None else y == other)


def _encoded(model: Any, x: np.ndarray) -> np.ndarray:
    parts = [
        np.asarray(_codes(model, jnp.asarray(x[first : first + _AT_ONCE], jnp.float32)), np.float64)
        for first in range(0, len(x), _AT_ONCE)
    ]
    return np.concatenate(parts)


def _moved(model: Any, codes: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """What codes are at every strength: (examples, strengths, ...)."""
    found = [
        np.concatenate(
            [
                np.asarray(_examples(model, jnp.asarray(piece, jnp.float32)))
                for piece in np.split(codes + at * vector[None], range(_AT_ONCE, len(codes), _AT_ONCE))
            ]
        )
        for at in _STRENGTHS
    ]
    return np.stack(found, axis=1)


@eqx.filter_jit
def _codes(model: Any, x: Array) -> Array:
    return model.encode(x)


@eqx.filter_jit
def _examples(model: Any, z: Array) -> Array:
    return model.decode(z)


def _curve(shares: dict[str, np.ndarray], label: str) -> Lines:
    return Lines(
        "attribute-strength",
        f"How many become {label}",
        "part of the attribute vector",
        "share taken for it",
        {kind: (_STRENGTHS, share) for kind, share in shares.items()},
        caption="By a classifier of training examples that knows nothing of the model.",
    )


def _sheet(schema: Schema, sheets: list[np.ndarray], kinds_of: list[str], label: str) -> list[Picture]:
    if not kinds.of(schema).shows_pixels(schema):
        return []
    rows = np.concatenate(sheets)
    words = [kind for kind, sheet in zip(kinds_of, sheets, strict=True) for _ in sheet]
    return [
        Images(
            "attributes",
            f"Towards {label}",
            np.clip(rows.reshape(-1, *rows.shape[2:]), 0, 1),
            [
                f"{at:g}" if row == 0 else word if column == 0 and word != words[row - 1] else ""
                for row, word in enumerate(words)
                for column, at in enumerate(_STRENGTHS)
            ],
            len(_STRENGTHS),
            f"Codes of {' (above) and of '.join(kinds_of)}, moved by 0 to {_STRENGTHS[-1]:g} of the attribute vector.",
            aligned=True,
        )
    ]


def _applies(model: Model, schema: Schema) -> bool:
    target = targets.of(schema)
    return (target.one_class or target.has_labels) and code_space.has_vector_codes(model, schema)


probe = Probe(
    "Attribute vectors: what becomes of examples and samples whose codes are moved towards a class or a label.",
    "a model that gives every example a vector and makes examples of vectors, of data with classes or labels",
    _applies,
    examine,
    AttributesSettings,
    toy={"n": 60, "samples": 4},
)

__all__ = ["AttributesSettings", "examine", "probe"]
