"""Random keys by name and step: a number drawn anywhere depends on (seed, purpose, step) and nothing else."""

import math
import zlib
from collections.abc import Callable

import jax
import numpy as np

from chainrule.core.compiling import recording
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Key

_SEEDS = 2**32
_SIZES = (2**12, 2**16, 2**20)
"""Small draws are one of these, larger ones powers of two."""


def key(seed: int, purpose: str = "") -> Key:
    """The root key of a seed, or an independent one for a named purpose.

    >>> bool((jax.random.key_data(key(0, "init")) == jax.random.key_data(key(0, "noise"))).all())
    False

    JAX would silently use the last 32 bits of a longer seed, so that 2**32 and 0 meant the same.
    """
    if not 0 <= seed < _SEEDS:
        raise ArgumentError(f"seed={seed}: a seed is between 0 and {_SEEDS - 1}")
    root = jax.random.key(seed)
    return named(root, purpose) if purpose else root


def named(parent: Key, purpose: str) -> Key:
    """The child of a key that belongs to a purpose; the same words give the same child on every machine."""
    return jax.random.fold_in(parent, zlib.crc32(purpose.encode()))


def at(parent: Key, step: int | Array) -> Key:
    """The child of a key that belongs to a step."""
    return jax.random.fold_in(parent, step)


def normal(key: Key, shape: tuple[int, ...], scale: float = 1.0) -> Array:
    """Normal numbers with this standard deviation: the bits of `scale * jax.random.normal(key, shape)`.

    A network has arrays of many shapes, and JAX compiles a program for each. Here those of similar size share one: a
    number depends on the key and its position alone, so that longer draws begin like shorter ones.
    """
    return _drawn(key, lambda size: jax.random.normal(key, size), shape, scale)


def uniform(key: Key, shape: tuple[int, ...], minval: float = 0.0, maxval: float = 1.0) -> Array:
    """Numbers between two bounds: the bits of `jax.random.uniform(key, shape, minval=minval, maxval=maxval)`."""
    return _drawn(key, lambda size: jax.random.uniform(key, size, minval=minval, maxval=maxval), shape, 1.0)


def _drawn(key: Key, draw: Callable[[tuple[int, ...]], Array], shape: tuple[int, ...], scale: float) -> Array:
    size = math.prod(shape)
    # What is drawn does not depend on how many numbers are drawn together.
    independent = jax.config.jax_threefry_partitionable  # type: ignore[attr-defined]
    if isinstance(key, jax.core.Tracer) or recording() or not (size and independent):
        return draw(shape) if scale == 1.0 else scale * draw(shape)
    common = next((one for one in _SIZES if size <= one), 1 << (size - 1).bit_length())
    drawn = np.asarray(draw((common,)))[:size].reshape(shape)
    # Unlike jnp.asarray this compiles nothing.
    return jax.device_put(drawn if scale == 1.0 else drawn.dtype.type(scale) * drawn)


__all__ = ["at", "key", "named", "normal", "uniform"]
