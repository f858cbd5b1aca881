"""The protocol of distributions: draws, log-densities, moments, entropy, support.

A distribution is a PyTree of its parameters. Parameters broadcast against each other, and their common shape is the
*batch shape*: so many distributions side by side. Each is one of events of the *event shape*, `()` for numbers, `(d,)`
for vectors. Draws have the shape `shape + batch_shape + event_shape`; `log_prob` takes what broadcasts against that.
"""

import abc
import operator
from typing import Any, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.types import Array, Float, Key
from chainrule.probability.distributions.parameters import floating
from chainrule.probability.distributions.supports import Numbers, Support

Shape = tuple[int, ...]


class Distribution(eqx.Module):
    """A probability distribution, or a batch of them; all of it can be compiled, mapped and differentiated."""

    @property
    @abc.abstractmethod
    def batch_shape(self) -> Shape:
        """How many distributions there are side by side: the common shape of the parameters."""

    @property
    @abc.abstractmethod
    def event_shape(self) -> Shape:
        """The shape of what one of them draws."""

    @property
    @abc.abstractmethod
    def support(self) -> Support:
        """The set on which it lives."""

    @property
    @abc.abstractmethod
    def mean(self) -> Array:
        """Expected value, `[*batch, *event]`."""

    @property
    @abc.abstractmethod
    def variance(self) -> Array:
        """Of every entry, `[*batch, *event]`."""

    @property
    @abc.abstractmethod
    def covariance(self) -> Array:
        """`[*batch, d, d]` of vectors; of numbers the variance."""

    @abc.abstractmethod
    def log_prob(self, x: Any) -> Float[Array, "..."]:
        """Logarithm of the density (of the probability, where events are discrete), in nats; -inf off the support."""

    @abc.abstractmethod
    def entropy(self) -> Float[Array, "*batch"]:
        """`-E log_prob(X)` in nats."""

    @abc.abstractmethod
    def draw(self, key: Key, shape: Shape) -> Array:
        """What `sample` does, for a `shape` that begins with that of the draws and ends with the batch shape."""

    def sample(self, key: Key, shape: int | Shape = ()) -> Array:
        """Independent draws, `[*shape, *batch, *event]`; reparametrised where events are continuous."""
        try:
            sizes = (operator.index(shape),) if np.ndim(shape) == 0 else tuple(map(operator.index, shape))  # type: ignore[arg-type]
        except TypeError:
            sizes = (-1,)
        if any(size < 0 for size in sizes):
            raise ArgumentError(f"sample(shape={shape}): a whole number or a tuple of them is needed")
        return self.draw(key, (*sizes, *self.batch_shape))

    def batched(self, shape: Shape) -> Self:
        """Default: the same with another batch shape, to which its own broadcasts."""
        mine = len(self.batch_shape)
        return jax.tree.map(lambda array: jnp.broadcast_to(array, (*shape, *array.shape[mine:])), self)

    def select(self, index: tuple[Array, ...]) -> "Distribution":
        """Default: the distributions at these indices of the first batch axes."""
        return jax.tree.map(lambda array: array[index], self)

    def draw_components(self, key: Key, chosen: Array) -> Array:
        """Default: one draw for each entry of `chosen`, which is a position along the last batch axis.

        `chosen` has the shape of the draws, then that of the other batch axes.
        """
        axes = self.batch_shape[:-1]
        others = jnp.indices(axes, sparse=True)
        lead = (1,) * (chosen.ndim - len(axes))
        index = tuple(jnp.broadcast_to(one.reshape(lead + one.shape), chosen.shape) for one in others)
        return self.select((*index, chosen)).sample(key)

    def atoms(self) -> "Atoms | None":
        """Default: nothing. Where there are finitely many, the points it can draw and their probabilities."""
        return None

    def not_a_matrix(self) -> CapabilityError:
        """The error for covariances of what is neither number nor vector."""
        return CapabilityError(
            f"{type(self).__name__}: events of shape {self.event_shape} have no covariance matrix",
            remedy="flatten them to vectors, or use variance",
        )

    def unavailable(self, what: str) -> CapabilityError:
        """The error for what has no closed form, with the way to estimate it."""
        return CapabilityError(
            f"{type(self).__name__}: its {what} has no closed form",
            remedy=f"estimate it from draws: {_ESTIMATES[what]}",
        )


_ESTIMATES = {
    "mean": "probability.expect(p, lambda x: x, key=key)",
    "variance": "p.sample(key, 10_000).var(axis=0)",
    "covariance": "jnp.cov(p.sample(key, 10_000).T)",
    "entropy": "-p.log_prob(p.sample(key, 10_000)).mean(axis=0)",
}


class Atoms(NamedTuple):
    """Finitely many points with their probabilities; a point may be listed more than once."""

    points: Array
    """`[points, *batch, *event]`."""
    weights: Float[Array, "points *batch"]

    @staticmethod
    def up_to(most: int, p: Distribution) -> "Atoms":
        """The numbers 0 to `most`."""
        points = jnp.arange(most + 1).reshape(-1, *(1,) * len(p.batch_shape))
        points = jnp.broadcast_to(points, (most + 1, *p.batch_shape))
        return Atoms(points, jnp.exp(p.log_prob(points)))

    def padded(self, count: int) -> "Atoms":
        """With the first point repeated, without weight, until there are so many."""
        more = count - len(self.weights)
        points = jnp.concatenate([self.points, jnp.repeat(self.points[:1], more, axis=0)])
        return Atoms(
            points, jnp.concatenate([self.weights, jnp.zeros_like(self.weights[:1]).repeat(more, 0)])
        )

    def mean(self, values: Array) -> Array:
        """The expected value of what has these `values` at the points, and any value where there is no weight."""
        weights = self.weights.reshape(*self.weights.shape, *(1,) * (values.ndim - self.weights.ndim))
        weights = jnp.broadcast_to(weights, values.shape)
        return (weights * jnp.where(weights > 0, values, 0)).sum(axis=0)

    def entropy(self, p: Distribution) -> Float[Array, "*batch"]:
        """`-E log_prob(X)` of the distribution that has these atoms."""
        return -self.mean(p.log_prob(self.points))


class Univariate(Distribution):
    """Distributions of numbers: every array among their fields has the batch shape and one floating type."""

    @property
    @abc.abstractmethod
    def support(self) -> Numbers:
        """The set of numbers on which it lives."""

    @property
    def batch_shape(self) -> Shape:
        """The shape of every parameter."""
        return self._parameter.shape

    @property
    def event_shape(self) -> Shape:
        """Numbers."""
        return ()

    @property
    def dtype(self) -> Any:
        """The type of every parameter."""
        return self._parameter.dtype

    @property
    def covariance(self) -> Array:
        """The variance."""
        return self.variance

    @abc.abstractmethod
    def log_density(self, x: Array) -> Array:
        """`log_prob` of one number of the support for each distribution of the batch."""

    @abc.abstractmethod
    def draw_each(self, key: Key) -> Array:
        """One number from each distribution of the batch."""

    def log_prob(self, x: Any) -> Float[Array, "..."]:
        """Logarithm of the density (of the probability, where numbers are discrete), in nats; -inf off the support."""
        x = events(self, x)
        inside = self.support.contains(x)
        safe = jnp.where(inside, x, jnp.broadcast_to(self.support.inner(), x.shape))
        return jnp.where(
            inside, self.batched(x.shape).log_density(safe), jnp.where(jnp.isnan(x), x, -jnp.inf)
        )

    def draw(self, key: Key, shape: Shape) -> Array:
        """One number from each of so many distributions."""
        return self.batched(shape).draw_each(key)

    @property
    def _parameter(self) -> Array:
        return jax.tree.leaves(self)[0]


class HasIntervals(Univariate):
    """Distributions of numbers that know the probability of an interval, however far out it lies."""

    @abc.abstractmethod
    def log_interval(self, low: Array, high: Array) -> Array:
        """Logarithm of P(low < X <= high) for each distribution of the batch; ends may be infinite."""


def events(p: Distribution, x: Any) -> Array:
    """`x` as floating-point events of `p`, broadcast against its batch."""
    x = floating(x)
    shape = (*p.batch_shape, *p.event_shape)
    rank = len(p.event_shape)
    if x.ndim < rank or x.shape[x.ndim - rank :] != p.event_shape:
        raise ArgumentError(
            f"{type(p).__name__}.log_prob: x of shape {x.shape} does not end with the event shape {p.event_shape}"
        )
    try:
        full = np.broadcast_shapes(x.shape, shape)
    except ValueError:
        raise ArgumentError(
            f"{type(p).__name__}.log_prob: x of shape {x.shape} does not broadcast with the batch shape {p.batch_shape}"
        ) from None
    if not isinstance(x, jax.core.Tracer) and np.isnan(np.asarray(x)).any():
        raise ArgumentError(
            f"{type(p).__name__}.log_prob: x holds NaN", remedy="leave out or fill in missing values first"
        )
    return jnp.broadcast_to(x, full)


__all__ = ["Atoms", "Distribution", "HasIntervals", "Shape", "Univariate", "events"]
