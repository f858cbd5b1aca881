"""Codes of length one: von Mises-Fisher posteriors on the sphere, whose prior has all directions alike.

Without a middle to crowd around, codes of classes need not overlap near zero (Davidson et al., 2018).
"""

from typing import final

import equinox as eqx
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.models.latent.posteriors import Gaussian, Posterior
from chainrule.probability import von_mises_fisher as vmf

_SHARPEST = 7.0
"""Logarithms of the concentration, less that of the size of a code, stay within this."""


@final
class HypersphericalPosterior(Posterior):
    """A von Mises-Fisher distribution: a mean direction, and how close to it codes are."""

    size: int = eqx.field(static=True)

    def __init__(self, size: int) -> None:
        if size < 2:
            raise ArgumentError(
                f"posterior=hyperspherical: a code of {size} has two directions only",
                remedy="use latent=2 or more, or posterior=diagonal",
            )
        self.size = size

    @property
    def parameter_count(self) -> int:
        """A vector, of which only the direction counts, and the logarithm of the concentration."""
        return self.size + 1

    def _parts(self, parameters: Float[Array, "*batch parameters"]) -> tuple[Array, Array]:
        raw, log_kappa = parameters[..., : self.size], parameters[..., self.size]
        length = jnp.sqrt(jnp.square(raw).sum(axis=-1, keepdims=True) + 1e-12)
        # As large as the size of a code, a concentration begins to be felt.
        return raw / length, self.size * jnp.exp(jnp.clip(log_kappa, -_SHARPEST, _SHARPEST))

    def draw(
        self, parameters: Float[Array, "*batch parameters"], noise: Float[Array, "*batch size"]
    ) -> Float[Array, "*batch size"]:
        """A direction: the angle to the mean is a quantile, the side is that of the noise."""
        return vmf.draw(*self._parts(parameters), noise)

    def each_log_prob(
        self, parameters: Float[Array, "*batch parameters"], z: Float[Array, "*batch size"]
    ) -> Float[Array, "*batch size"]:
        """The log-density in parts as large as the squares of the mean direction's entries."""
        mean, kappa = self._parts(parameters)
        return vmf.log_prob(mean, kappa, z)[..., None] * jnp.square(mean)

    def from_uniform(self, parameters: Float[Array, "*batch parameters"]) -> Float[Array, "*batch size"]:
        """The exact divergence from all directions alike.

        It belongs to no single entry, as the sphere may be turned; it is shared out by the squares of the mean
        direction's entries, which add up to one.
        """
        mean, kappa = self._parts(parameters)
        return vmf.divergence_from_uniform(kappa, self.size)[..., None] * jnp.square(mean)

    def moments(self, parameters: Float[Array, "batch parameters"], key: Key) -> Gaussian:
        """Mean and variance of every entry in closed form, in units in which those of the prior are 0 and 1.

        An entry of a direction drawn at random has the variance 1 / size; codes are compared after multiplication by
        the root of their size.
        """
        del key
        mean, kappa = self._parts(parameters)
        found = vmf.angle(kappa, self.size)
        along, across = found.variance, (1 - found.below) / kappa
        squares = jnp.square(mean)
        variance = along[..., None] * squares + across[..., None] * (1 - squares)
        return Gaussian(self.size**0.5 * (1 - found.below)[..., None] * mean, jnp.log(self.size * variance))

    def centre(self, parameters: Float[Array, "*batch parameters"]) -> Float[Array, "*batch size"]:
        """The mean direction."""
        return self._parts(parameters)[0]

    def standardised(self, z: Float[Array, "*batch size"]) -> Float[Array, "*batch size"]:
        """Codes times the root of their size."""
        return self.size**0.5 * z


__all__ = ["HypersphericalPosterior"]
