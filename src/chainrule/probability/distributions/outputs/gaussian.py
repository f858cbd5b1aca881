"""Gaussian densities of one number: with a scale that is fixed, shared or of each entry, and mixtures."""

import math
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.types import Array, ArrayLike, Float, Key
from chainrule.probability.distributions.outputs.base import Located, OutputDistribution, tempered
from chainrule.probability.distributions.outputs.scales import Scale, SharedScale

_WIDEST = 7.0
"""Logarithms of standard deviations of a mixture stay within this, smoothly."""


@final
class GaussianOutput(Located):
    """A Gaussian; the parameters are its mean and whatever its scale, the standard deviation, takes.

    >>> from chainrule.probability.distributions.outputs import FixedScale
    >>> output = GaussianOutput(FixedScale(2.0))
    >>> float(output.log_prob(jnp.array([1.0]), jnp.array(3.0)))  # -1/2 log 2 pi - log 2 - 1/2
    -2.11208...
    """

    scale: Scale

    @property
    def parameter_count(self) -> int:
        """The mean, and those of the scale."""
        return 1 + self.scale.parameter_count

    def log_prob(
        self, parameters: Float[Array, "*entries parameters"], x: Float[Array, "*entries"]
    ) -> Float[Array, "*entries"]:
        """`-1/2 log 2 pi - log sigma - (x - mean)^2 / (2 sigma^2)`."""
        scale = self.scale.of(parameters[..., 1:])
        return (
            -0.5 * jnp.square((x - parameters[..., 0]) / scale) - jnp.log(scale) - 0.5 * math.log(2 * math.pi)
        )

    def sample(
        self,
        parameters: Float[Array, "*entries parameters"],
        key: Key,
        temperature: Float[ArrayLike, ""] = 1.0,
    ) -> Float[Array, "*entries"]:
        """The mean and noise."""
        mean, scale = parameters[..., 0], self.scale.of(parameters[..., 1:])
        spread = scale * jnp.sqrt(jnp.asarray(temperature, mean.dtype))
        return mean + spread * jax.random.normal(key, mean.shape, mean.dtype)

    def mean(self, parameters: Float[Array, "*entries parameters"]) -> Float[Array, "*entries"]:
        """The first parameter."""
        return parameters[..., 0]

    def initial_parameters(self) -> np.ndarray:
        """Around zero, with a scale of one where the network gives it."""
        return np.zeros(self.parameter_count)

    def with_likeliest_scale(
        self, parameters: Float[Array, "*entries parameters"], x: Float[Array, "*entries"]
    ) -> "GaussianOutput":
        """The same with the one scale under which these entries are likeliest: the root mean squared error.

        >>> output = GaussianOutput(SharedScale()).with_likeliest_scale(jnp.zeros((2, 1)), jnp.array([3.0, -4.0]))
        >>> round(float(output.scale.of(jnp.zeros(0))) ** 2, 4)
        12.5
        """
        errors = x - self.mean(parameters)
        return GaussianOutput(SharedScale(jnp.sqrt(jnp.mean(jnp.square(errors)))))


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
        chosen = jax.random.categorical(which, tempered(weights, temperature))[..., None]
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


__all__ = ["GaussianMixtureOutput", "GaussianOutput"]
