"""Zero or one, and the density on the interval between that has the same form."""

from typing import final

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.types import Array, ArrayLike, Float, Key
from chainrule.probability.distributions.outputs.base import UNIT, EntryRange, OutputDistribution, tempered

_RAREST = 1e-3
"""Probabilities to begin training with stay so far from 0 and 1."""


@final
class BernoulliOutput(OutputDistribution):
    """Zero or one; the parameter is the log-odds.

    >>> float(BernoulliOutput().mean(jnp.zeros((1,))))
    0.5
    """

    @property
    def parameter_count(self) -> int:
        """One: the log-odds."""
        return 1

    @property
    def support(self) -> EntryRange:
        """From 0 to 1: between the two, `log_prob` is minus the cross-entropy."""
        return UNIT

    @property
    def probable_levels(self) -> int:
        """Two."""
        return 2

    def log_prob(
        self, parameters: Float[Array, "*entries 1"], x: Float[Array, "*entries"]
    ) -> Float[Array, "*entries"]:
        """`x` times the log-odds, less the logarithm of the normalisation."""
        logit = parameters[..., 0]
        return x * logit - jax.nn.softplus(logit)

    def sample(
        self, parameters: Float[Array, "*entries 1"], key: Key, temperature: Float[ArrayLike, ""] = 1.0
    ) -> Float[Array, "*entries"]:
        """A coin."""
        return jax.random.bernoulli(key, self.mean(tempered(parameters, temperature))).astype(
            parameters.dtype
        )

    def mean(self, parameters: Float[Array, "*entries 1"]) -> Float[Array, "*entries"]:
        """The probability of a one."""
        return jax.nn.sigmoid(parameters[..., 0])

    def initial_parameters(self) -> np.ndarray:
        """Even odds."""
        return np.zeros(1)

    def parameters_around(self, mean: Float[np.ndarray, "*entries"]) -> Float[np.ndarray, "*entries 1"]:
        """The log-odds of each mean; an entry that is always the same may still become another.

        >>> BernoulliOutput().parameters_around(np.array([0.5, 0.0])).round(2).tolist()
        [[0.0], [-6.91]]
        """
        share = np.clip(mean, _RAREST, 1 - _RAREST)
        return np.log(share / (1 - share))[..., None]


@final
class ContinuousBernoulliOutput(OutputDistribution):
    """A density on [0, 1] that grows or falls exponentially, `exp(r x)` normalised; the parameter is `r`.

    Minus the cross-entropy of grey values, made a likelihood by its normalisation (Loaiza-Ganem and Cunningham, 2019).

    >>> float(ContinuousBernoulliOutput().mean(jnp.zeros((1,))))
    0.5
    """

    @property
    def parameter_count(self) -> int:
        """One: the rate of growth."""
        return 1

    @property
    def support(self) -> EntryRange:
        """From 0 to 1."""
        return UNIT

    def log_prob(
        self, parameters: Float[Array, "*entries 1"], x: Float[Array, "*entries"]
    ) -> Float[Array, "*entries"]:
        """`r (x - 1/2) - log(sinh(r/2) / (r/2))`."""
        rate = parameters[..., 0]
        half = jnp.abs(rate) / 2
        small = half < 0.1
        safe = jnp.where(small, 1.0, half)
        large = safe + jnp.log(-jnp.expm1(-2 * safe) / (2 * safe))
        square = jnp.square(half)
        series = square / 6 - square**2 / 180 + square**3 / 2835 - square**4 / 37800
        return rate * (x - 0.5) - jnp.where(small, series, large)

    def sample(
        self, parameters: Float[Array, "*entries 1"], key: Key, temperature: Float[ArrayLike, ""] = 1.0
    ) -> Float[Array, "*entries"]:
        """The quantile of a uniform number; of a falling density, and reflected where it grows."""
        rate = tempered(parameters, temperature)[..., 0]
        uniform = jax.random.uniform(key, rate.shape, rate.dtype)
        fall = -jnp.abs(rate)
        flat = fall > -1e-3
        safe = jnp.where(flat, -1.0, fall)
        steep = jnp.log1p(uniform * jnp.expm1(safe)) / safe
        falling = jnp.where(flat, uniform + fall * uniform * (1 - uniform) / 2, steep)
        return jnp.where(rate > 0, 1 - falling, falling)

    def mean(self, parameters: Float[Array, "*entries 1"]) -> Float[Array, "*entries"]:
        """`1 / (1 - exp(-r)) - 1 / r`."""
        rate = parameters[..., 0]
        small = jnp.abs(rate) < 0.2
        safe = jnp.where(small, 1.0, rate)
        series = 0.5 + rate / 12 - rate**3 / 720 + rate**5 / 30240 - rate**7 / 1209600
        return jnp.where(small, series, -1 / jnp.expm1(-safe) - 1 / safe)

    def initial_parameters(self) -> np.ndarray:
        """A uniform density."""
        return np.zeros(1)


__all__ = ["BernoulliOutput", "ContinuousBernoulliOutput"]
