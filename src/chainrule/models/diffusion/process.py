"""Forward processes: `x = a x0 + s eps`, with eps standard normal.

A noise level is the pair (a, s). Everything that matters about it is `lam = log(a²/s²)`, the logarithm of the
signal-to-noise ratio; a process says which pair stands for a given `lam`, that is, only how `x` is scaled. One process
is therefore exchanged for another by multiplying `x`, without touching a network (`bridge`).
"""

import abc
import math
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float


class Level(NamedTuple):
    """A noise level, or one for each example of a batch: `x = a x0 + s eps`.

    >>> round(float(Level(0.6, 0.8).sigma), 4), round(float(Level(0.6, 0.8).lam), 4)
    (1.3333, -0.5754)
    """

    a: Any
    s: Any

    @property
    def lam(self) -> Array:
        """Logarithm of the signal-to-noise ratio."""
        return 2 * (jnp.log(self.a) - jnp.log(self.s))

    @property
    def snr(self) -> Array:
        """Signal-to-noise ratio a²/s²."""
        return jnp.square(jnp.asarray(self.a) / self.s)

    @property
    def sigma(self) -> Array:
        """Noise beside unit signal, s/a."""
        return jnp.asarray(self.s) / self.a

    def at(self, index: Any) -> "Level":
        """One of several levels, or a slice of them."""
        return Level(self.a[index], self.s[index])


class Process(abc.ABC):
    """A rule for the pair (a, s) of a signal-to-noise ratio."""

    @abc.abstractmethod
    def level(self, lam: Any) -> Level:
        """The noise level of a log signal-to-noise ratio."""

    @abc.abstractmethod
    def prior_std(self, level: Level) -> Any:
        """Standard deviation of the normal distribution from which samplers start at this level."""


@final
@dataclass(frozen=True)
class VariancePreserving(Process):
    """a² + s² = 1: data of unit variance keep it; the noisiest level is standard normal."""

    def level(self, lam: Any) -> Level:
        return Level(jnp.sqrt(jax.nn.sigmoid(lam)), jnp.sqrt(jax.nn.sigmoid(-jnp.asarray(lam))))

    def prior_std(self, level: Level) -> Any:
        return jnp.ones_like(level.s)


@final
@dataclass(frozen=True)
class VarianceExploding(Process):
    """a = 1: noise is added to data that stay as they are; the noisiest level is N(0, sigma²)."""

    def level(self, lam: Any) -> Level:
        return Level(jnp.ones_like(lam), jnp.exp(-jnp.asarray(lam) / 2))

    def prior_std(self, level: Level) -> Any:
        return level.s


@final
@dataclass(frozen=True)
class Rectified(Process):
    """Straight lines from data to noise: a + s = 1 (Liu et al., 2023).

    With `rest`, so much noise stays beside the whole of the data: s = 1 - (1 - rest) a (Lipman et al., 2023).

    >>> [round(float(part), 4) for part in Rectified(0.1).level(0.0)]  # a = s
    [0.5263, 0.5263]
    """

    rest: float = 0.0

    def level(self, lam: Any) -> Level:
        half = jnp.asarray(lam) / 2 + math.log1p(-self.rest)
        return Level(jax.nn.sigmoid(half) / (1 - self.rest), jax.nn.sigmoid(-half))

    def prior_std(self, level: Level) -> Any:
        return level.s


CLEAN = Level(1.0, 0.0)
"""No noise."""


def per_example(value: Any, x: Array) -> Array:
    """A number, or one number for each example, in the shape that multiplies a batch."""
    value = jnp.asarray(value)
    return value if value.ndim == 0 else value.reshape(value.shape[0], *(1,) * (x.ndim - 1))


def noised(
    x0: Float[Array, "batch ..."], eps: Float[Array, "batch ..."], level: Level
) -> Float[Array, "batch ..."]:
    """Data with this much noise.

    >>> noised(jnp.ones((1, 2)), jnp.zeros((1, 2)), Level(0.5, 0.1)).tolist()
    [[0.5, 0.5]]
    """
    return per_example(level.a, x0) * x0 + per_example(level.s, x0) * eps


def bridge(
    x: Float[Array, "batch ..."], level: Level, process: Process
) -> tuple[Float[Array, "batch ..."], Level]:
    """The same noisy data as another process has them, at the same signal-to-noise ratio; eps and x0 do not change."""
    moved = process.level(level.lam)
    return x * per_example(moved.a / level.a, x), moved


def gap(here: Level, there: Level) -> Array:
    """Variance that one step adds: `x_here | x_there ~ N(k x_there, gap)` with `k = a_here / a_there`.

    The textbook form s² - k² s'² cancels for close levels; this one does not.
    """
    less = jnp.where(there.s == 0, jnp.inf, there.lam)
    return -jnp.square(here.s) * jnp.expm1(here.lam - less)


__all__ = [
    "CLEAN",
    "Level",
    "Process",
    "Rectified",
    "VarianceExploding",
    "VariancePreserving",
    "bridge",
    "gap",
    "noised",
    "per_example",
]
