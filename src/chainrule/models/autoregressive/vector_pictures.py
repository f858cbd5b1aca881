"""Pictures of a trained model of vectors: completions, expected pixels, what it sees, its order, nats by entry."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.pictures import Bars, Heatmap, Images, Picture
from chainrule.core.types import Array, Float, Key
from chainrule.data import kinds
from chainrule.data.dataset import Data

if TYPE_CHECKING:
    from chainrule.models.autoregressive.vectors import VectorModel

_SHOWN = 10
_MOST = 512
"""Held-out examples that are averaged over."""
_LOOKED_AT = 32
"""Images over which the influence of pixels is averaged."""
_BARS = 40


def all_of(model: "VectorModel", data: Data, key: Key) -> Sequence[Picture]:
    """Every picture that suits the data."""
    part = data.val if len(data.val) else data.train
    x = jnp.asarray(part.batch(np.arange(min(_MOST, len(part)))).x)
    nats = -np.asarray(eqx.filter_jit(lambda model, x: model.terms(x))(model, x)).mean(axis=0)
    if not kinds.of(model.schema).spatial:
        return [entries(model, nats)]
    found: list[Picture] = []
    if model.schema.shape[-1] in (1, 3):
        found += [completions(model, x[:_SHOWN], key), expected(model, x[:_SHOWN])]
    found += [surprisal(nats.sum(axis=-1)), receptive_field(model, x[:_LOOKED_AT])]
    order = np.asarray(model.orders[0])
    if not np.array_equal(order, np.arange(len(order))):
        found.append(order_map(model, order))
    return found


def completions(model: "VectorModel", x: Array, key: Key) -> Picture:
    """Held-out images of which the first half of the pixels is kept and the other half drawn three times."""
    half = model.schema.dimensions // 2
    raster = np.array_equal(np.asarray(model.orders[0]), np.arange(model.schema.dimensions))
    # An ensemble is shown through its first order: what is "given" must be the same pixels in every row.
    first = dataclasses.replace(model, members=model.members[:1], orders=model.orders[:1])
    drawn = eqx.filter_jit(lambda model, x, key: model.complete(x, half, key))
    rows = [x, *(drawn(first, x, k) for k in jax.random.split(key, 3))]
    kept = "upper half" if raster else "first half of the pixels, in the model's order,"
    return Images(
        "completions",
        "Half of each image drawn anew",
        np.clip(np.concatenate([np.asarray(row) for row in rows]), 0, 1),
        columns=len(x),
        aligned=True,
        caption=f"First row: held-out images. Below: the {kept} is kept, the rest is drawn pixel by pixel.",
    )


def expected(model: "VectorModel", x: Array) -> Picture:
    """What the model expects of each pixel when it has seen those before it."""
    means = np.asarray(eqx.filter_jit(lambda model, x: model.expected(x))(model, x))
    return Images(
        "expected-pixels",
        "Each pixel as expected from those before it",
        np.clip(np.concatenate([np.asarray(x), means]), 0, 1),
        columns=len(x),
        aligned=True,
        caption="Above: held-out images. Below: the mean of every pixel given the true pixels before it.",
    )


def surprisal(nats: np.ndarray) -> Picture:
    """Which pixels the nats go to, on average over held-out images."""
    return Heatmap(
        "nats-by-pixel",
        "Where the nats go",
        "column",
        "row",
        nats,
        caption=f"Mean of -log p of each pixel given those before it; their sum is {nats.sum():.2f} nats.",
    )


def receptive_field(model: "VectorModel", x: Array) -> Picture:
    """Which pixels the distribution of the pixel in the middle depends on, and how much."""
    height, width, channels = model.schema.shape
    row, column = height // 2, width // 2
    slopes = np.asarray(influence(model, x, (row * width + column) * channels))
    strength = slopes.reshape(height, width, channels).sum(axis=-1)
    seen = strength > 0
    shades = np.zeros_like(strength)
    if seen.any():
        digits = np.log10(strength[seen] / strength.max())
        shades[seen] = 1 - 0.7 * digits / min(digits.min(), -1e-9)
    return Heatmap(
        "receptive-field",
        "Which pixels a pixel sees",
        "column",
        "row",
        shades,
        caption=f"Influence on the distribution of the pixel in row {row}, column {column}: the mean slope over "
        f"{len(x)} held-out images, on a logarithmic scale. Blank: none at all; it sees {int(seen.sum())} pixels.",
    )


@eqx.filter_jit
def influence(model: "VectorModel", x: Array, entry: int) -> Float[Array, " entries"]:
    """The mean size of the derivative of the distribution of one entry by every entry, under the first order."""
    order = model.orders[0]
    network = model.members[0].of_classes(jnp.zeros(len(x), jnp.int32))
    when = jnp.argmax(order == entry)

    def said(ordered: Array) -> Array:
        parameters = network(ordered)[:, when]
        # Weights without a pattern: changes of the parameters must not cancel.
        return (parameters * jnp.cos(1.0 + jnp.arange(parameters.shape[1]))[None]).sum()

    slopes = jnp.abs(jax.grad(said)(x.reshape(len(x), -1)[:, order])).mean(axis=0)
    return jnp.zeros_like(slopes).at[order].set(slopes, unique_indices=True)


def order_map(model: "VectorModel", order: np.ndarray) -> Picture:
    """When each pixel has its turn."""
    rank = np.empty(len(order))
    rank[order] = np.arange(len(order))
    return Heatmap(
        "order",
        "When each pixel has its turn",
        "column",
        "row",
        rank.reshape(model.schema.shape)[..., 0],
        caption="Dark pixels come late.",
    )


def entries(model: "VectorModel", nats: np.ndarray) -> Picture:
    """Mean surprisal of each entry of a table or point, in the order of the model."""
    order = np.asarray(model.orders[0])[:_BARS]
    columns = model.schema.columns or [f"entry {index}" for index in range(model.schema.dimensions)]
    return Bars(
        "nats-by-entry",
        "Where the nats go",
        "entry, in the order of the model",
        "nats",
        [columns[index] for index in order],
        {"held-out examples": nats.ravel()[order]},
        f"Mean of -log p of each entry given those before it; all {nats.size} add up to {nats.sum():.3f} nats.",
    )


__all__ = [
    "all_of",
    "completions",
    "entries",
    "expected",
    "influence",
    "order_map",
    "receptive_field",
    "surprisal",
]
