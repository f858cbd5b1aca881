"""Distributions of single numbers whose parameters are the outputs of a network.

A network gives a few numbers for each entry; an output distribution turns them into a log-density, a draw and a mean.
Entries come scaled as the data are, so levels lie evenly between 0 and 1. A probability of levels is stated as a
density, divided by the distance between two of them: one formula then gives bits per dimension for every model, and for
zeros and ones density and probability are the same.
"""

import abc
import math
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.types import Array, ArrayLike, Float, Key

_WIDEST = 7.0
"""Logarithms of standard deviations stay within this, smoothly."""
_COLDEST = 1e-9
"""A temperature at which the smallest difference of logits in single precision decides."""


class OutputDistribution(eqx.Module):
    """A family of distributions of one number; its parameters are arguments, the last axis of an array."""

    @property
    @abc.abstractmethod
    def parameter_count(self) -> int:
        """How many parameters an entry has."""

    @abc.abstractmethod
    def log_prob(
        self, parameters: Float[Array, "*entries parameters"], x: Float[Array, "*entries"]
    ) -> Float[Array, "*entries"]:
        """Log-density of each entry."""

    @abc.abstractmethod
    def sample(
        self,
        parameters: Float[Array, "*entries parameters"],
        key: Key,
        temperature: Float[ArrayLike, ""] = 1.0,
    ) -> Float[Array, "*entries"]:
        """One value for each entry, from the distribution to the power `1 / temperature`; at 0 the likeliest."""

    @abc.abstractmethod
    def mean(self, parameters: Float[Array, "*entries parameters"]) -> Float[Array, "*entries"]:
        """The expected value of each entry."""

    @abc.abstractmethod
    def initial_parameters(self) -> np.ndarray:
        """Parameters to begin training with."""


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
        return jax.random.bernoulli(key, self.mean(_tempered(parameters, temperature))).astype(
            parameters.dtype
        )

    def mean(self, parameters: Float[Array, "*entries 1"]) -> Float[Array, "*entries"]:
        """The probability of a one."""
        return jax.nn.sigmoid(parameters[..., 0])

    def initial_parameters(self) -> np.ndarray:
        """Even odds."""
        return np.zeros(1)


@final
class LevelsOutput(OutputDistribution):
    """One of several evenly spaced levels between 0 and 1; the parameters are their logits."""

    levels: int = eqx.field(static=True)

    @property
    def parameter_count(self) -> int:
        """One for each level."""
        return self.levels

    def log_prob(
        self, parameters: Float[Array, "*entries parameters"], x: Float[Array, "*entries"]
    ) -> Float[Array, "*entries"]:
        """The probability of the nearest level over the distance between levels."""
        level = jnp.rint(x * (self.levels - 1)).astype(jnp.int32)
        chosen = jnp.take_along_axis(jax.nn.log_softmax(parameters), level[..., None], axis=-1)[..., 0]
        return chosen + math.log(self.levels - 1)

    def sample(
        self,
        parameters: Float[Array, "*entries parameters"],
        key: Key,
        temperature: Float[ArrayLike, ""] = 1.0,
    ) -> Float[Array, "*entries"]:
        """One of the levels."""
        chosen = jax.random.categorical(key, _tempered(parameters, temperature))
        return chosen.astype(parameters.dtype) / (self.levels - 1)

    def mean(self, parameters: Float[Array, "*entries parameters"]) -> Float[Array, "*entries"]:
        """The mean over the levels."""
        return jax.nn.softmax(parameters) @ jnp.linspace(0, 1, self.levels, dtype=parameters.dtype)

    def initial_parameters(self) -> np.ndarray:
        """All levels alike."""
        return np.zeros(self.levels)


@final
class GaussianMixtureOutput(OutputDistribution):
    """A mixture of Gaussians; the parameters are logits, means and (bounded) logarithms of standard deviations."""

    components: int = eqx.field(static=True)

    @property
    def parameter_count(self) -> int:
        """Three for each component."""
        return 3 * self.components

    def parts(
        self, parameters: Float[Array, "*entries parameters"]
    ) -> tuple[
        Float[Array, "*entries parts"], Float[Array, "*entries parts"], Float[Array, "*entries parts"]
    ]:
        """Logarithms of the weights, means, and logarithms of the standard deviations."""
        logits, means, spreads = jnp.split(parameters, 3, axis=-1)
        return jax.nn.log_softmax(logits), means, _WIDEST * jnp.tanh(spreads / _WIDEST)

    def log_prob(
        self, parameters: Float[Array, "*entries parameters"], x: Float[Array, "*entries"]
    ) -> Float[Array, "*entries"]:
        """The density of the mixture."""
        weights, means, spreads = self.parts(parameters)
        squares = jnp.square((x[..., None] - means) * jnp.exp(-spreads))
        each = weights - squares / 2 - spreads - 0.5 * math.log(2 * math.pi)
        return jax.nn.logsumexp(each, axis=-1)

    def sample(
        self,
        parameters: Float[Array, "*entries parameters"],
        key: Key,
        temperature: Float[ArrayLike, ""] = 1.0,
    ) -> Float[Array, "*entries"]:
        """A component, then a value from it.

        The power of a mixture is no mixture: the temperature acts on the weights and on each Gaussian by itself.
        """
        weights, means, spreads = self.parts(parameters)
        which, noise = jax.random.split(key)
        chosen = jax.random.categorical(which, _tempered(weights, temperature))[..., None]
        mean, spread = (jnp.take_along_axis(a, chosen, axis=-1)[..., 0] for a in (means, spreads))
        scale = jnp.exp(spread) * jnp.sqrt(jnp.asarray(temperature, spread.dtype))
        return mean + scale * jax.random.normal(noise, mean.shape, mean.dtype)

    def mean(self, parameters: Float[Array, "*entries parameters"]) -> Float[Array, "*entries"]:
        """The mean over the components."""
        weights, means, _ = self.parts(parameters)
        return (jnp.exp(weights) * means).sum(axis=-1)

    def initial_parameters(self) -> np.ndarray:
        """Components side by side, so that they do not all learn the same."""
        means = np.linspace(-1, 1, self.components) if self.components > 1 else np.zeros(1)
        return np.concatenate([np.zeros(self.components), means, np.zeros(self.components)])


def _tempered(logits: Array, temperature: Float[ArrayLike, ""]) -> Array:
    """Logits over the temperature; instead of zero, which would make them infinite, next to nothing."""
    return logits / jnp.maximum(jnp.asarray(temperature, logits.dtype), _COLDEST)


__all__ = ["BernoulliOutput", "GaussianMixtureOutput", "LevelsOutput", "OutputDistribution"]
