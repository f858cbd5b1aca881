"""Supports: the sets on which distributions live, with the measure their densities refer to.

A support says which points it contains. One of numbers also gives a number inside, at which formulas are evaluated
where the number in question lies outside, so that derivatives stay finite.
"""

import abc
from typing import Any, final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Bool

from chainrule.core.types import Array, Float


class Support(eqx.Module):
    """A set of events; `...` stands for any leading axes."""

    @property
    @abc.abstractmethod
    def is_discrete(self) -> bool:
        """Whether densities are probabilities of single points (or refer to Lebesgue measure)."""

    @abc.abstractmethod
    def contains(self, x: Any) -> Bool[Array, "..."]:
        """Whether each event lies in the set; not-a-number never does."""


class Numbers(Support):
    """A set of numbers."""

    @abc.abstractmethod
    def inner(self) -> Array:
        """A number inside, for each distribution of the batch; formulas are evaluated there for those outside."""


@final
class Reals(Numbers):
    """All real numbers, or vectors and arrays of them with `rank` axes."""

    rank: int = eqx.field(static=True, default=0)

    @property
    def is_discrete(self) -> bool:
        """No."""
        return False

    def contains(self, x: Any) -> Bool[Array, "..."]:
        """Whether nothing is infinite."""
        inside = jnp.isfinite(jnp.asarray(x))
        return inside.all(axis=tuple(range(inside.ndim - self.rank, inside.ndim)))

    def inner(self) -> Array:
        """Zero."""
        return jnp.zeros((1,) * self.rank)


@final
class RealInterval(Numbers):
    """Numbers from `low` to `high`, ends included; `high` may be infinite."""

    low: Float[Array, "*batch"]
    high: Float[Array, "*batch"]

    @property
    def is_discrete(self) -> bool:
        """No."""
        return False

    def contains(self, x: Any) -> Bool[Array, "..."]:
        """Whether it lies between the ends."""
        x, low, high = jnp.broadcast_arrays(jnp.asarray(x), self.low, self.high)
        return (x >= low) & (x <= high)

    def inner(self) -> Array:
        """The middle; of a half-line, one behind its end."""
        return jnp.where(jnp.isfinite(self.high), (self.low + self.high) / 2, self.low + 1)


@final
class WholeNumbers(Numbers):
    """Whole numbers from 0 to `high`, which may be infinite."""

    high: Float[Array, "*batch"]

    @property
    def is_discrete(self) -> bool:
        """Yes."""
        return True

    def contains(self, x: Any) -> Bool[Array, "..."]:
        """Whether it is whole and between 0 and `high`."""
        x, high = jnp.broadcast_arrays(jnp.asarray(x), self.high)
        return (x >= 0) & (x <= high) & (x == jnp.floor(x))

    def inner(self) -> Array:
        """Zero."""
        return jnp.zeros_like(self.high)


__all__ = ["Numbers", "RealInterval", "Reals", "Support", "WholeNumbers"]
