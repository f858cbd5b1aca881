"""Spherical interpolation between two vectors of noise (Shoemake, 1985)."""

import jax.numpy as jnp

from chainrule.core.types import Array, Float


def between(one: Float[Array, "..."], other: Float[Array, "..."], count: int) -> Float[Array, "count ..."]:
    """Codes on the great circle between two codes; on the straight line they would lose length, as no code does.

    >>> path = between(jnp.array([1.0, 0.0]), jnp.array([0.0, 1.0]), 3)
    >>> bool(jnp.allclose(path[1], 0.5**0.5))
    True
    """
    cosine = (one * other).sum() / jnp.sqrt(jnp.square(one).sum() * jnp.square(other).sum())
    angle = jnp.arccos(jnp.clip(cosine, -1, 1))
    share = jnp.linspace(0, 1, count, dtype=one.dtype).reshape(-1, *(1,) * one.ndim)
    sine = jnp.sin(angle)
    straight = jnp.abs(sine) < 1e-6
    safe = jnp.where(straight, 1.0, sine)
    left = jnp.where(straight, 1 - share, jnp.sin((1 - share) * angle) / safe)
    right = jnp.where(straight, share, jnp.sin(share * angle) / safe)
    return left * one[None] + right * other[None]


__all__ = ["between"]
