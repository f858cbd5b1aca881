"""Images as sequences of square patches, and back (as vision transformers read them; Dosovitskiy et al., 2021).

Patches are counted row by row; the entries of one are its pixels row by row, channels last.
"""

from collections.abc import Sequence

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float


def cut(
    x: Float[Array, "*leading height width channels"], patch: int
) -> Float[Array, "*leading patches entries"]:
    """The patches of images, each as one vector.

    >>> import jax.numpy as jnp
    >>> x = jnp.arange(2 * 4 * 6 * 3.0).reshape(2, 4, 6, 3)
    >>> cut(x, 2).shape
    (2, 6, 12)
    """
    *leading, height, width, channels = x.shape
    check_patch(x.shape[-3:], patch)
    parts = x.reshape(*leading, height // patch, patch, width // patch, patch, channels).swapaxes(-4, -3)
    return parts.reshape(*leading, patch_count(x.shape[-3:], patch), patch * patch * channels)


def join(
    patches: Float[Array, "*leading patches entries"], shape: Sequence[int], patch: int
) -> Float[Array, "*leading height width channels"]:
    """Images of this shape (height, width, channels) from their patches: the inverse of `cut`.

    >>> import jax.numpy as jnp
    >>> x = jnp.arange(2 * 4 * 6 * 3.0).reshape(2, 4, 6, 3)
    >>> bool((join(cut(x, 2), x.shape[1:], 2) == x).all())
    True
    """
    height, width, channels = shape
    leading = patches.shape[:-2]
    parts = patches.reshape(*leading, height // patch, width // patch, patch, patch, channels)
    return parts.swapaxes(-4, -3).reshape(*leading, height, width, channels)


def patch_count(shape: Sequence[int], patch: int) -> int:
    """How many patches of this side cover an image of shape (height, width, channels)."""
    return (shape[0] // patch) * (shape[1] // patch)


def patch_sides(shape: Sequence[int]) -> list[int]:
    """The sides that square patches of images of this shape can have, smallest first.

    >>> patch_sides((8, 12, 3))
    [1, 2, 4]
    """
    height, width = shape[:2]
    return [side for side in range(1, min(height, width) + 1) if height % side == width % side == 0]


def check_patch(shape: Sequence[int], patch: int) -> None:
    """Raise unless squares of this side cover images of shape (height, width, channels)."""
    if len(shape) != 3:
        raise ArgumentError(
            f"patch={patch}: patches are cut from images (height, width, channels), not shape {tuple(shape)}"
        )
    sides = patch_sides(shape)
    if patch not in sides:
        raise ArgumentError(
            f"patch={patch}: squares of this side do not cover images of {shape[0]}×{shape[1]}",
            remedy=f"sides that do: {', '.join(map(str, sides))}; or load images of another size with data.size=",
        )


__all__ = ["check_patch", "cut", "join", "patch_count", "patch_sides"]
