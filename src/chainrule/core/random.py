"""Random keys by name and step: a number drawn anywhere depends on (seed, purpose, step) and nothing else."""

import zlib

import jax

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Key

_SEEDS = 2**32


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


__all__ = ["at", "key", "named"]
