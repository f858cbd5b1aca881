"""Images brought to another size as a whole: scaled until they fit, the rest of the canvas filled with grey.

What is marked in an image, boxes or masks, goes the same way, and what a model finds goes the way back.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Shaped, UInt8

GREY = 114
"""What fills the canvas around an image: about the mean of photographs."""


class Placement(NamedTuple):
    """Where an image lies on a canvas: pixels of the image times `scale`, moved right by `left` and down by `top`."""

    scale: float = 1.0
    left: int = 0
    top: int = 0

    def placed(self, boxes: Float[np.ndarray, "*boxes 4"]) -> Float[np.ndarray, "*boxes 4"]:
        """Boxes of the image as boxes of the canvas.

        >>> Placement(0.5, 0, 8).placed(np.array([[4.0, 2.0, 8.0, 6.0]])).tolist()
        [[2.0, 9.0, 4.0, 11.0]]
        """
        return boxes * self.scale + np.array([self.left, self.top] * 2)

    def original(self, boxes: Float[np.ndarray, "*boxes 4"]) -> Float[np.ndarray, "*boxes 4"]:
        """Boxes of the canvas as boxes of the image."""
        return (boxes - np.array([self.left, self.top] * 2)) / self.scale


def placement(size: tuple[int, int], canvas: tuple[int, int]) -> Placement:
    """Where an image of this (height, width) lies, as large as possible, in the middle of a canvas.

    >>> placement((100, 200), (64, 64))
    Placement(scale=0.32, left=0, top=16)
    """
    scale = min(canvas[0] / size[0], canvas[1] / size[1])
    height, width = _scaled(size, scale, canvas)
    return Placement(scale, (canvas[1] - width) // 2, (canvas[0] - height) // 2)


def place_image(
    pixels: UInt8[np.ndarray, "height width channels"], canvas: tuple[int, int]
) -> tuple[UInt8[np.ndarray, "new_height new_width channels"], Placement]:
    """The whole image on a canvas of this (height, width), and where on it."""
    return _place(pixels, canvas, GREY, smooth=True)


def place_mask(
    mask: Shaped[np.ndarray, "height width"], canvas: tuple[int, int], outside: int
) -> Shaped[np.ndarray, "new_height new_width"]:
    """The whole mask on a canvas, each pixel one of its own values; around it stands `outside`."""
    return _place(mask[..., None], canvas, outside, smooth=False)[0][..., 0]


def _place(
    pixels: np.ndarray, canvas: tuple[int, int], outside: int, *, smooth: bool
) -> tuple[np.ndarray, Placement]:
    from PIL import Image  # here: only those who read images wait for it

    found = placement(pixels.shape[:2], canvas)
    if found == Placement() and pixels.shape[:2] == tuple(canvas):
        return pixels, found
    height, width = _scaled(pixels.shape[:2], found.scale, canvas)
    how = Image.Resampling.BICUBIC if smooth else Image.Resampling.NEAREST
    flat = Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
    small = np.asarray(flat.resize((width, height), how)).reshape(height, width, pixels.shape[2])
    whole = np.full((*canvas, pixels.shape[2]), outside, pixels.dtype)
    whole[found.top : found.top + height, found.left : found.left + width] = small
    return whole, found


def _scaled(size: tuple[int, ...], scale: float, canvas: tuple[int, int]) -> tuple[int, int]:
    height, width = (max(1, min(round(n * scale), most)) for n, most in zip(size, canvas, strict=True))
    return height, width


__all__ = ["GREY", "Placement", "place_image", "place_mask", "placement"]
