"""The Laplace density of one number: absolute instead of squared errors."""

import math
from typing import final

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.types import Array, ArrayLike, Float, Key
from chainrule.probability.distributions.outputs.base import Located
from chainrule.probability.distributions.outputs.scales import Scale


@final
class LaplaceOutput(Located):
    """A density that falls exponentially to both sides; the parameters are its mean and whatever its scale takes."""

    scale: Scale

    @property
    def parameter_count(self) -> int:
        """The mean, and those of the scale."""
        return 1 + self.scale.parameter_count

    def log_prob(
        self, parameters: Float[Array, "*entries parameters"], x: Float[Array, "*entries"]
    ) -> Float[Array, "*entries"]:
        """`-log 2b - |x - mean| / b`."""
        scale = self.scale.of(parameters[..., 1:])
        return -jnp.abs(x - parameters[..., 0]) / scale - jnp.log(scale) - math.log(2)

    def sample(
        self,
        parameters: Float[Array, "*entries parameters"],
        key: Key,
        temperature: Float[ArrayLike, ""] = 1.0,
    ) -> Float[Array, "*entries"]:
        """The mean and noise."""
        mean, scale = parameters[..., 0], self.scale.of(parameters[..., 1:])
        spread = scale * jnp.asarray(temperature, mean.dtype)
        return mean + spread * jax.random.laplace(key, mean.shape, mean.dtype)

    def mean(self, parameters: Float[Array, "*entries parameters"]) -> Float[Array, "*entries"]:
        """The first parameter."""
        return parameters[..., 0]

    def initial_parameters(self) -> np.ndarray:
        """Around zero, with a scale of one where the network gives it."""
        return np.zeros(self.parameter_count)


__all__ = ["LaplaceOutput"]
