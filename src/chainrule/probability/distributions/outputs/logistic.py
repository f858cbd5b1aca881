"""Levels whose probabilities are those of the bins around them under a logistic density, and mixtures of such.

Bins end halfway between two levels; the outer ones are open, so that the probabilities add up to one.
"""

import math
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.types import Array, ArrayLike, Float, Key
from chainrule.probability.distributions.outputs.base import (
    UNIT,
    EntryRange,
    Located,
    OutputDistribution,
    ProbableLevels,
    tempered,
)
from chainrule.probability.distributions.outputs.scales import EntryScale, Scale, unbounded

_START = 0.1
"""The scale to begin training with: a good part of the distance between black and white."""


def binned_log_prob(
    mean: Float[Array, "*entries"],
    scale: Float[Array, "*entries"],
    level: Float[Array, "*entries"],
    levels: int,
) -> Float[Array, "*entries"]:
    """Log-probability of the bin around each level under a logistic density.

    It is `s(b) - s(a)` with the sigmoid `s` at both ends. As `s(b) s(-a) (1 - exp(a - b))` it is exact in the tails.
    """
    width = 1 / ((levels - 1) * scale)
    end = ((level + 0.5) / (levels - 1) - mean) / scale
    below = jnp.where(level >= levels - 1, 0.0, jax.nn.log_sigmoid(end))
    above = jnp.where(level <= 0, 0.0, jax.nn.log_sigmoid(width - end))
    inner = jnp.where((level > 0) & (level < levels - 1), jnp.log(-jnp.expm1(-width)), 0.0)
    return below + above + inner


@final
class DiscretizedLogisticOutput(Located, ProbableLevels):
    """A level, as the bin of a logistic density; the parameters are its mean and whatever its scale takes.

    >>> from chainrule.probability.distributions.outputs import FixedScale
    >>> output = DiscretizedLogisticOutput(256, FixedScale(0.1))
    >>> round(float(jnp.exp(output.logits(jnp.array([0.3]))).sum()), 5)
    1.0
    """

    levels: int = eqx.field(static=True)
    scale: Scale

    @property
    def parameter_count(self) -> int:
        """The mean of the density, and those of the scale."""
        return 1 + self.scale.parameter_count

    def log_prob(
        self, parameters: Float[Array, "*entries parameters"], x: Float[Array, "*entries"]
    ) -> Float[Array, "*entries"]:
        """The probability of the nearest level over the distance between levels."""
        level = jnp.rint(x * (self.levels - 1))
        scale = self.scale.of(parameters[..., 1:])
        return binned_log_prob(parameters[..., 0], scale, level, self.levels) + math.log(self.levels - 1)

    def logits(self, parameters: Float[Array, "*entries parameters"]) -> Float[Array, "*entries levels"]:
        """The formula of `log_prob` for all levels."""
        shape = (*parameters.shape[:-1], self.levels)
        mean, scale = (
            jnp.broadcast_to(part[..., None], shape)
            for part in (parameters[..., 0], self.scale.of(parameters[..., 1:]))
        )
        level = jnp.broadcast_to(jnp.arange(self.levels, dtype=parameters.dtype), shape)
        return binned_log_prob(mean, scale, level, self.levels)

    def initial_parameters(self) -> np.ndarray:
        """In the middle of the levels."""
        scale = np.full(self.scale.parameter_count, float(unbounded(_START)))
        return np.concatenate([[0.5], scale])


@final
class LogisticMixtureOutput(OutputDistribution):
    """A level, as the bin of a mixture of logistic densities (Salimans et al., 2017).

    The parameters are logits of the components, their means, and (bounded) logarithms of their scales.
    """

    components: int = eqx.field(static=True)
    levels: int = eqx.field(static=True)

    @property
    def parameter_count(self) -> int:
        """Three for each component."""
        return 3 * self.components

    @property
    def support(self) -> EntryRange:
        """From the lowest level to the highest."""
        return UNIT

    @property
    def probable_levels(self) -> int:
        """As many as it was made for."""
        return self.levels

    def log_prob(
        self, parameters: Float[Array, "*entries parameters"], x: Float[Array, "*entries"]
    ) -> Float[Array, "*entries"]:
        """The probability of the nearest level over the distance between levels."""
        weights, parts = self.parts(parameters)
        each = self._component.log_prob(parts, jnp.broadcast_to(x[..., None], weights.shape))
        return jax.nn.logsumexp(weights + each, axis=-1)

    def sample(
        self,
        parameters: Float[Array, "*entries parameters"],
        key: Key,
        temperature: Float[ArrayLike, ""] = 1.0,
    ) -> Float[Array, "*entries"]:
        """A component, then a level from it.

        The power of a mixture is no mixture: the temperature acts on the weights and on each component by itself.
        """
        weights, parts = self.parts(parameters)
        which, noise = jax.random.split(key)
        chosen = jax.random.categorical(which, tempered(weights, temperature))
        part = jnp.take_along_axis(parts, chosen[..., None, None], axis=-2)[..., 0, :]
        return self._component.sample(part, noise, temperature)

    def mean(self, parameters: Float[Array, "*entries parameters"]) -> Float[Array, "*entries"]:
        """The mean over the components."""
        weights, parts = self.parts(parameters)
        # One component at a time: each lists the probabilities of all levels.
        means = [self._component.mean(parts[..., number, :]) for number in range(self.components)]
        return (jnp.exp(weights) * jnp.stack(means, axis=-1)).sum(axis=-1)

    def initial_parameters(self) -> np.ndarray:
        """Components side by side over the levels, so that they do not all learn the same."""
        means = (np.arange(self.components) + 0.5) / self.components
        scales = np.full(self.components, float(unbounded(_START)))
        return np.concatenate([np.zeros(self.components), means, scales])

    def parts(
        self, parameters: Float[Array, "*entries parameters"]
    ) -> tuple[Float[Array, "*entries components"], Float[Array, "*entries components 2"]]:
        """Logarithms of the weights, and the parameters of each component."""
        logits, means, scales = jnp.split(parameters, 3, axis=-1)
        return jax.nn.log_softmax(logits), jnp.stack([means, scales], axis=-1)

    @property
    def _component(self) -> DiscretizedLogisticOutput:
        return DiscretizedLogisticOutput(self.levels, EntryScale())


__all__ = ["DiscretizedLogisticOutput", "LogisticMixtureOutput", "binned_log_prob"]
