"""Equivariance and invariance of a map under permutations of a sequence."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array


def permutation_equivariance(
    f: Callable[[Array], Array], x: Array, *, repeats: int = 4, axis: int = 1, seed: int = 0
) -> np.ndarray:
    """`|f(Px) - P f(x)| / |f(x)|` for random permutations P of an axis; 0 for a map to which order means nothing.

    >>> permutation_equivariance(lambda x: x**2, jnp.arange(6.0).reshape(1, 6, 1), repeats=2)
    array([0., 0.])
    """
    still = f(x)
    if still.ndim <= axis or still.shape[axis] != x.shape[axis]:
        raise ArgumentError(
            f"permutation_equivariance: f turns shape {x.shape} into {still.shape}, which has no such order to permute",
            remedy="use permutation_invariance for what is one answer to the whole sequence",
        )
    return np.array(
        [_error(f(_taken(x, p, axis)), _taken(still, p, axis)) for p in _orders(x, repeats, axis, seed)]
    )


def permutation_invariance(
    f: Callable[[Array], Array], x: Array, *, repeats: int = 4, axis: int = 1, seed: int = 0
) -> np.ndarray:
    """`|f(Px) - f(x)| / |f(x)|` for random permutations P of an axis; 0 for a map that sees a set.

    >>> permutation_invariance(lambda x: x.sum(axis=1), jnp.arange(6.0).reshape(1, 6, 1), repeats=2)
    array([0., 0.])
    """
    still = f(x)
    return np.array([_error(f(_taken(x, p, axis)), still) for p in _orders(x, repeats, axis, seed)])


def _orders(x: Array, repeats: int, axis: int, seed: int) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    return [generator.permutation(x.shape[axis]) for _ in range(repeats)]


def _taken(x: Array, order: np.ndarray, axis: int) -> Array:
    return jnp.take(x, jnp.asarray(order), axis=axis)


def _error(a: Array, b: Array) -> float:
    return float(jnp.linalg.norm(a - b) / jnp.maximum(jnp.linalg.norm(b), 1e-30))


__all__ = ["permutation_equivariance", "permutation_invariance"]
