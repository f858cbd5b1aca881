"""Occlusion: what a class loses when a patch of the image is covered (Zeiler and Fergus, 2014, arXiv:1311.2901)."""

import math
from collections.abc import Callable
from typing import TypeAlias

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Int
from chainrule.explain.methods.gradients.base import of_classes

Scores: TypeAlias = Callable[[Array], Array]
"""From images to one number for each class."""


def patches(height: int, width: int, patch: int, stride: int) -> Bool[np.ndarray, "patches height width"]:
    """Every position of a square patch, `stride` apart, with the last ones at the far edges so that all is covered.

    >>> patches(2, 5, 2, 2)[:, 0].astype(int).tolist()
    [[1, 1, 0, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 1, 1]]
    """
    if not 1 <= patch <= min(height, width):
        raise ArgumentError(
            f"patch={patch}: images have {height} x {width} pixels",
            remedy=f"choose a side from 1 to {min(height, width)}",
        )
    if not 1 <= stride <= patch:
        raise ArgumentError(
            f"stride={stride}: patches of {patch} pixels would leave gaps", remedy=f"choose 1 to {patch}"
        )
    rows, columns = (sorted({*range(0, n - patch, stride), n - patch}) for n in (height, width))
    found = np.zeros((len(rows) * len(columns), height, width), np.bool_)
    for i, (row, column) in enumerate((r, c) for r in rows for c in columns):
        found[i, row : row + patch, column : column + patch] = True
    return found


def occlusion(
    scores: Scores,
    x: Float[Array, "batch height width channels"],
    classes: Int[Array, " batch"],
    fill: Float[Array, " channels"],
    covers: Bool[Array, "patches height width"],
) -> tuple[Float[Array, "batch height width"], Float[Array, "patches batch"]]:
    """What a class loses when a pixel is covered with `fill`: the mean over all covers that lie on it.

    Also gives what each cover takes away by itself. All covered images are scored in one batch.
    """
    hidden = jnp.where(covers[:, None, :, :, None], fill[None, None, None, None, :], x[None])
    flat = hidden.reshape(math.prod(hidden.shape[:2]), *x.shape[1:])
    left = of_classes("occlusion", scores(flat), jnp.tile(classes, len(covers))).reshape(len(covers), len(x))
    lost = of_classes("occlusion", scores(x), classes)[None] - left
    weights = covers.astype(x.dtype) / covers.sum(axis=0)[None]
    return jnp.einsum("pb,phw->bhw", lost, weights), lost


__all__ = ["Scores", "occlusion", "patches"]
