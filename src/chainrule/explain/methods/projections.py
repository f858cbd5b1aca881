"""Projections of single activations back to pixels, and the patches that excite a channel most.

A unit's activity is sent backwards through the network, with one of three rules at every rectifier: `gradient` lets
through what the unit's input let through, `deconvolution` what is positive on the way back (Zeiler and Fergus, 2014,
arXiv:1311.2901), `guided` only what passes both (Springenberg et al., 2015, arXiv:1412.6806). Between rectifiers go the
transposed filters, and pooling is undone at the positions where the largest entries were. Without rectifiers on the way
all three are the gradient times the activity.
"""

from typing import NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Float, Int
from chainrule.explain.methods.feature_maps import Network, Rectifier, feature_maps, rectified_by
from chainrule.nn import summary
from chainrule.nn.summary.dependence import MovingInterval

RULES = ("gradient", "deconvolution", "guided")


def project(
    network: Network, layer: int, x: Array, cotangent: Array, *, rule: str = "deconvolution"
) -> Float[Array, "batch *shape"]:
    """A signal at one feature map sent back to the pixels of `x`."""
    check_choice("project", "rule", rule, RULES)
    _, back = jax.vjp(lambda x: rectified_by(network, _RECTIFIERS[rule])(x)[layer], x)
    return back(cotangent)[0]


def strongest(
    maps: Float[Array, "batch height width channels"], channel: int | Int[Array, ""]
) -> tuple[Array, Array]:
    """The largest activity of a channel in every example, and a signal that is this activity there, zero elsewhere."""
    one = maps[..., channel]
    flat = one.reshape(len(one), one.shape[1] * one.shape[2])
    index = flat.argmax(axis=1)
    peak = flat.max(axis=1)
    signal = jax.nn.one_hot(index, flat.shape[1], dtype=maps.dtype) * peak[:, None]
    return peak, jnp.zeros_like(maps).at[..., channel].set(signal.reshape(one.shape))


def receptive_fields(network: Network, shape: tuple[int, ...]) -> list[tuple[MovingInterval, MovingInterval]]:
    """For each feature map which rows and columns of an image its units see."""
    found = summary.receptive_fields(lambda x: feature_maps(network, x), (1, *shape), (1, 2))
    fields = []
    for spans in found:
        assert spans is not None, "feature maps come from the image"
        fields.append((spans[0], spans[1]))
    return fields


@final
class Excited(NamedTuple):
    """Where a channel is most active in one image, and how much."""

    image: int
    row: int
    column: int
    activity: float


def most_excited(
    maps: Float[np.ndarray, "batch height width channels"], channel: int, count: int
) -> list[Excited]:
    """The images that excite a channel most, the strongest first, each at its most active position.

    >>> most_excited(np.array([0.0, 2.0, 5.0, 1.0]).reshape(2, 1, 2, 1), 0, 1)
    [Excited(image=1, row=0, column=0, activity=5.0)]
    """
    whole("most_excited", "count", count, 0)
    channels = maps.shape[-1]
    if not 0 <= channel < channels:
        raise ArgumentError(
            f"most_excited(channel={channel}): there are {channels} channels",
            remedy=f"choose 0 to {channels - 1}",
        )
    one = np.asarray(maps)[..., channel]
    flat = one.reshape(len(one), -1)
    peaks = flat.max(axis=1)
    best = np.argsort(-peaks, kind="stable")[:count]
    rows, columns = np.unravel_index(flat[best].argmax(axis=1), one.shape[1:])
    return [
        Excited(int(i), int(row), int(column), float(peaks[i]))
        for i, row, column in zip(best, rows, columns, strict=True)
    ]


def seen_patch(
    image: np.ndarray, field: tuple[MovingInterval, MovingInterval], row: int, column: int, fill: float = 0.5
) -> np.ndarray:
    """The part of an image that one unit sees; beyond its edges, and where all is seen, `fill` and the whole image."""
    ends = []
    for span, size in zip(field, image.shape[:2], strict=True):
        first, last = (0, size - 1) if span.whole else span.at({1: row, 2: column})
        ends.append((0, size - 1) if last - first + 1 >= size else (first, last))
    (top, bottom), (left, right) = ends
    out = np.full((bottom - top + 1, right - left + 1, image.shape[2]), fill, image.dtype)
    rows, columns = (
        slice(max(a, 0), min(b + 1, size)) for (a, b), size in zip(ends, image.shape[:2], strict=True)
    )
    out[rows.start - top : rows.stop - top, columns.start - left : columns.stop - left] = image[rows, columns]
    return out


def _rectifier(rule: str) -> Rectifier:
    @jax.custom_vjp
    def rectify(x: Array) -> Array:
        return jnp.maximum(x, 0)

    def forward(x: Array) -> tuple[Array, Array]:
        return jnp.maximum(x, 0), x > 0

    def backward(positive: Array, signal: Array) -> tuple[Array]:
        passed = jnp.maximum(signal, 0) if rule != "gradient" else signal
        return (passed if rule == "deconvolution" else passed * positive,)

    rectify.defvjp(forward, backward)
    return rectify


_RECTIFIERS = {rule: _rectifier(rule) for rule in RULES}

__all__ = [
    "RULES",
    "Excited",
    "most_excited",
    "project",
    "receptive_fields",
    "seen_patch",
    "strongest",
]
