"""Activation maximisation: images that excite a class or a channel most within the range of the data."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.spatial
from pydantic import Field

from chainrule.core import random
from chainrule.core.errors import ArgumentError, suggest
from chainrule.core.pictures import Images, Table
from chainrule.core.types import Array, Float
from chainrule.data import kinds, targets
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.methods.activation_maximisation import Ascent, dreamer
from chainrule.explain.methods.feature_maps import feature_maps, layer_number
from chainrule.explain.methods.quality.randomisation import rank_correlation, shuffled, verdict
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.models.protocol import HasLogits, Model
from chainrule.train import Run

ROW = 10
"""Most targets side by side."""
WIDE = 900
"""Room for them, in the pixels of a drawn sheet."""


@final
class DreamsSettings(Settings):
    """What is to be excited, and how the climb is held back."""

    classes: tuple[str, ...] = Field((), description="classes by name; empty: all")
    layer: int | None = Field(
        None,
        description="rectified layer, counted from 0 (negative: from the last), whose channels are excited instead",
    )
    channels: tuple[Annotated[int, Field(ge=0)], ...] = Field(
        (), description="channels of that layer; empty: the eight that training images excite most"
    )
    steps: int = Field(512, ge=1, description="steps of Adam")
    rate: float = Field(0.05, gt=0, description="learning rate of Adam")
    jitter: int | None = Field(
        None, ge=0, description="pixels the image may move before a step; none: an eighth of its shorter side"
    )
    scale: float = Field(0.1, ge=0, le=0.5, description="share it may be enlarged or shrunk by before a step")
    l2: float = Field(1.0, ge=0, description="weight of the squared distance from the mean image")
    variation: float = Field(
        5.0, ge=0, description="weight of the squared differences of neighbouring pixels"
    )
    diversity: float = Field(0.0, ge=0, description="weight of the likeness of dreams from different starts")
    parametrisation: Literal["fourier", "pixels"] = Field(
        "fourier", description="what Adam moves: waves, the fine ones slowly, or pixels"
    )
    starts: int = Field(
        3, ge=1, description="random images to begin with; the dream that ends highest is shown"
    )
    draws: int = Field(2, ge=1, description="networks with shuffled weights the dreams are held against")
    examples: int = Field(500, ge=2, description="training images for mean, range and comparison")
    seed: int = Field(0, ge=0, description="of starts, jitter and shuffling")


def examine(run: Run, data: Data, settings: DreamsSettings) -> Outcome:
    """Dreams of classes or channels, the images of the data that come closest, and dreams without what was learned."""
    model: Any = run.model  # a classifier with logits, see `_applies`
    pool = jnp.asarray(data.train.batch(np.arange(min(settings.examples, len(data.train)))).x)
    layer = _layer(model, pool, settings)
    excited = np.asarray(_activity(model, pool, layer))
    targets = _targets(run.schema, excited, settings)
    names = [run.schema.classes[t] if layer is None else str(t) for t in targets]
    ascent = _ascent(run.schema, settings)
    dreams = dreamer(
        lambda model, x: _units(model, x, layer), pool, targets, ascent, settings.starts, settings.seed
    )
    own = dreams(model)
    keys = jax.random.split(random.key(settings.seed, "shuffled"), settings.draws)
    mixed = [dreams(shuffled(model, key)) for key in keys]
    alike = np.mean([_alike(own, other) for other in mixed], axis=0)
    every = np.arange(len(targets))
    reached = np.stack([np.asarray(_activity(model, jnp.asarray(x), layer)) for x in own])
    best = reached[:, every, targets].argmax(axis=0)
    shown = {
        "real": np.asarray(pool)[excited[:, targets].argmax(axis=0)],
        "dream": own[best, every],
        "shuffled": mixed[0][best, every],
    }
    strength, sure = (
        {name: np.asarray(of(model, jnp.asarray(x), layer))[every, targets] for name, x in shown.items()}
        for of in (_activity, _confidence)
    )
    columns = {
        "reached": strength["dream"],
        "strongest of the data": strength["real"],
        **({"probability": sure["dream"]} if layer is None else {}),
        "alike": alike,
        "distance": _distance(shown["dream"], np.asarray(pool)),
    }
    numbers = {name: values.tolist() for name, values in columns.items()}
    steady = _steady(own)
    return Outcome(
        _findings(layer, columns, steady, len(pool)),
        [_sheet(shown, sure if layer is None else strength, names, layer, ascent, np.asarray(pool))],
        _table(layer, names, columns),
        {"targets": names, **numbers, "starts alike": steady},
    )


def _layer(model: HasLogits, x: Array, settings: DreamsSettings) -> int | None:
    """The number of the layer that was asked for; none: classes."""
    if settings.layer is None:
        if settings.channels:
            raise ArgumentError(
                f"channels={','.join(map(str, settings.channels))}: channels of which layer?",
                remedy="name it: layer=0 is the first, layer=-1 the last",
            )
        return None
    if settings.classes:
        raise ArgumentError(
            f"classes={','.join(settings.classes)}, layer={settings.layer}: classes or channels, not both",
            remedy="leave one of the two out",
        )
    return layer_number(
        "layer", settings.layer, len(jax.eval_shape(lambda x: feature_maps(model.logits, x), x))
    )


def _targets(schema: Schema, excited: np.ndarray, settings: DreamsSettings) -> np.ndarray:
    """Numbers of the classes or channels, refused where there is no such."""
    count = excited.shape[1]
    if settings.layer is not None:
        wrong = [c for c in settings.channels if not 0 <= c < count]
        if wrong:
            raise ArgumentError(
                f"channels={wrong[0]}: layer {settings.layer} has {count} channels",
                remedy=f"choose from 0 to {count - 1}",
            )
        return np.array(settings.channels or np.argsort(-excited.mean(axis=0), kind="stable")[:8])
    for name in settings.classes:
        if name not in schema.classes:
            raise ArgumentError(
                f"classes={name}: there is no such class{suggest(name, schema.classes)}",
                remedy=f"the data have: {', '.join(schema.classes[:20])}{', ...' if count > 20 else ''}",
            )
    return np.array([schema.classes.index(name) for name in settings.classes or schema.classes])


def _ascent(schema: Schema, settings: DreamsSettings) -> Ascent:
    side = min(schema.shape[:2])
    jitter = max(1, side // 8) if settings.jitter is None else settings.jitter
    if jitter >= side:
        raise ArgumentError(
            f"jitter={jitter}: images are {side} pixels on their shorter side",
            remedy=f"choose 0 to {side - 1}",
        )
    held = {
        name: getattr(settings, name) for name in ("scale", "l2", "variation", "diversity", "parametrisation")
    }
    return Ascent(steps=settings.steps, rate=settings.rate, jitter=jitter, **held)


def _units(model: HasLogits, x: Float[Array, "batch height width channels"], layer: int | None) -> Array:
    """What can be excited, one number each: logits of classes, or the mean activity of the channels of a layer."""
    return model.logits(x) if layer is None else feature_maps(model.logits, x)[layer].mean(axis=(1, 2))


@eqx.filter_jit
def _activity(model: HasLogits, x: Array, layer: int | None) -> Array:
    return _units(model, x, layer)


@eqx.filter_jit
def _confidence(model: HasLogits, x: Array, layer: int | None) -> Array:
    """Probabilities of classes; of channels there are none."""
    return model.predict(x) if layer is None else _units(model, x, layer)


def _alike(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Rank correlation of the dreams of every target, averaged over the starts."""
    return np.mean(
        [
            [rank_correlation(*two) for two in zip(*pair, strict=True)]
            for pair in zip(one, other, strict=True)
        ],
        axis=0,
    )


def _steady(dreams: np.ndarray) -> float | None:
    """How alike the dreams of one network from one start and the next are; none where there is a single start."""
    return float(_alike(dreams[:-1], dreams[1:]).mean()) if len(dreams) > 1 else None


def _distance(dreams: np.ndarray, pool: np.ndarray) -> np.ndarray:
    """From each dream to the nearest image of the data, in units of the median from one such image to the nearest."""
    flat, rows = (x.reshape(len(x), -1).astype(np.float64) for x in (pool, dreams))
    among, away = (scipy.spatial.distance.cdist(x, flat) for x in (flat, rows))
    np.fill_diagonal(among, np.inf)
    return away.min(axis=1) / max(float(np.median(among.min(axis=1))), 1e-12)


def _findings(
    layer: int | None, columns: Mapping[str, np.ndarray], steady: float | None, count: int
) -> list[str]:
    """How high the dreams got, whether that was learned, and what they are not."""
    what = "logit" if layer is None else f"activity in layer {layer}"
    climbed = (
        f"{len(columns['reached'])} dreams reach a mean {what} of {columns['reached'].mean():.3g}; the strongest of "
        f"{count} training images for each reach {columns['strongest of the data'].mean():.3g}."
    )
    if layer is None:
        climbed += f" Least probability of the class that was asked for: {columns['probability'].min():.1%}."
    silent = int((columns["reached"] <= 0).sum()) if layer is not None else 0
    check = verdict("dream", {"dreams": columns["alike"]})
    if steady is not None:
        check += f" Dreams of the trained network from different starts: {steady:.2f}."
    return [
        climbed,
        *([f"{silent} channels stayed silent from every start."] if silent else []),
        check,
        "A dream is what a restrained ascent found, neither the strongest stimulus there is nor a likely image: the "
        f"nearest training image is {columns['distance'].mean():.2g} times as far from it as training images are from "
        "their nearest.",
    ]


def _sheet(
    shown: Mapping[str, np.ndarray],
    said: Mapping[str, np.ndarray],
    names: list[str],
    layer: int | None,
    ascent: Ascent,
    pool: np.ndarray,
) -> Images:
    """Blocks of three rows: the strongest image of the data, the dream, the dream of shuffled weights."""
    low, high = (limit(pool, axis=(0, 1, 2), keepdims=True) for limit in (np.min, np.max))
    width = _side_by_side(pool.shape[2], names)
    tiles, labels = [], []
    for first in range(0, len(names), width):
        block = slice(first, first + width)
        for row, images in shown.items():
            some = _visible(((images - low) / np.where(high > low, high - low, 1))[block])
            room = width - len(some)
            tiles.append(np.concatenate([some, np.ones((room, *some.shape[1:]))]))
            numbers = [f"{v:.0%}" if layer is None else f"{v:.3g}" for v in said[row][block]]
            heads = [f"{name}: " if row == "real" else "" for name in names[block]]
            labels += [*map("".join, zip(heads, numbers, strict=True)), *[""] * room]
    what = (
        "probability of the class"
        if layer is None
        else "activity of the channel, the mean over its positions"
    )
    return Images(
        "dreams",
        f"{'Classes' if layer is None else f'Channels of layer {layer}'}: training image, dream, shuffled weights",
        np.concatenate(tiles),
        labels,
        columns=width,
        aligned=True,
        caption=f"Rows: the training image that excites the {'class' if layer is None else 'channel'} most, the dream, "
        f"and the dream of a network with shuffled weights from the same start. Numbers: {what}, by the trained "
        f"network in all rows. {ascent.steps} steps, shifts of up to {ascent.jitter} pixels, scales within "
        f"{ascent.scale:.0%}; all images are in the range of the data and on one scale.",
    )


def _side_by_side(side: int, names: list[str]) -> int:
    """Targets in a row, so that the sheet need not break it: by the width of a tile and of the longest name."""
    widest = max(64, side, min(150, 8 * (max(map(len, names)) + 6))) + 6
    return max(1, min(ROW, len(names), WIDE // widest))


def _visible(images: np.ndarray) -> np.ndarray:
    """Images with one or three channels; others as their mean."""
    return images if images.shape[-1] in (1, 3) else images.mean(axis=-1, keepdims=True)


def _table(layer: int | None, names: list[str], columns: Mapping[str, np.ndarray]) -> Table:
    rows = [[name, *map(float, values)] for name, *values in zip(names, *columns.values(), strict=True)]
    what = "logit" if layer is None else "mean activity of the channel"
    return Table(
        "dreams-table",
        "Dreams",
        ["class" if layer is None else "channel", *columns],
        rows,
        caption=f"Reached, and the strongest of the data: {what}. Alike: rank correlation with the dreams of networks "
        "with shuffled weights. Distance: to the nearest training image, in units of the median distance from one "
        "training image to the nearest other.",
    )


def _applies(model: Model, schema: Schema) -> bool:
    return isinstance(model, HasLogits) and kinds.of(schema).spatial and targets.of(schema).one_class


probe = Probe(
    "Images made to excite a class or a channel most, held against the data and against shuffled weights.",
    "a classifier of images that ends in logits",
    _applies,
    examine,
    DreamsSettings,
    toy={"steps": 2, "starts": 1, "draws": 1, "examples": 20},
)

__all__ = ["DreamsSettings", "examine", "probe"]
