"""Families of approximate posteriors q(z|x), whose parameters an encoder gives.

Three of them: Gaussians with independent entries, Gaussians with any covariance, and a Gaussian that invertible layers
bend. All are drawn as a function of standard normal noise, so that gradients pass, and give the density of any code, so
that importance weights can be had. The divergence from a Gaussian prior comes entry by entry; its sum is exact for the
Gaussians, and the estimate `log q(z) - log p(z)` from the code at hand for the bent one.
"""

import abc
import math
from typing import NamedTuple, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.networks.flows.couplings import Coupling, roles
from chainrule.networks.flows.synthesisers import AffineSynthesiser

_LARGEST = 10.0
"""Logarithms of variances stay within this."""
_DRAWS = 64
"""Codes from which moments are estimated where they have no closed form."""

_Codes: TypeAlias = Float[Array, "*batch size"]
_Parameters: TypeAlias = Float[Array, "*batch parameters"]


class Gaussian(NamedTuple):
    """Independent normal entries: a prior, or what a posterior is summed up by."""

    mean: _Codes
    log_variance: _Codes

    def log_prob(self, z: _Codes) -> _Codes:
        """The log-density of every entry."""
        squares = jnp.square(z - self.mean) * jnp.exp(-self.log_variance)
        return -0.5 * (squares + self.log_variance + math.log(2 * math.pi))

    def divergence(self, other: "Gaussian") -> _Codes:
        """The share of every entry in KL(self || other).

        It is `½((d² + v)/w - 1 - log(v/w))` with variances v and w and distance d of the means.
        """
        ratio = self.log_variance - other.log_variance
        squares = jnp.square(self.mean - other.mean) * jnp.exp(-other.log_variance)
        return 0.5 * (squares + jnp.exp(ratio) - 1 - ratio)

    def draw(self, noise: _Codes, temperature: float | Array = 1.0) -> _Codes:
        """The values that standard normal noise becomes, at this factor on the spread."""
        return self.mean + temperature * jnp.exp(self.log_variance / 2) * noise


def gaussian(parameters: _Parameters) -> Gaussian:
    """The distribution whose means and logarithms of variances a network gives, in this order."""
    mean, spread = jnp.split(parameters, 2, axis=-1)
    return Gaussian(mean, jnp.clip(spread, -_LARGEST, _LARGEST))


class Posterior(eqx.Module):
    """A family of distributions of codes; its parameters are arguments, the last axis of an array."""

    size: eqx.AbstractVar[int]
    """Entries of a code."""

    @property
    @abc.abstractmethod
    def parameter_count(self) -> int:
        """How many parameters a code has; the first `size` of them are its location."""

    @abc.abstractmethod
    def draw(self, parameters: _Parameters, noise: _Codes) -> _Codes:
        """The code that standard normal noise becomes."""

    @abc.abstractmethod
    def each_log_prob(self, parameters: _Parameters, z: _Codes) -> _Codes:
        """The share of every entry in the log-density of each code."""

    @abc.abstractmethod
    def moments(self, parameters: Float[Array, "batch parameters"], key: Key) -> Gaussian:
        """Mean and logarithm of the variance of every entry, as `standardised` makes them."""

    def log_prob(self, parameters: _Parameters, z: _Codes) -> Float[Array, "*batch"]:
        """The log-density of each code."""
        return self.each_log_prob(parameters, z).sum(axis=-1)

    def standardised(self, z: _Codes) -> _Codes:
        """Default: codes as they are; otherwise in units in which an entry of the prior has variance one."""
        return z

    def centre(self, parameters: _Parameters) -> _Codes:
        """Default: the code that no noise gives, the mean of a Gaussian."""
        return self.draw(parameters, jnp.zeros_like(parameters[..., : self.size]))


class EuclideanPosterior(Posterior):
    """Codes that can be any vector, beside which a prior may be Gaussian."""

    @abc.abstractmethod
    def divergence(self, parameters: _Parameters, prior: Gaussian, z: _Codes) -> _Codes:
        """The share of every entry in KL(q || prior); `z` are codes drawn from q, for families that need them."""


@final
class DiagonalPosterior(EuclideanPosterior):
    """`N(mean, diag exp(log_variance))`."""

    size: int = eqx.field(static=True)

    @property
    def parameter_count(self) -> int:
        """Two for each entry."""
        return 2 * self.size

    def draw(self, parameters: _Parameters, noise: _Codes) -> _Codes:
        """`mean + exp(log_variance / 2) noise`."""
        return gaussian(parameters).draw(noise)

    def each_log_prob(self, parameters: _Parameters, z: _Codes) -> _Codes:
        """That of independent normal entries."""
        return gaussian(parameters).log_prob(z)

    def divergence(self, parameters: _Parameters, prior: Gaussian, z: _Codes) -> _Codes:
        """The closed form."""
        del z
        return gaussian(parameters).divergence(prior)

    def moments(self, parameters: Float[Array, "batch parameters"], key: Key) -> Gaussian:
        """The parameters themselves."""
        del key
        return gaussian(parameters)


@final
class FullPosterior(EuclideanPosterior):
    """`N(mean, L L')` with a lower triangular L; the logarithm of its diagonal is half that of a variance."""

    size: int = eqx.field(static=True)

    @property
    def parameter_count(self) -> int:
        """Mean, diagonal and what is below it."""
        return 2 * self.size + self.size * (self.size - 1) // 2

    def _parts(self, parameters: _Parameters) -> tuple[_Codes, _Codes, Float[Array, "*batch size size"]]:
        mean, spread, below = jnp.split(parameters, (self.size, 2 * self.size), axis=-1)
        spread = jnp.clip(spread, -_LARGEST, _LARGEST)
        rows, columns = jnp.tril_indices(self.size, -1)
        factor = jnp.zeros((*mean.shape, self.size), mean.dtype).at[..., rows, columns].set(below)
        every = jnp.arange(self.size)
        return mean, spread, factor.at[..., every, every].set(jnp.exp(spread / 2))

    def draw(self, parameters: _Parameters, noise: _Codes) -> _Codes:
        """`mean + L noise`."""
        mean, _, factor = self._parts(parameters)
        return mean + jnp.einsum("...ij,...j->...i", factor, noise)

    def each_log_prob(self, parameters: _Parameters, z: _Codes) -> _Codes:
        """That of the noise which gives the code, less the logarithm of L's diagonal: each entry given those before."""
        mean, spread, factor = self._parts(parameters)
        noise = jax.scipy.linalg.solve_triangular(factor, (z - mean)[..., None], lower=True)[..., 0]
        return -0.5 * (jnp.square(noise) + spread + math.log(2 * math.pi))

    def divergence(self, parameters: _Parameters, prior: Gaussian, z: _Codes) -> _Codes:
        """The closed form; the determinant is shared out by the diagonal of L."""
        del z
        mean, spread, factor = self._parts(parameters)
        variance = jnp.square(factor).sum(axis=-1)
        scaled = (jnp.square(mean - prior.mean) + variance) * jnp.exp(-prior.log_variance)
        return 0.5 * (scaled - 1 - spread + prior.log_variance)

    def moments(self, parameters: Float[Array, "batch parameters"], key: Key) -> Gaussian:
        """The mean and the diagonal of the covariance."""
        del key
        mean, _, factor = self._parts(parameters)
        return Gaussian(mean, jnp.log(jnp.square(factor).sum(axis=-1)))


@final
class FlowPosterior(EuclideanPosterior):
    """A Gaussian with independent entries that affine coupling layers bend.

    Rezende and Mohamed (2015) bend posteriors; the layers are those of Dinh et al. (2017), whose inverse is as cheap.
    A layer scales, by e at most, and shifts every second entry by a network of the others and of what the encoder says
    of the example. Shifts and logarithms of scales start at zero, so that training begins with the Gaussian.
    """

    layers: tuple[Coupling, ...]
    size: int = eqx.field(static=True)
    context: int = eqx.field(static=True)

    def __init__(self, size: int, *, layers: int = 4, width: int = 64, context: int = 32, key: Key) -> None:
        if size < 2:
            raise ArgumentError(
                f"posterior=flow: a code of {size} has no entries that could depend on others",
                remedy="use latent=2 or more, or posterior=diagonal",
            )
        self.size, self.context = size, context
        turns = roles("alternate", size, layers, key)
        self.layers = tuple(
            Coupling(moved, AffineSynthesiser(1.0), width=width, depth=1, condition=context, key=k)
            for moved, k in zip(turns, jax.random.split(key, layers), strict=True)
        )

    @property
    def parameter_count(self) -> int:
        """Those of the Gaussian, and what the layers are told of the example."""
        return 2 * self.size + self.context

    def _parts(self, parameters: _Parameters) -> tuple[Gaussian, Array]:
        mean, spread, context = jnp.split(parameters, (self.size, 2 * self.size), axis=-1)
        return Gaussian(mean, jnp.clip(spread, -_LARGEST, _LARGEST)), context

    def draw(self, parameters: _Parameters, noise: _Codes) -> _Codes:
        """The Gaussian's code, layer by layer."""
        base, context = self._parts(parameters)
        z, condition = self._rows(base.draw(noise)), context.reshape(-1, self.context)
        for layer in self.layers:
            z = layer.forward(z, condition).value
        return z.reshape(noise.shape)

    def each_log_prob(self, parameters: _Parameters, z: _Codes) -> _Codes:
        """That of the Gaussian's code behind it, less the logarithms of the scales."""
        base, context = self._parts(parameters)
        code, condition = self._rows(z), context.reshape(-1, self.context)
        volume = jnp.zeros_like(code)
        for layer in reversed(self.layers):
            code, slopes = layer.inverse_by_entry(code, condition)
            volume = volume + slopes
        return base.log_prob(code.reshape(z.shape)) + volume.reshape(z.shape)

    def _rows(self, z: _Codes) -> Float[Array, "rows size"]:
        return z.reshape(-1, self.size)

    def divergence(self, parameters: _Parameters, prior: Gaussian, z: _Codes) -> _Codes:
        """`log q(z) - log p(z)` of the code at hand; single entries may come out negative."""
        return self.each_log_prob(parameters, z) - prior.log_prob(z)

    def moments(self, parameters: Float[Array, "batch parameters"], key: Key) -> Gaussian:
        """Those of 64 codes."""
        noise = jax.random.normal(key, (_DRAWS, *parameters.shape[:-1], self.size), parameters.dtype)
        several = jnp.broadcast_to(parameters[None], (_DRAWS, *parameters.shape))
        z = self.draw(several, noise)
        return Gaussian(z.mean(axis=0), jnp.log(z.var(axis=0)))


__all__ = [
    "DiagonalPosterior",
    "EuclideanPosterior",
    "FlowPosterior",
    "FullPosterior",
    "Gaussian",
    "Posterior",
    "gaussian",
]
