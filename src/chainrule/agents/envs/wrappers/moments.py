"""Running moments of one stream (Welford, 1962), and those of several streams together (Chan et al., 1979)."""

from typing import NamedTuple

import jax.numpy as jnp

from chainrule.core.types import Array, Float

_SMALL = 1e-8


class SeenMoments(NamedTuple):
    """How many there were, their mean and their variance."""

    number: Float[Array, "..."]
    mean: Float[Array, "..."]
    variance: Float[Array, "..."]


def no_moments(shape: tuple[int, ...]) -> SeenMoments:
    """The moments of nothing."""
    return SeenMoments(jnp.zeros(()), jnp.zeros(shape), jnp.zeros(shape))


def updated(moments: SeenMoments, x: Array) -> SeenMoments:
    """The moments with one more."""
    number = moments.number + 1
    before = x - moments.mean
    mean = moments.mean + before / number
    return SeenMoments(number, mean, moments.variance + (before * (x - mean) - moments.variance) / number)


def deviation(moments: SeenMoments) -> Array:
    """The standard deviation, never 0; one number has none, and is taken as it is."""
    return jnp.sqrt(jnp.where(moments.number < 2, 1.0, moments.variance) + _SMALL)


def merged(moments: SeenMoments) -> SeenMoments:
    """The moments of all streams together, whose numbers have leading axes of their own.

    >>> each = SeenMoments(jnp.array([1.0, 3.0]), jnp.array([4.0, 0.0]), jnp.array([0.0, 2.0]))
    >>> [float(part) for part in merged(each)]
    [4.0, 1.0, 4.5]
    """
    if moments.number.ndim == 0:
        return moments
    axes = tuple(range(moments.number.ndim))
    weight = moments.number.reshape(moments.number.shape + (1,) * (moments.mean.ndim - len(axes)))
    weight = weight / jnp.maximum(moments.number.sum(), 1.0)
    mean = (weight * moments.mean).sum(axes, keepdims=True)
    variance = (weight * (moments.variance + (moments.mean - mean) ** 2)).sum(axes)
    return SeenMoments(moments.number.sum(), mean.sum(axes), variance)


__all__ = ["SeenMoments", "deviation", "merged", "no_moments", "updated"]
