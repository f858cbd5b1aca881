"""Chains on any space: a transition kernel gives the distribution of the next state for every state.

A kernel is a function from a state to a distribution, so that what it gives is normalised over where the chain goes,
never over where it came from. Those shipped know the distribution after any number of steps as well.
"""

import abc
from collections.abc import Callable
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Key
from chainrule.probability.distributions import Distribution, Empirical, MultivariateNormal, Normal
from chainrule.probability.distributions.covariances import Covariance, from_matrix
from chainrule.probability.distributions.parameters import finite, floating, positive, unit


class TransitionKernel(eqx.Module):
    """The distribution of the next state for every state."""

    @abc.abstractmethod
    def step(self, x: Array) -> Distribution:
        """The distribution of the next state, given one."""

    def sample(self, key: Key, start: Any, steps: int, shape: tuple[int, ...] = ()) -> Float[Array, "..."]:
        """Paths of `steps` moves from one state, the start included: `[*shape, steps + 1, *state]`."""
        count = whole("sample", "steps", steps, least=0)
        begin = floating(start)
        first = jnp.broadcast_to(begin, (*shape, *begin.shape))

        def move(x: Array, draw: Key) -> Array:
            return self.step(x).sample(draw)

        def moves(x: Array, draw: Key) -> tuple[Array, Array]:
            each = move
            for _ in shape:
                each = jax.vmap(each)
            then = each(x, jax.random.split(draw, shape)) if shape else each(x, draw)
            return then, then

        _, later = jax.lax.scan(moves, first, jax.random.split(key, count))
        return jnp.concatenate(
            [jnp.expand_dims(first, len(shape)), jnp.moveaxis(later, 0, len(shape))], len(shape)
        )

    def log_prob(self, path: Any) -> Float[Array, ""]:
        """The log-density of a path `[times, *state]` given its first state."""
        states = floating(path)
        if states.ndim == 0 or len(states) < 2:
            raise ArgumentError(f"log_prob(path): shape {states.shape} is no path of at least two states")
        return jax.vmap(lambda x, y: self.step(x).log_prob(y))(states[:-1], states[1:]).sum()


class HasDistributionAfter(TransitionKernel):
    """Knows the distribution after many steps in closed form."""

    @abc.abstractmethod
    def after(self, start: Any, steps: int) -> Distribution:
        """The distribution after `steps` moves from a state."""


@final
class FunctionKernel(TransitionKernel):
    """A kernel of your own: any function from a state to a distribution.

    >>> from chainrule.probability import Normal
    >>> halving = FunctionKernel(lambda x: Normal(x / 2, 1.0))
    >>> halving.sample(jax.random.key(0), 8.0, 5).shape
    (6,)
    """

    function: Callable[[Array], Distribution]

    def step(self, x: Array) -> Distribution:
        """What the function gives."""
        found = self.function(x)
        if not isinstance(found, Distribution):
            raise ArgumentError(
                f"FunctionKernel: the function gives {type(found).__name__}, not a distribution",
                remedy="return the distribution of the next state, such as probability.Normal(x, 1.0)",
            )
        return found


@final
class GaussianWalk(HasDistributionAfter):
    """Independent normal steps: from x to N(x, covariance).

    >>> GaussianWalk([[2.0]]).after([1.0], 10).covariance.round(3).tolist()
    [[20.0]]
    """

    covariance: Covariance

    def __init__(self, covariance: Any) -> None:
        self.covariance = from_matrix("GaussianWalk", covariance)

    def step(self, x: Array) -> Distribution:
        """N(x, covariance)."""
        return MultivariateNormal(x, self.covariance)

    def after(self, start: Any, steps: int) -> Distribution:
        """N(start, steps × covariance)."""
        return MultivariateNormal(start, whole("after", "steps", steps) * self.covariance.matrix())


@final
class SimpleWalk(HasDistributionAfter):
    """Steps of +1 with probability `up` and of -1 otherwise.

    >>> [round(float(SimpleWalk(0.5).after(0.0, 2).log_prob(x)), 4) for x in (-2.0, 0.0)]
    [-1.3863, -0.6931]
    """

    up: Float[Array, ""]

    def __init__(self, up: Any = 0.5) -> None:
        self.up = unit("SimpleWalk", "up", floating(up))

    def step(self, x: Array) -> Distribution:
        """Up or down by one."""
        return self.after(x, 1)

    def after(self, start: Any, steps: int) -> Distribution:
        """Twice a binomial number of steps up, less all steps."""
        count = whole("after", "steps", steps)
        ups = jnp.arange(count + 1)
        log_choices = (
            jax.scipy.special.gammaln(count + 1.0)
            - jax.scipy.special.gammaln(ups + 1.0)
            - jax.scipy.special.gammaln(count - ups + 1.0)
        )
        powers = jax.scipy.special.xlogy(ups, self.up) + jax.scipy.special.xlogy(count - ups, 1 - self.up)
        weights = jax.nn.softmax(log_choices + powers)
        return Empirical(floating(start) + (2.0 * ups - count), weights)


@final
class AR1(HasDistributionAfter):
    """`mean + coefficient (x - mean) + scale × noise`: pulled back to the mean if |coefficient| < 1."""

    coefficient: Float[Array, ""]
    scale: Float[Array, ""]
    mean: Float[Array, ""]

    def __init__(self, coefficient: Any, scale: Any = 1.0, mean: Any = 0.0) -> None:
        self.coefficient = finite("AR1", "coefficient", floating(coefficient))
        self.scale = positive("AR1", "scale", floating(scale))
        self.mean = finite("AR1", "mean", floating(mean))

    def step(self, x: Array) -> Distribution:
        """One step."""
        return Normal(self.mean + self.coefficient * (x - self.mean), self.scale)

    def after(self, start: Any, steps: int) -> Distribution:
        """The pull and the noise of all steps together.

        >>> float(AR1(0.5).after(4.0, 2).mean), float(AR1(0.5).after(4.0, 2).variance)
        (1.0, 1.25)
        """
        powers = self.coefficient ** jnp.arange(whole("after", "steps", steps) + 1)
        mean = self.mean + powers[-1] * (floating(start) - self.mean)
        return Normal(mean, self.scale * jnp.sqrt(jnp.square(powers[:-1]).sum()))

    def stationary(self) -> Distribution:
        """The distribution that a step leaves as it is; there is one if |coefficient| < 1."""
        if not isinstance(self.coefficient, jax.core.Tracer) and abs(float(self.coefficient)) >= 1:
            raise ArgumentError(
                f"AR1(coefficient={float(self.coefficient):g}): no stationary distribution",
                remedy="use a coefficient between -1 and 1",
            )
        return Normal(self.mean, self.scale / jnp.sqrt(1 - jnp.square(self.coefficient)))


def ornstein_uhlenbeck(rate: Any, volatility: Any, dt: Any, mean: Any = 0.0) -> AR1:
    """The exact step of `dx = -rate (x - mean) dt + volatility dW` over a time `dt`.

    >>> round(float(ornstein_uhlenbeck(2.0, 1.0, 0.5).stationary().variance), 4)
    0.25
    """
    rate, volatility, dt = (
        positive("ornstein_uhlenbeck", name, floating(value))
        for name, value in (("rate", rate), ("volatility", volatility), ("dt", dt))
    )
    spread = volatility * jnp.sqrt(-jnp.expm1(-2 * rate * dt) / (2 * rate))
    return AR1(jnp.exp(-rate * dt), spread, mean)


__all__ = [
    "AR1",
    "FunctionKernel",
    "GaussianWalk",
    "HasDistributionAfter",
    "SimpleWalk",
    "TransitionKernel",
    "ornstein_uhlenbeck",
]
