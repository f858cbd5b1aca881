"""SymbolDistributions of pixels one after another, each at the cost of one pixel of a pass, as samples are drawn."""

from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.types import Array, Int, Tree
from chainrule.information.compression.direct import SymbolDistributions
from chainrule.information.compression.levels import distribution_of, level_shares

if TYPE_CHECKING:
    from chainrule.models.autoregressive.pixels import PixelConditionals


def centred(x: Array) -> Array:
    """Pixels as networks see them."""
    return x - 0.5


def pixel_by_pixel(member: "PixelConditionals", rows: int, levels: int) -> SymbolDistributions:
    """One pixel at a time, at the cost of one pixel of a pass; what rows above tell is worked out once for each row."""
    height, width, channels = member.shape
    carried, above = _first_row(member, rows)
    for _ in range(height):
        along, pixels, kept = _before_first(member, rows), [], []
        for column in range(width):
            pixel = np.zeros((rows, channels), np.float32)
            for channel in range(channels):
                shares, features = _at(member, along, above, jnp.int32(column), jnp.array(pixel))
                symbols = yield distribution_of(np.asarray(shares)[:, channel], levels)
                pixel[:, channel] = np.float32(1 / (levels - 1)) * symbols
            along = _passed(member, along, jnp.array(pixel), features)
            pixels.append(pixel)
            kept.append(features)
        carried, above = _next_row(member, carried, jnp.asarray(np.stack(pixels, axis=1)), kept)


@eqx.filter_jit
def _first_row(member: "PixelConditionals", rows: int) -> tuple[Tree, Tree]:
    return member.first_row(rows, jnp.dtype(jnp.float32))


@eqx.filter_jit
def _before_first(member: "PixelConditionals", rows: int) -> Tree:
    return member.before_first(rows, jnp.dtype(jnp.float32))


@eqx.filter_jit
def _at(
    member: "PixelConditionals", along: Tree, above: Tree, column: Int[Array, ""], pixel: Array
) -> tuple[Array, Tree]:
    here = jax.tree.map(lambda array: jax.lax.dynamic_index_in_dim(array, column, 1, keepdims=False), above)
    parameters, features = member.at(along, here, centred(pixel))
    return level_shares(member.output, parameters), features


@eqx.filter_jit
def _passed(member: "PixelConditionals", along: Tree, pixel: Array, features: Tree) -> Tree:
    return member.passed(along, centred(pixel), features)


@eqx.filter_jit
def _next_row(
    member: "PixelConditionals", carried: Tree, pixels: Array, kept: list[Tree]
) -> tuple[Tree, Tree]:
    features = jax.tree.map(lambda *columns: jnp.stack(columns, axis=1), *kept)
    return member.next_row(carried, centred(pixels), features)


__all__ = ["centred", "pixel_by_pixel"]
