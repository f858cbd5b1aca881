"""Absent pieces of an image are blurred, or take its mean colour.

Players are superpixels or patches. A reference made from the image itself has no edges of its own, so that taking a
piece away does not put a black hole in its place, which a network may never have seen.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Int
from scipy.ndimage import gaussian_filter

from chainrule.core.errors import ArgumentError
from chainrule.explain.methods.shapley.maskers.replacing import Replacing


def blurred(images: Any, pieces: Int[np.ndarray, "..."], *, sigma: float | None = None) -> Replacing:
    """Absent pieces are blurred with a Gaussian of this width, an eighth of the shorter side unless given.

    `images` are (batch, height, width, channels), `pieces` number the piece of each pixel for all images or for each.
    """
    given = np.asarray(images)
    width = min(given.shape[1:3]) / 8 if sigma is None else sigma
    if not width > 0:
        raise ArgumentError(f"blurred(sigma={sigma}): the width must be above 0", remedy="leave it out")
    soft = gaussian_filter(given.astype(np.float64), (0, width, width, 0), mode="nearest")
    return _pieces(given, soft, pieces, f"baseline, blurred by {width:.3g} pixel{'s' * (width != 1)}")


def mean_coloured(images: Any, pieces: Int[np.ndarray, "..."]) -> Replacing:
    """Absent pieces take the mean colour of their image."""
    given = np.asarray(images)
    flat = np.broadcast_to(given.astype(np.float64).mean(axis=(1, 2), keepdims=True), given.shape)
    return _pieces(given, flat, pieces, "baseline, mean colour")


def patch_pieces(height: int, width: int, side: int) -> Int[np.ndarray, "height width"]:
    """Squares of so many pixels a side, numbered row by row.

    >>> patch_pieces(2, 4, 2).tolist()
    [[0, 0, 1, 1], [0, 0, 1, 1]]
    """
    rows, columns = np.arange(height) // side, np.arange(width) // side
    return rows[:, None] * (columns[-1] + 1) + columns[None]


def _pieces(images: np.ndarray, others: np.ndarray, pieces: np.ndarray, kind: str) -> Replacing:
    if images.ndim != 4:
        raise ArgumentError(
            f"images of shape {images.shape}: expected (batch, height, width, channels)",
            remedy="add the axes that are missing, for example image[None]",
        )
    wanted = images.shape[:3]
    labels = np.broadcast_to(pieces, wanted) if pieces.ndim == 2 else pieces
    if labels.shape != wanted:
        raise ArgumentError(
            f"pieces have shape {pieces.shape}, images {images.shape}",
            remedy="give (height, width), or (batch, height, width)",
        )
    owners = np.broadcast_to(labels[..., None], images.shape)
    return Replacing(
        replacements=jnp.asarray(others.astype(images.dtype)[:, None]),
        weights=jnp.ones(1),
        owners=jnp.asarray(owners),
        names=tuple(f"piece {i + 1}" for i in range(int(labels.max()) + 1)),
        kind=kind,
        fingerprint="",
        for_each=True,
    )


__all__ = ["blurred", "mean_coloured", "patch_pieces"]
