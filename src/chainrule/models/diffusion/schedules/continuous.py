"""Schedules in continuous time: closed forms for `lam(t)`."""

import math
from dataclasses import dataclass, field
from typing import Any, final

import jax.numpy as jnp

from chainrule.core.types import Array
from chainrule.models.diffusion.process import Process, Rectified, VarianceExploding, VariancePreserving
from chainrule.models.diffusion.schedules.schedule import Schedule


@final
@dataclass(frozen=True)
class VPLinear(Schedule):
    """The limit of the linear schedule: a(t) = exp(-t² (20 - 0.1)/4 - 0.1 t/2) (Song et al., 2021).

    >>> bool(jnp.isclose(VPLinear().level(1.0).a ** 2, 4.31857e-5, rtol=1e-4))
    True
    """

    low: float = 0.1
    high: float = 20.0
    process: Process = field(default_factory=VariancePreserving)
    first: float = 1e-3
    count: None = None

    def lam(self, t: Any) -> Array:
        t = jnp.asarray(t)
        twice = -t * t * (self.high - self.low) / 2 - self.low * t
        return twice - jnp.log(-jnp.expm1(twice))


@final
@dataclass(frozen=True)
class LogLinear(Schedule):
    """Noise on a geometric ladder, sigma(t) = low (high/low)^t; 0.02 to 10 suits points, 0.01 to 50 images."""

    low: float = 0.01
    high: float = 50.0
    process: Process = field(default_factory=VarianceExploding)
    first: float = 0.0
    count: None = None

    def lam(self, t: Any) -> Array:
        t = jnp.asarray(t)
        return -2 * (math.log(self.low) + t * math.log(self.high / self.low))


@final
@dataclass(frozen=True)
class Karras(Schedule):
    """sigma^(1/rho) linear in time: most steps where noise is small (Karras et al., 2022).

    >>> [round(float(Karras().level(t).s), 3) for t in (1.0, 8 / 9, 0.0)]
    [80.0, 42.415, 0.002]
    """

    low: float = 0.002
    high: float = 80.0
    rho: float = 7.0
    process: Process = field(default_factory=VarianceExploding)
    first: float = 0.0
    count: None = None

    def lam(self, t: Any) -> Array:
        t = jnp.asarray(t)
        bottom, top = (end ** (1 / self.rho) for end in (self.low, self.high))
        return -2 * self.rho * jnp.log(bottom + t * (top - bottom))


@final
@dataclass(frozen=True)
class LogSNRLinear(Schedule):
    """lam falls linearly from `high` to `low`."""

    high: float = 10.0
    low: float = -10.0
    process: Process = field(default_factory=VariancePreserving)
    first: float = 0.0
    count: None = None

    def lam(self, t: Any) -> Array:
        return self.high + jnp.asarray(t) * (self.low - self.high)


@final
@dataclass(frozen=True)
class RectifiedSchedule(Schedule):
    """The rectified path a = 1 - t, s = t (Liu et al., 2023), from a thousandth of noise to a thousandth of signal.

    Without any signal, sigma = s/a would be infinite, in which many samplers step. The process says how much noise
    stays beside the whole of the data.

    >>> [round(float(part), 4) for part in RectifiedSchedule(Rectified(0.5)).level(0.25)]
    [0.75, 0.625]
    """

    process: Rectified = field(default_factory=Rectified)
    first: float = 1e-3
    count: None = None

    def lam(self, t: Any) -> Array:
        t = jnp.clip(jnp.asarray(t), self.first, 1 - self.first)
        return 2 * (jnp.log1p(-t) - jnp.log(t + self.process.rest * (1 - t)))


__all__ = ["Karras", "LogLinear", "LogSNRLinear", "RectifiedSchedule", "VPLinear"]
