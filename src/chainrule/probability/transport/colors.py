"""Colours of one image carried over to another: the palette of the one is moved to that of the other at least cost.

Palettes are clusters of pixels with their shares. The exact plan between them says where each colour of the palette
goes; a pixel moves as the colours around its own do, so that shades stay shades.

Reference: Ferradans, Papadakis, Peyré and Aujol, Regularized discrete optimal transport, 2014.
"""

from typing import Any, NamedTuple

import numpy as np

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Float
from chainrule.probability.k_means import k_means
from chainrule.probability.transport.costs import cost_matrix
from chainrule.probability.transport.exact import exact

Image = Float[np.ndarray, "height width channels"]
_PIXELS = 4000
"""Pixels of each image that its palette is made from."""
_BLOCK = 65_536
"""Pixels that are moved at a time."""


class ColorTransfer(NamedTuple):
    """An image in the colours of another, and both palettes."""

    image: Image
    palette: Float[np.ndarray, "colors channels"]
    shares: Float[np.ndarray, " colors"]
    moved: Float[np.ndarray, "colors channels"]
    """Where each colour of the palette went."""
    cost: float
    """The mean squared distance that colours moved, of the palettes."""


def transfer_colors(image: Any, reference: Any, colors: int = 64, *, seed: int = 0) -> ColorTransfer:
    """`image` with the colours of `reference`; both [height, width, channels] with values from 0 to 1.

    `colors` is the size of the palettes, or fewer where an image has fewer colours.

    >>> grey = np.linspace(0.0, 1.0, 64).reshape(8, 8, 1)
    >>> found = transfer_colors(grey, grey / 2)
    >>> round(float(found.image.max()), 1), found.image.shape
    (0.5, (8, 8, 1))
    """
    first, second = (_checked(name, pixels) for name, pixels in (("image", image), ("reference", reference)))
    if first.shape[-1] != second.shape[-1]:
        raise ArgumentError(
            f"transfer_colors: image has {first.shape[-1]} channels, reference {second.shape[-1]}",
            remedy="convert one to the channels of the other",
        )
    random = np.random.default_rng(seed)
    most = whole("transfer_colors", "colors", colors)
    palette, shares, spread = _palette(first, most, random)
    other, others, _ = _palette(second, most, random)
    found = exact(shares, others, cost_matrix(palette, other))
    moved = np.asarray(found.plan, np.float64) @ other / shares[:, None]
    pixels = first.reshape(-1, first.shape[-1])
    blocks = [
        _shifted(pixels[at : at + _BLOCK], palette, moved - palette, spread)
        for at in range(0, len(pixels), _BLOCK)
    ]
    new = np.clip(np.concatenate(blocks), 0, 1).reshape(first.shape)
    return ColorTransfer(new, palette, shares, moved, float(found.cost))


def _checked(name: str, image: Any) -> Image:
    pixels = np.asarray(image, np.float64)
    if pixels.ndim != 3 or not pixels.size:
        raise ArgumentError(
            f"transfer_colors({name}): shape {pixels.shape}",
            remedy="give one image as [height, width, channels]",
        )
    if not ((pixels >= 0) & (pixels <= 1)).all():
        raise ArgumentError(
            f"transfer_colors({name}): values from {pixels.min():.4g} to {pixels.max():.4g}",
            remedy="give values from 0 to 1: bytes / 255",
        )
    return pixels


def _palette(image: Image, most: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray, float]:
    """Colours that stand for those of an image, their shares, and how far pixels are from theirs."""
    pixels = image.reshape(-1, image.shape[-1])
    if len(pixels) > _PIXELS:
        pixels = pixels[random.choice(len(pixels), _PIXELS, replace=False)]
    count = min(most, len(np.unique(pixels, axis=0)))
    found = k_means(pixels, count, random)
    used, nearest = np.unique(found.nearest, return_inverse=True)
    centres = found.centres[used]
    spread = np.sqrt(np.square(pixels - centres[nearest]).sum(axis=1).mean())
    return centres, np.bincount(nearest) / len(pixels), float(spread)


def _shifted(pixels: np.ndarray, palette: np.ndarray, shift: np.ndarray, spread: float) -> np.ndarray:
    """Pixels moved by the shifts of the palette around them, near colours counting most."""
    apart = np.square(pixels[:, None, :] - palette[None, :, :]).sum(axis=-1)
    apart = apart - apart.min(axis=1, keepdims=True)
    weights = np.exp(-apart / (2 * max(spread, 1e-3) ** 2))
    return np.asarray(pixels + weights @ shift / weights.sum(axis=1, keepdims=True))


__all__ = ["ColorTransfer", "transfer_colors"]
