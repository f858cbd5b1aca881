"""Images, maps and patches made ready for a sheet: all in [0, 1], of one size, grey or in colour alike."""

from collections.abc import Sequence

import numpy as np

from chainrule.core.types import Float


def as_tile(image: np.ndarray, *, signed: bool) -> np.ndarray:
    """An image in [0, 1]: from its least to its greatest value, or around grey for values of both signs."""
    if image.shape[-1] not in (1, 3):
        image = image.mean(axis=-1, keepdims=True)
    if signed:
        return image / (2 * max(float(np.abs(image).max()), 1e-12)) + 0.5
    return (image - image.min()) / max(float(np.ptp(image)), 1e-12)


def overlaid(image: np.ndarray, shares: Float[np.ndarray, "rows columns"]) -> np.ndarray:
    """An image in pale grey under a map of its patches in colour: blue from 0 to 1, orange from 0 to -1."""
    height, width = image.shape[:2]
    rows, columns = shares.shape
    by_row, by_column = np.arange(height) * rows // height, np.arange(width) * columns // width
    large = np.clip(shares, -1, 1)[by_row][:, by_column][..., None]
    pale = 0.55 + 0.45 * as_tile(image, signed=False).mean(axis=-1, keepdims=True)
    colour = np.where(large > 0, np.array([0.10, 0.42, 0.72]), np.array([0.77, 0.31, 0.04]))
    return pale * (1 - np.abs(large)) + colour * np.abs(large) * (0.6 + 0.4 * pale)


def enlarged(patch: np.ndarray, size: tuple[int, ...]) -> np.ndarray:
    """A patch as large as it fits into an image of this size, every pixel a block, white around it."""
    scale = min(n / m for n, m in zip(size, patch.shape[:2], strict=True))
    sides = [max(1, min(n, round(m * scale))) for n, m in zip(size, patch.shape[:2], strict=True)]
    rows, columns = (np.arange(n) * m // n for n, m in zip(sides, patch.shape[:2], strict=True))
    out = np.ones((*size, patch.shape[2]), patch.dtype)
    top, left = ((n - m) // 2 for n, m in zip(size, sides, strict=True))
    out[top : top + sides[0], left : left + sides[1]] = patch[rows][:, columns]
    return out


def alike_channels(tiles: Sequence[np.ndarray]) -> np.ndarray:
    """All tiles grey, or all in colours where one is."""
    most = max(tile.shape[-1] for tile in tiles)
    return np.stack([np.broadcast_to(tile, (*tile.shape[:2], most)) for tile in tiles])


__all__ = ["alike_channels", "as_tile", "enlarged", "overlaid"]
