"""Counts: levels whose probabilities have no upper end."""

import math
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.types import Array, ArrayLike, Float, Key
from chainrule.probability.distributions.outputs.base import EntryRange, OutputDistribution, tempered

_EXTREME = 12.0
"""Logarithms of rates stay within this, smoothly."""


@final
class PoissonOutput(OutputDistribution):
    """A count with a Poisson distribution; the parameter is the (bounded) logarithm of its mean.

    Levels are the counts from 0 to `levels - 1`, scaled to lie between 0 and 1 as other data are. Higher counts have a
    probability too, though none is drawn.

    >>> round(float(PoissonOutput(levels=11).mean(jnp.array([0.0]))), 6)  # a count of one among 0 to 10
    0.1
    """

    levels: int = eqx.field(static=True)

    @property
    def parameter_count(self) -> int:
        """One: the logarithm of the mean."""
        return 1

    @property
    def support(self) -> EntryRange:
        """From 0 on."""
        return EntryRange(0.0, np.inf)

    @property
    def probable_levels(self) -> int:
        """As many as it was made for."""
        return self.levels

    def log_prob(
        self, parameters: Float[Array, "*entries 1"], x: Float[Array, "*entries"]
    ) -> Float[Array, "*entries"]:
        """`k log m - m - log k!` of the nearest count `k`, over the distance between levels."""
        count = jnp.rint(x * (self.levels - 1))
        return self._log_probability(parameters[..., 0], count) + math.log(self.levels - 1)

    def sample(
        self, parameters: Float[Array, "*entries 1"], key: Key, temperature: Float[ArrayLike, ""] = 1.0
    ) -> Float[Array, "*entries"]:
        """One of the levels."""
        counts = jnp.broadcast_to(
            jnp.arange(self.levels, dtype=parameters.dtype), (*parameters.shape[:-1], self.levels)
        )
        logits = tempered(self._log_probability(parameters, counts), temperature)
        return jax.random.categorical(key, logits).astype(parameters.dtype) / (self.levels - 1)

    def mean(self, parameters: Float[Array, "*entries 1"]) -> Float[Array, "*entries"]:
        """The mean count, scaled."""
        return jnp.exp(_bounded(parameters[..., 0])) / (self.levels - 1)

    def initial_parameters(self) -> np.ndarray:
        """A mean of one."""
        return np.zeros(1)

    def _log_probability(self, parameter: Array, count: Array) -> Array:
        log_mean = jnp.broadcast_to(_bounded(parameter), count.shape)
        return count * log_mean - jnp.exp(log_mean) - jax.lax.lgamma(count + 1)


def _bounded(parameter: Array) -> Array:
    return _EXTREME * jnp.tanh(parameter / _EXTREME)


__all__ = ["PoissonOutput"]
