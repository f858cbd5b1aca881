"""Initial weights: variance by the number of inputs and outputs, times a gain on the standard deviation.

The gain of a scheme is one unless given, and √2 for He's, whose point it is. Weights have shape (..., inputs, outputs);
leading axes are a convolution's kernel and count towards both fans.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp

from chainrule.core import random
from chainrule.core.registry import Registry
from chainrule.core.types import Array, Key

Initializer = Callable[[Key, tuple[int, ...], float], Array]
"""(key, shape, gain) -> weights."""

GAINS = {"he": math.sqrt(2)}
"""The gain of a scheme where none is given and it is not one."""

initializers: Registry[Initializer] = Registry("initializer")


def fans(shape: tuple[int, ...]) -> tuple[int, int]:
    """Numbers of inputs and outputs that one entry of the result and one of the argument see.

    >>> fans((3, 3, 16, 32))
    (144, 288)
    """
    kernel = math.prod(shape[:-2])
    return kernel * shape[-2], kernel * shape[-1]


def draw(initializer: str, key: Key, shape: tuple[int, ...], gain: float | None = None) -> Array:
    """Weights by the scheme of this name, with its own gain unless another is given.

    >>> weights = draw("he", jax.random.key(0), (1000, 10))
    >>> round(float(1000 * weights.var()), 1)
    2.0
    """
    return initializers[initializer](key, shape, GAINS.get(initializer, 1.0) if gain is None else gain)


@initializers.register("fan-in")
def fan_in(key: Key, shape: tuple[int, ...], gain: float) -> Array:
    """Normal with variance gain²/fan_in: a layer keeps the variance of its inputs."""
    return random.normal(key, shape, gain / math.sqrt(fans(shape)[0]))


@initializers.register("he")
def he(key: Key, shape: tuple[int, ...], gain: float) -> Array:
    """Normal with variance 2/fan_in, for ReLU; gain²/fan_in where a gain is given (He et al., 2015)."""
    return fan_in(key, shape, gain)


@initializers.register("xavier")
def xavier(key: Key, shape: tuple[int, ...], gain: float) -> Array:
    """Uniform with variance gain²·2/(fan_in + fan_out) (Glorot and Bengio, 2010)."""
    limit = gain * math.sqrt(6 / sum(fans(shape)))
    return random.uniform(key, shape, -limit, limit)


@initializers.register("lecun")
def lecun(key: Key, shape: tuple[int, ...], gain: float) -> Array:
    """Normal with variance 1/fan_in, whatever the gain (LeCun et al., 1998)."""
    del gain
    return random.normal(key, shape) / math.sqrt(fans(shape)[0])


@initializers.register("orthogonal")
def orthogonal(key: Key, shape: tuple[int, ...], gain: float) -> Array:
    """A random orthogonal matrix times the gain (Saxe et al., 2014)."""
    return gain * jax.nn.initializers.orthogonal()(key, shape)


@initializers.register("normal")
def normal(key: Key, shape: tuple[int, ...], gain: float) -> Array:
    """Normal with the gain as its standard deviation, whatever the shape; GPT has 0.02 (Radford et al., 2018)."""
    return random.normal(key, shape, gain)


@initializers.register("zero")
def zero(key: Key, shape: tuple[int, ...], gain: float) -> Array:
    """All zeros."""
    del key, gain
    return jnp.zeros(shape)


@initializers.register("torch")
def torch(key: Key, shape: tuple[int, ...], gain: float) -> Array:
    """Uniform within ±1/√fan_in, PyTorch's default for linear layers, whatever the gain."""
    del gain
    limit = 1 / math.sqrt(fans(shape)[0])
    return random.uniform(key, shape, -limit, limit)


__all__ = [
    "GAINS",
    "Initializer",
    "draw",
    "fan_in",
    "fans",
    "he",
    "initializers",
    "lecun",
    "normal",
    "orthogonal",
    "torch",
    "xavier",
    "zero",
]
