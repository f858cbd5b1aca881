"""Bodies whose codes are maps: some numbers for every cell of an image's coarsest resolution.

A code is one vector here too, the cells of its map one after another, so that all that is said of codes is said of
these. What looks at neighbouring cells together, as diffusion of codes does, asks for the shape of the map.
"""

import math
from collections.abc import Sequence
from typing import final

import equinox as eqx

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.networks.conv_autoencoder import GridDecoder, GridEncoder, resolutions
from chainrule.nn import Conv


@final
class MapEncoder(eqx.Module):
    """From images to codes that are maps of `latent` entries, or to the parameters of as many distributions.

    All first parameters come before all second ones, as families of posteriors read them.

    >>> import jax, jax.numpy as jnp
    >>> encoder = eqx.filter_eval_shape(MapEncoder, (8, 8, 1), 64, latent=32, channels=(8, 16), key=jax.random.key(0))
    >>> encoder.code_map, eqx.filter_eval_shape(encoder, jnp.zeros((2, 8, 8, 1))).shape
    ((4, 4, 2), (2, 64))
    """

    network: GridEncoder
    code_map: tuple[int, int, int] = eqx.field(static=True)
    numbers: int = eqx.field(static=True)
    """Parameters of every entry."""

    def __init__(
        self, shape: Sequence[int], outputs: int, *, latent: int, channels: Sequence[int], key: Key
    ) -> None:
        self.code_map = code_map(shape, latent, channels)
        if outputs not in (latent, 2 * latent):
            raise ArgumentError(
                "body=grid: every entry of a map has a centre and a spread of its own, and nothing else",
                remedy="use posterior=diagonal, or body=conv",
            )
        self.numbers = outputs // latent
        cell = self.numbers * self.code_map[-1]
        self.network = GridEncoder(shape, cell, channels=channels, key=key)

    def __call__(
        self, x: Float[Array, "batch height width channels"], beside: Float[Array, "batch _"] | None = None
    ) -> Float[Array, "batch outputs"]:
        """The parameters of each code."""
        assert beside is None, "nothing stands beside a map"
        rows, columns, channels = self.code_map
        found = self.network(x).reshape(len(x), rows * columns, self.numbers, channels)
        return found.swapaxes(1, 2).reshape(len(x), -1)


@final
class MapDecoder(eqx.Module):
    """From codes that are maps to so many numbers for every entry of an image.

    >>> import jax, jax.numpy as jnp
    >>> decoder = eqx.filter_eval_shape(MapDecoder, 32, (8, 8, 1), 2, channels=(8, 16), key=jax.random.key(0))
    >>> eqx.filter_eval_shape(decoder, jnp.zeros((2, 32))).shape
    (2, 8, 8, 1, 2)
    """

    network: GridDecoder
    code_map: tuple[int, int, int] = eqx.field(static=True)

    def __init__(
        self, latent: int, shape: Sequence[int], numbers: int, *, channels: Sequence[int], key: Key
    ) -> None:
        self.code_map = code_map(shape, latent, channels)
        self.network = GridDecoder(self.code_map[-1], shape, numbers, channels=channels, key=key)

    @property
    def exit(self) -> Conv:
        """The last layer."""
        return self.network.exit

    def __call__(self, z: Float[Array, "batch latent"]) -> Float[Array, "batch height width channels _"]:
        """The numbers of every entry."""
        return self.network(z.reshape(len(z), *self.code_map))


def code_map(shape: Sequence[int], latent: int, channels: Sequence[int]) -> tuple[int, int, int]:
    """Rows, columns and channels of a code of so many entries; raises where they do not fill the cells evenly.

    >>> code_map((8, 8, 1), 32, (32, 64))
    (4, 4, 2)
    >>> code_map((8, 8, 1), 20, (32, 64))
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: latent=20: with body=grid and channels=32,64 a code has 4 x 4 cells of ...
           use latent=32, or as many channels as there should be resolutions: every one halves the sides of the map
    """
    rows, columns = resolutions(shape, len(channels))[-1]
    cells = rows * columns
    if latent % cells:
        raise ArgumentError(
            f"latent={latent}: with body=grid and channels={','.join(map(str, channels))} a code has {rows} x "
            f"{columns} cells of equally many entries",
            remedy=f"use latent={cells * math.ceil(latent / cells)}, or as many channels as there should be "
            "resolutions: every one halves the sides of the map",
        )
    return rows, columns, latent // cells


__all__ = ["MapDecoder", "MapEncoder", "code_map"]
