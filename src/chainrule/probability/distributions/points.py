"""Distributions on given points: one that is certain, and those of a sample."""

from typing import Any, final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Bool

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.probability.distributions.base import Atoms, Distribution, Shape, Univariate, events
from chainrule.probability.distributions.categorical import Categorical
from chainrule.probability.distributions.parameters import broadcast, finite, floating
from chainrule.probability.distributions.supports import Numbers, Support


@final
class Dirac(Univariate):
    """The number `value`, for certain.

    >>> Dirac(2.0).log_prob([2.0, 3.0]).tolist()
    [0.0, -inf]
    """

    value: Float[Array, "*batch"]

    def __init__(self, value: Any = 0.0) -> None:
        (value,) = broadcast("Dirac", value=value)
        self.value = finite("Dirac", "value", value)

    @property
    def support(self) -> "SinglePoint":
        """The value."""
        return SinglePoint(self.value)

    @property
    def mean(self) -> Array:
        """The value."""
        return self.value

    @property
    def variance(self) -> Array:
        """Zero."""
        return jnp.zeros_like(self.value)

    def log_density(self, x: Array) -> Array:
        """Zero, for certain."""
        return jnp.zeros_like(x)

    def draw_each(self, key: Key) -> Array:
        """The value."""
        del key  # nothing here is random
        return self.value

    def entropy(self) -> Float[Array, "*batch"]:
        """Zero."""
        return jnp.zeros_like(self.value)

    def atoms(self) -> Atoms:
        """The value."""
        return Atoms(self.value[None], jnp.ones_like(self.value)[None])


@final
class Empirical(Distribution):
    """One of the given points, all alike or with `weights`; what repeats counts as often as it does.

    `points` have the shape `[n, *event]`; with weights `[*batch, n]` it is `[*batch, n, *event]`.

    >>> float(Empirical([1.0, 2.0, 2.0, 5.0]).log_prob(2.0))  # log(1 / 2)
    -0.693...
    """

    points: Float[Array, "..."]
    choice: Categorical

    def __init__(self, points: Any, weights: Any = None, *, normalize: bool = False) -> None:
        points = finite("Empirical", "points", floating(points))
        if points.ndim == 0 or points.size == 0:
            raise ArgumentError(f"Empirical: points need the shape (n, ...), not {points.shape}")
        if weights is None:
            weights = jnp.full(points.shape[:1], 1 / points.shape[0], points.dtype)
        self.choice = Categorical(weights, normalize=normalize)
        shape = self.choice.log_probs.shape
        if points.shape[: len(shape)] != shape:
            raise ArgumentError(
                f"Empirical: points of shape {points.shape} do not fit weights of shape {shape}"
            )
        self.points = points

    @property
    def weights(self) -> Float[Array, "*batch n"]:
        """The probability of each point."""
        return self.choice.probs

    @property
    def batch_shape(self) -> Shape:
        """That of the weights, but for the last axis."""
        return self.choice.batch_shape

    @property
    def event_shape(self) -> Shape:
        """That of one point."""
        return self.points.shape[len(self.batch_shape) + 1 :]

    @property
    def support(self) -> "PointSet":
        """The points of positive weight."""
        return PointSet(self.points, self.weights > 0, len(self.event_shape))

    @property
    def mean(self) -> Array:
        """The weighted mean."""
        atoms = self.atoms()
        return atoms.mean(atoms.points)

    @property
    def variance(self) -> Array:
        """The weighted mean of squares, entry by entry."""
        atoms = self.atoms()
        return atoms.mean(jnp.square(atoms.points - self.mean[None]))

    @property
    def covariance(self) -> Array:
        """The weighted mean of products of entries, of points that are numbers or vectors."""
        if not self.event_shape:
            return self.variance
        if len(self.event_shape) > 1:
            raise self.not_a_matrix()
        atoms = self.atoms()
        apart = atoms.points - self.mean[None]
        return atoms.mean(apart[..., :, None] * apart[..., None, :])

    def log_prob(self, x: Any) -> Float[Array, "..."]:
        """Logarithm of the weight of all points that equal `x`."""
        x = events(self, x)
        equal = self.support.equal(x)
        found = jnp.where(equal, jnp.broadcast_to(self.weights, equal.shape), 0.0).sum(axis=-1)
        return jnp.where(found > 0, jnp.log(jnp.where(found > 0, found, 1.0)), -jnp.inf)

    def draw(self, key: Key, shape: Shape) -> Array:
        """PointSet, with replacement."""
        chosen = self.choice.draw(key, shape)
        axis, rank = len(self.batch_shape), len(self.event_shape)
        lead = len(shape) - axis
        points = self.points.reshape((1,) * lead + self.points.shape)
        index = chosen.reshape(*shape, 1, *(1,) * rank)
        return jnp.take_along_axis(points, index, axis=lead + axis).squeeze(lead + axis)

    def entropy(self) -> Float[Array, "*batch"]:
        """The sum over points; equal ones count as one."""
        return self.atoms().entropy(self)

    def atoms(self) -> Atoms:
        """All points."""
        axis = len(self.batch_shape)
        return Atoms(jnp.moveaxis(self.points, axis, 0), jnp.moveaxis(self.weights, -1, 0))


@final
class SinglePoint(Numbers):
    """One number."""

    value: Float[Array, "*batch"]

    @property
    def is_discrete(self) -> bool:
        """Yes."""
        return True

    def contains(self, x: Any) -> Bool[Array, "..."]:
        """Whether it is that number."""
        x, value = jnp.broadcast_arrays(jnp.asarray(x), self.value)
        return x == value

    def inner(self) -> Array:
        """The number."""
        return self.value


@final
class PointSet(Support):
    """Finitely many events, along the axis before those of an event."""

    points: Float[Array, "..."]
    weighty: Bool[Array, "*batch n"]
    rank: int = eqx.field(static=True)

    @property
    def is_discrete(self) -> bool:
        """Yes."""
        return True

    def contains(self, x: Any) -> Bool[Array, "..."]:
        """Whether it equals one of the points of positive weight."""
        equal = self.equal(jnp.asarray(x))
        return (equal & jnp.broadcast_to(self.weighty, equal.shape)).any(axis=-1)

    def equal(self, x: Array) -> Bool[Array, "... n"]:
        """Which points it equals."""
        each, points = jnp.broadcast_arrays(jnp.expand_dims(x, x.ndim - self.rank), self.points)
        return (each == points).all(axis=tuple(range(each.ndim - self.rank, each.ndim)))


__all__ = ["Dirac", "Empirical", "PointSet", "SinglePoint"]
