"""Distributions of the codes of a flow: standard normal, with learned parameters, with heavy tails, in clusters.

Each knows the log-density of a code, with gradients for its own parameters, and draws codes at a temperature, a factor
on their distance from the centre. At any temperature but 1 draws do not follow the model's own distribution.
"""

import abc
import math
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.networks.flows.base import Conditions, Events, LogDets
from chainrule.networks.flows.chain import Held
from chainrule.networks.flows.elementwise import over_event
from chainrule.nn import Linear
from chainrule.probability.distributions import Distribution
from chainrule.probability.distributions.normal import log_density

Temperature = float | Float[Array, ""]


class BaseDistribution(eqx.Module):
    """A distribution of codes of one shape."""

    shape: eqx.AbstractVar[tuple[int, ...]]

    @abc.abstractmethod
    def log_prob(self, z: Events, condition: Conditions = None) -> LogDets:
        """Logarithm of the density of each code."""

    @abc.abstractmethod
    def draw(self, key: Key, n: int, condition: Conditions = None, temperature: Temperature = 1.0) -> Events:
        """Codes, one for each condition where there are any."""


@final
class StandardNormal(BaseDistribution):
    """Independent entries with mean zero and variance one.

    >>> round(float(StandardNormal((2,)).log_prob(jnp.zeros((1, 2)))[0]), 4)
    -1.8379
    """

    shape: tuple[int, ...] = eqx.field(static=True)

    def log_prob(self, z: Events, condition: Conditions = None) -> LogDets:
        """`-(|z|² + D log 2 pi) / 2`."""
        del condition
        return -0.5 * (over_event(jnp.square(z)) + math.prod(self.shape) * math.log(2 * math.pi))

    def draw(self, key: Key, n: int, condition: Conditions = None, temperature: Temperature = 1.0) -> Events:
        """Noise."""
        del condition
        return temperature * jax.random.normal(key, (n, *self.shape))


@final
class DiagonalNormal(BaseDistribution):
    """Independent normal entries whose means and deviations are learned, and may depend on the condition.

    With `features` of a condition both are a linear function of it; they begin as the standard normal.
    """

    mean: Float[Array, "*event"]
    log_scale: Float[Array, "*event"]
    given: Linear | None
    shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, shape: tuple[int, ...], features: int = 0) -> None:
        self.shape = shape
        self.mean, self.log_scale = jnp.zeros(shape), jnp.zeros(shape)
        self.given = None
        if features:
            silent = Linear(features, 2 * math.prod(shape), key=jax.random.key(0), bias=False)
            self.given = jax.tree.map(jnp.zeros_like, silent)

    def log_prob(self, z: Events, condition: Conditions = None) -> LogDets:
        """The sum over entries."""
        mean, log_scale = self._parameters(len(z), condition)
        return over_event(log_density((z - mean) * jnp.exp(-log_scale), 0.0, 1.0) - log_scale)

    def draw(self, key: Key, n: int, condition: Conditions = None, temperature: Temperature = 1.0) -> Events:
        """Noise, scaled and moved."""
        mean, log_scale = self._parameters(n, condition)
        return mean + temperature * jnp.exp(log_scale) * jax.random.normal(key, (n, *self.shape))

    def _parameters(self, n: int, condition: Conditions) -> tuple[Events, Events]:
        mean, log_scale = (
            jnp.broadcast_to(one[None], (n, *self.shape)) for one in (self.mean, self.log_scale)
        )
        if self.given is None:
            return mean, log_scale
        if condition is None:
            raise ArgumentError("this distribution of codes depends on a condition, and none was given")
        more = self.given(condition).reshape(n, 2, *self.shape)
        return mean + more[:, 0], log_scale + more[:, 1]


@final
class FullNormal(BaseDistribution):
    """A normal distribution of vectors with any covariance `L L'`, learned; it begins as the standard one."""

    mean: Float[Array, " features"]
    below: Float[Array, "features features"]
    """What stands below the diagonal of L; the rest is ignored."""
    log_scale: Float[Array, " features"]
    """The logarithm of the diagonal of L."""
    shape: tuple[int] = eqx.field(static=True)

    def __init__(self, shape: tuple[int]) -> None:
        self.shape = shape
        self.mean, self.log_scale = jnp.zeros(shape), jnp.zeros(shape)
        self.below = jnp.zeros((*shape, *shape))

    @property
    def factor(self) -> Float[Array, "features features"]:
        """L."""
        return jnp.tril(self.below, -1) + jnp.diag(jnp.exp(self.log_scale))

    def log_prob(self, z: Events, condition: Conditions = None) -> LogDets:
        """That of the noise behind each code, less the logarithm of the diagonal."""
        del condition
        noise = jax.scipy.linalg.solve_triangular(self.factor, (z - self.mean[None]).T, lower=True).T
        return over_event(log_density(noise, 0.0, 1.0)) - self.log_scale.sum()

    def draw(self, key: Key, n: int, condition: Conditions = None, temperature: Temperature = 1.0) -> Events:
        """`mean + L noise`."""
        del condition
        return self.mean[None] + temperature * jax.random.normal(key, (n, *self.shape)) @ self.factor.T


@final
class StudentBase(BaseDistribution):
    """Independent entries under Student's t, with learned degrees of freedom: codes with heavy tails.

    Where data have heavy tails, a map from normal noise would have to be ever steeper (Jaini et al., 2020).
    """

    raw: Float[Array, "*event"]
    """Of degrees of freedom: they are `1 + softplus(raw)`."""
    shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, shape: tuple[int, ...], degrees: float = 5.0) -> None:
        if not degrees > 1:
            raise ArgumentError(f"StudentBase(degrees={degrees}): with one degree or less there is no mean")
        self.shape = shape
        self.raw = jnp.full(shape, math.log(math.expm1(degrees - 1)))

    @property
    def degrees(self) -> Float[Array, "*event"]:
        """Of freedom, of every entry."""
        return 1 + jax.nn.softplus(self.raw)

    def log_prob(self, z: Events, condition: Conditions = None) -> LogDets:
        """The sum over entries."""
        del condition
        n = self.degrees
        constant = (
            jax.scipy.special.gammaln((n + 1) / 2)
            - jax.scipy.special.gammaln(n / 2)
            - 0.5 * jnp.log(math.pi * n)
        )
        return over_event(constant[None] - 0.5 * (n + 1)[None] * jnp.log1p(jnp.square(z) / n[None]))

    def draw(self, key: Key, n: int, condition: Conditions = None, temperature: Temperature = 1.0) -> Events:
        """Student's t, reparametrised."""
        del condition
        return temperature * jax.random.t(key, self.degrees[None], (n, *self.shape))


@final
class MixtureOfNormals(BaseDistribution):
    """Several clusters of independent normal entries, all learned: data in pieces need no map that tears codes."""

    logits: Float[Array, " components"]
    means: Float[Array, "components *event"]
    log_scales: Float[Array, "components *event"]
    shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, shape: tuple[int, ...], components: int, key: Key) -> None:
        """Means begin as standard normal draws, so that clusters differ."""
        components = whole("MixtureOfNormals", "components", components)
        self.shape = shape
        self.logits = jnp.zeros(components)
        self.means = jax.random.normal(key, (components, *shape))
        self.log_scales = jnp.zeros((components, *shape))

    def log_prob(self, z: Events, condition: Conditions = None) -> LogDets:
        """The logarithm of the weighted sum."""
        del condition
        noise = (z[:, None] - self.means[None]) * jnp.exp(-self.log_scales)[None]
        each = log_density(noise, 0.0, 1.0) - self.log_scales[None]
        densities = each.reshape(*each.shape[:2], -1).sum(axis=2)
        return jax.nn.logsumexp(densities + jax.nn.log_softmax(self.logits)[None], axis=1)

    def draw(self, key: Key, n: int, condition: Conditions = None, temperature: Temperature = 1.0) -> Events:
        """A cluster by its weight, then its normal draw; the temperature is a factor on the width of clusters."""
        del condition
        for_choice, for_noise = jax.random.split(key)
        chosen = jax.random.categorical(for_choice, self.logits, shape=(n,))
        noise = jax.random.normal(for_noise, (n, *self.shape))
        return self.means[chosen] + temperature * jnp.exp(self.log_scales)[chosen] * noise


@final
class FixedBase(BaseDistribution, Held):
    """Any distribution of the package, with its parameters held: uniform, a mixture, one that was fitted before.

    >>> from chainrule.probability import Independent, Uniform
    >>> FixedBase(Independent(Uniform(jnp.zeros(2), jnp.ones(2)))).log_prob(jnp.full((1, 2), 0.5)).tolist()
    [0.0]
    """

    distribution: Distribution
    shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, distribution: Distribution) -> None:
        self.distribution, self.shape = distribution, distribution.event_shape

    @property
    def _held(self) -> Distribution:
        return jax.lax.stop_gradient(self.distribution)

    def log_prob(self, z: Events, condition: Conditions = None) -> LogDets:
        """That of the distribution."""
        del condition
        return self._held.log_prob(z)

    def draw(self, key: Key, n: int, condition: Conditions = None, temperature: Temperature = 1.0) -> Events:
        """Draws of the distribution, moved towards its mean by the temperature."""
        del condition
        mean = self._held.mean[None]
        return mean + temperature * (self._held.sample(key, (n,)) - mean)


__all__ = [
    "BaseDistribution",
    "DiagonalNormal",
    "FixedBase",
    "FullNormal",
    "MixtureOfNormals",
    "StandardNormal",
    "StudentBase",
    "Temperature",
]
