"""Sequences that converge in one mode and not in another: why no implication between the modes can be turned round."""

from collections.abc import Mapping
from types import MappingProxyType

import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Key
from chainrule.probability.convergence.modes import RandomSequence


def block_of(n: Array) -> Array:
    """The block k = 2, 3, ... of k indicators in which the n-th one lies: it begins with n = k (k - 1) / 2.

    >>> block_of(jnp.array([1, 2, 3, 6, 9, 10])).tolist()
    [2, 2, 3, 4, 4, 5]
    """
    return jnp.floor((1 + jnp.sqrt(1.0 + 8.0 * n)) / 2).astype(int)


def _sliding(omega: Array, n: Array) -> Array:
    k = block_of(n)
    # The whole number of the interval in which omega lies, of k: compared as such, no point is left out or met twice.
    return (jnp.floor(omega * k) == n - k * (k - 1) // 2).astype(float)


def _tall(omega: Array, n: Array) -> Array:
    return jnp.where(omega * n <= 1, n, 0).astype(float)


def _mirrored(omega: Array, n: Array) -> Array:
    return jnp.full(n.shape, -omega)


def _mean_of_signs(omega: Array, n: Array) -> Array:
    signs = jax.random.rademacher(jax.random.wrap_key_data(omega), n.shape, float)
    return jnp.cumsum(signs) / n


def _outcomes(key: Key, paths: int) -> Array:
    """Outcomes that are each a whole stream of random numbers, by its seed."""
    return jax.random.key_data(jax.random.split(key, paths))


def _uniform(key: Key, paths: int) -> Array:
    return jax.random.uniform(key, (paths,))


def _normal(key: Key, paths: int) -> Array:
    return jax.random.normal(key, (paths,))


def _zero(omega: Array) -> Array:
    del omega
    return jnp.zeros(())


def _itself(omega: Array) -> Array:
    return omega


EXAMPLES: Mapping[str, RandomSequence] = MappingProxyType(
    {
        "sliding-indicators": RandomSequence(
            _uniform,
            _sliding,
            _zero,
            "block k = 2, 3, ... holds k indicators of width 1/k: in probability and in L^p, never almost surely",
        ),
        "tall-indicators": RandomSequence(
            _uniform, _tall, _zero, "n on [0, 1/n], else 0: almost surely, not in L^1"
        ),
        "mirrored": RandomSequence(
            _normal, _mirrored, _itself, "-X with X standard normal: in distribution only"
        ),
        "mean-of-signs": RandomSequence(
            _outcomes, _mean_of_signs, _zero, "the mean of n fair signs: in every mode"
        ),
    }
)
"""By name."""

__all__ = ["EXAMPLES", "block_of"]
