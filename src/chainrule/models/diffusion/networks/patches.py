"""Pictures as rows of square patches, and back."""

from chainrule.core.types import Array, Float


def cut(x: Float[Array, "batch height width channels"], patch: int) -> Float[Array, "batch time entries"]:
    """Pictures as rows of patches.

    >>> import jax.numpy as jnp
    >>> x = jnp.arange(2 * 4 * 6 * 3.0).reshape(2, 4, 6, 3)
    >>> bool((joined(cut(x, 2), x.shape, 2) == x).all())
    True
    """
    batch, height, width, channels = x.shape
    parts = x.reshape(batch, height // patch, patch, width // patch, patch, channels).swapaxes(2, 3)
    return parts.reshape(batch, -1, patch * patch * channels)


def joined(tokens: Float[Array, "batch time entries"], shape: tuple[int, ...], patch: int) -> Array:
    """The way back to pictures of this shape."""
    _, height, width, channels = shape
    rows, columns = height // patch, width // patch
    parts = tokens.reshape(len(tokens), rows, columns, patch, patch, channels).swapaxes(2, 3)
    return parts.reshape(len(tokens), height, width, channels)


__all__ = ["cut", "joined"]
