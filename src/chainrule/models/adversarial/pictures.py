"""Pictures of a game: where scores rise and generated points would go, modes, walks through noise, slopes, weights."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core import random
from chainrule.core.pictures import Lines, Picture, Scatter
from chainrule.core.types import Array, Key
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.data.generated.toys import modes_of
from chainrule.data.previews import heads
from chainrule.models.adversarial.games import undecided
from chainrule.models.adversarial.penalties import interpolates, lengths, scores_and_slopes
from chainrule.networks.pictures import generators
from chainrule.nn import Conv, Linear

_GRID = 60
_POINTS = 400
_ARROWS = 60
_BINS = 40
_SEEN = 512


def all_of(model: Any, data: Data, key: Key) -> list[Picture]:
    """All that apply to these data and this game."""
    found: list[Picture] = []
    if (
        kinds.of(data.schema).is_plane(data.schema)
        and not model.conditional
        and model.discriminator.pack == 1
    ):
        found.append(_plane(model, data, key))
    if modes_of(data.source) is not None:
        found.append(generators.modes(model.sample, data, key))
    if kinds.of(data.schema).shows_pixels(data.schema):
        conditions = model.some_conditions(generators.WALKS, generators.WAY)
        found.append(generators.walks(model.noise, lambda ways: model.generate(ways, conditions), key))
    if model.discriminator.pack == 1:
        found.append(_slopes(model, data, key))
    return [*found, _weights(model)]


def _plane(model: Any, data: Data, key: Key) -> Scatter:
    """Scores over the plane, and at generated points the direction in which they rise."""
    real = np.asarray(data.train.batch(np.arange(min(_POINTS, len(data.train)))).x).reshape(-1, 2)
    drawn = np.asarray(model.sample(key, _POINTS)).reshape(-1, 2)
    both = np.concatenate([real, drawn])
    margin = 0.1 * np.ptp(both, axis=0)
    (left, bottom), (right, top) = both.min(axis=0) - margin, both.max(axis=0) + margin
    across, up = np.meshgrid(np.linspace(left, right, _GRID), np.linspace(bottom, top, _GRID))
    shape = (-1, *model.schema.shape)
    positions = np.stack([across, up], axis=-1).reshape(shape).astype(np.float32)
    field = np.asarray(model.judge(jnp.asarray(positions))).reshape(_GRID, _GRID)
    begin = drawn[:_ARROWS]
    slope = np.asarray(_rise(model, jnp.asarray(begin.reshape(shape)))).reshape(-1, 2)
    longest = np.linalg.norm(slope, axis=1).max()
    steps = slope / max(longest, 1e-12) * 0.08 * (right - left)
    back = data.scaling.inverse
    line = undecided(model.game, model.real_target)
    x_label, y_label = heads(data.schema, 2)
    (west, south), (east, north) = (
        np.asarray(back(np.array([[left, bottom], [right, top]]))).astype(float).tolist()
    )
    return Scatter(
        "score-field",
        "Scores over the plane",
        x_label,
        y_label,
        {"data": np.asarray(back(real)), "generated": np.asarray(back(drawn))},
        field=field,
        extent=(west, east, south, north),
        contours=[] if line is None else [(line, "undecided")],
        arrows=(np.asarray(back(begin)), np.asarray(back(begin + steps)) - np.asarray(back(begin))),
        caption="Colour: the score of the discriminator, "
        + (
            "with a line half way between the lowest and the highest. "
            if line is None
            else "with a line where it finds both equally likely. "
        )
        + "Arrows: the way its slope sends generated points, the longest "
        "drawn as a twelfth of the width. Where the game has come to rest, they are short and of no common direction: "
        f"the largest slope is {longest:.2g}.",
    )


@eqx.filter_jit
def _rise(model: Any, x: Array) -> Array:
    def total(x: Array) -> Array:
        return model.discriminator(model.to_networks(x)).sum()

    return jax.grad(total)(x)


def _slopes(model: Any, data: Data, key: Key) -> Lines:
    """Lengths of slopes at real and generated examples and between them."""
    index = np.unique(np.linspace(0, len(data.train) - 1, _SEEN).astype(int))
    batch = data.train.batch(index)
    y = model.given(batch.y)
    found = {name: np.asarray(size) for name, size in _lengths(model, jnp.asarray(batch.x), y, key).items()}
    most = max(float(np.quantile(size, 0.995)) for size in found.values()) * 1.1 + 1e-9
    edges = np.linspace(0, most, _BINS + 1)
    middle = (edges[1:] + edges[:-1]) / 2
    series = {
        name: (middle, np.histogram(size, edges)[0] / (len(size) * (edges[1] - edges[0])))
        for name, size in found.items()
    }
    return Lines(
        "slopes",
        "How steep scores are",
        "length of the slope",
        "density",
        series,
        marks=[(1.0, "1")] if most > 1 else [],
        caption="Over all entries of an example, in units of the network (images from -1 to 1). Between means on the "
        "straight line between a real and a generated example that do not belong together, where gradient penalties "
        "ask for 1.",
    )


@eqx.filter_jit
def _lengths(model: Any, x: Array, y: Any, key: Key) -> dict[str, Array]:
    model = eqx.nn.inference_mode(model)
    real = model.to_networks(x)
    fake = model.generator(model.noise(random.named(key, "noise"), len(x)), y)
    found = {"real": real, "generated": fake, "between": interpolates(key, real, fake)}
    return {name: lengths(scores_and_slopes(model.discriminator, at, y)[1]) for name, at in found.items()}


def _weights(model: Any) -> Lines:
    """Entries of the matrices of the discriminator."""
    nodes = jax.tree.leaves(model.discriminator, is_leaf=lambda node: isinstance(node, Linear | Conv))
    found = np.concatenate([np.asarray(n.weight).ravel() for n in nodes if isinstance(n, Linear | Conv)])
    edges = np.linspace(float(found.min()) - 1e-9, float(found.max()) + 1e-9, _BINS + 1)
    share = np.histogram(found, edges)[0] / len(found)
    return Lines(
        "weights",
        "Weights of the discriminator",
        "weight",
        "share",
        {"all matrices": ((edges[1:] + edges[:-1]) / 2, share)},
        caption="Clipped critics have most of theirs at the two ends; penalties leave a bell.",
    )


__all__ = ["all_of"]
