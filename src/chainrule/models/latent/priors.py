"""Priors of codes: a Gaussian, a learned mixture, the posteriors of learned pseudo-inputs, all directions alike.

The divergence of a posterior from its prior is exact for Gaussians and on the sphere. From a mixture it has no closed
form: it is `log q(z) - log p(z)` of the code at hand, whose mean is the divergence.
"""

import abc
from collections.abc import Callable
from typing import Literal, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp
from pydantic import Field

from chainrule.core import random
from chainrule.core.settings import Config
from chainrule.core.types import Array, Float, Key
from chainrule.models.latent.hyperspherical import HypersphericalPosterior
from chainrule.models.latent.posteriors import EuclideanPosterior, Gaussian, Posterior
from chainrule.probability.von_mises_fisher import log_area

PriorName = Literal["standard", "mixture", "vamp"]


class PriorSettings(Config, abc.ABC):
    """The distribution that codes are drawn from."""

    prior: PriorName = Field(
        "standard",
        description="codes before an example is seen: standard normal, a learned mixture of Gaussians, or the mixture "
        "of the posteriors of learned pseudo-inputs (VampPrior)",
    )
    prior_components: int = Field(
        50, ge=1, le=10_000, description="prior=mixture, vamp: how many Gaussians or pseudo-inputs"
    )


class Prior(eqx.Module):
    """A distribution of codes, which may differ from example to example."""

    @abc.abstractmethod
    def log_prob(self, z: Float[Array, "*draws batch size"]) -> Float[Array, "*draws batch"]:
        """The log-density of each code."""

    @abc.abstractmethod
    def draw(self, key: Key, count: int, temperature: float = 1.0) -> Float[Array, "count size"]:
        """So many codes, with this factor on their spread; where it differs from example to example, one for each."""

    @abc.abstractmethod
    def divergence(
        self,
        posterior: Posterior,
        parameters: Float[Array, "batch parameters"],
        z: Float[Array, "batch size"],
    ) -> Float[Array, "batch size"]:
        """The share of every entry in KL(q || p), or in an estimate of it from codes `z` drawn from q."""

    def like_first(self, count: int) -> Self:
        """Default: the same for so many examples as for the first of them."""
        del count
        return self


@final
class GaussianPrior(Prior):
    """A Gaussian with independent entries, for each example its own."""

    gaussian: Gaussian

    @classmethod
    def standard(cls, count: int, size: int) -> Self:
        """The standard normal distribution for so many examples."""
        return cls(Gaussian(jnp.zeros((count, size)), jnp.zeros((count, size))))

    def log_prob(self, z: Float[Array, "*draws batch size"]) -> Float[Array, "*draws batch"]:
        """That of independent normal entries."""
        spread = Gaussian(*(jnp.broadcast_to(part, z.shape) for part in self.gaussian))
        return spread.log_prob(z).sum(axis=-1)

    def draw(self, key: Key, count: int, temperature: float = 1.0) -> Float[Array, "count size"]:
        """One for each example."""
        mean = self.gaussian.mean
        return self.gaussian.draw(jax.random.normal(key, (count, mean.shape[1]), mean.dtype), temperature)

    def divergence(
        self,
        posterior: Posterior,
        parameters: Float[Array, "batch parameters"],
        z: Float[Array, "batch size"],
    ) -> Float[Array, "batch size"]:
        """As the posterior knows it."""
        assert isinstance(posterior, EuclideanPosterior), "codes on the sphere have no Gaussian prior"
        return posterior.divergence(parameters, self.gaussian, z)

    def like_first(self, count: int) -> Self:
        """The Gaussian of the first example, for all."""
        return type(self)(Gaussian(*(jnp.repeat(part[:1], count, axis=0) for part in self.gaussian)))


@final
class MixturePrior(Prior):
    """A mixture of members of a family of posteriors: their parameters are learned, or come from pseudo-inputs."""

    family: Posterior
    parameters: Float[Array, "components parameters"]
    logits: Float[Array, " components"]

    def log_prob(self, z: Float[Array, "*draws batch size"]) -> Float[Array, "*draws batch"]:
        """The logarithm of the weighted sum over the components, draw by draw."""
        if z.ndim > 2:
            return jax.lax.map(self.log_prob, z)
        return jax.nn.logsumexp(self.by_component(z), axis=0)

    def by_component(self, z: Float[Array, "batch size"]) -> Float[Array, "components batch"]:
        """The log-density of each code and each component together."""
        each = self._by_component(self.family.log_prob, z)
        return each + jax.nn.log_softmax(self.logits)[:, None]

    def draw(self, key: Key, count: int, temperature: float = 1.0) -> Float[Array, "count size"]:
        """From components drawn by their weights; the temperature is a factor on the spread within each."""
        which, noise = jax.random.split(key)
        chosen = jax.random.categorical(which, self.logits, shape=(count,))
        spread = jax.random.normal(noise, (count, self.family.size), self.parameters.dtype)
        return self.family.draw(self.parameters[chosen], temperature * spread)

    def divergence(
        self,
        posterior: Posterior,
        parameters: Float[Array, "batch parameters"],
        z: Float[Array, "batch size"],
    ) -> Float[Array, "batch size"]:
        """`log q(z) - log p(z)`, shared out by the chain rule: each entry given those before it."""
        each = self._by_component(self.family.each_log_prob, z)
        start = jax.nn.log_softmax(self.logits)[:, None, None].astype(each.dtype)
        start = jnp.broadcast_to(start, (*each.shape[:2], 1))
        joint = jax.nn.logsumexp(jnp.cumsum(jnp.concatenate([start, each], axis=-1), axis=-1), axis=0)
        return posterior.each_log_prob(parameters, z) - jnp.diff(joint, axis=-1)

    def _by_component(self, f: Callable[[Array, Array], Array], z: Float[Array, "batch size"]) -> Array:
        def of(own: Float[Array, " parameters"]) -> Array:
            return f(jnp.broadcast_to(own[None], (len(z), len(own))), z)

        return jax.vmap(of)(self.parameters)


@final
class LearnedMixture(eqx.Module):
    """Weights, means and variances of Gaussians that are learned as they are."""

    logits: Float[Array, " components"]
    parameters: Float[Array, "components parameters"]

    def __init__(self, components: int, size: int, key: Key) -> None:
        self.logits = jnp.zeros(components)
        # Apart from each other, or all would learn the same.
        means = random.normal(key, (components, size), 1.0 if components > 1 else 0.0)
        self.parameters = jnp.concatenate([means, jnp.zeros((components, size))], axis=1)


@final
class PseudoInputs(eqx.Module):
    """Examples that are learned: their posteriors, in equal parts, are the prior (Tomczak and Welling, 2018).

    They start at random, or at examples. Those of data between 0 and 1 are kept there by a sigmoid.
    """

    raw: Float[Array, "components ..."]
    unit: bool = eqx.field(static=True)

    def __init__(self, components: int, shape: tuple[int, ...], unit: bool, key: Key) -> None:
        self.raw, self.unit = random.normal(key, (components, *shape)), unit

    @property
    def examples(self) -> Float[Array, "components ..."]:
        """As an encoder reads them."""
        return jax.nn.sigmoid(2 * self.raw) if self.unit else self.raw

    def at(self, examples: Float[Array, "components ..."]) -> Self:
        """The same number of them, at these examples; a little inside of the interval, where gradients pass."""
        raw = jax.scipy.special.logit(jnp.clip(examples, 0.05, 0.95)) / 2 if self.unit else examples
        return eqx.tree_at(lambda own: own.raw, self, raw.astype(self.raw.dtype))


@final
class SpherePrior(Prior):
    """All directions alike: codes have length one."""

    size: int = eqx.field(static=True)

    def log_prob(self, z: Float[Array, "*draws batch size"]) -> Float[Array, "*draws batch"]:
        """Minus the logarithm of the area of the sphere."""
        return jnp.full(z.shape[:-1], -log_area(self.size), z.dtype)

    def draw(self, key: Key, count: int, temperature: float = 1.0) -> Float[Array, "count size"]:
        """Directions of normal vectors; there is no spread that a temperature could change."""
        del temperature
        z = jax.random.normal(key, (count, self.size))
        return z / jnp.linalg.norm(z, axis=-1, keepdims=True)

    def divergence(
        self,
        posterior: Posterior,
        parameters: Float[Array, "batch parameters"],
        z: Float[Array, "batch size"],
    ) -> Float[Array, "batch size"]:
        """As the posterior knows it."""
        assert isinstance(posterior, HypersphericalPosterior), "only codes on the sphere have this prior"
        del z
        return posterior.from_uniform(parameters)


__all__ = [
    "GaussianPrior",
    "LearnedMixture",
    "MixturePrior",
    "Prior",
    "PriorName",
    "PriorSettings",
    "PseudoInputs",
    "SpherePrior",
]
