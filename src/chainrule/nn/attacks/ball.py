"""What an attacker may change: balls around examples by the largest or the whole change, cut off at a range of values.

A norm knows all that differs between the two: where a change is cut off, which way the loss rises fastest within a unit
of it, and what a random change of it is.
"""

import abc
import math
from typing import Any, TypeAlias, final

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Key

Bounds: TypeAlias = tuple[Any, Any]
"""The lowest and the highest value an entry can take: two numbers, or two arrays of the shape of an example."""
_TINY = 1e-12


class ChangeNorm(abc.ABC):
    """How the size of a change is measured; changes have a leading batch axis."""

    @abc.abstractmethod
    def size(self, change: Array) -> Array:
        """One number for each example, with axes of length one behind it."""

    @abc.abstractmethod
    def within(self, change: Array, eps: Any) -> Array:
        """The nearest change that is no larger than `eps`."""

    @abc.abstractmethod
    def steepest(self, slope: Array) -> Array:
        """The change of size one by which a loss with this gradient rises most."""

    @abc.abstractmethod
    def drawn(self, key: Key, like: Array) -> Array:
        """A random change, uniform in the ball of radius one."""

    @abc.abstractmethod
    def extreme(self, key: Key, like: Array) -> Array:
        """A random change of size one: a corner of the cube, a point of the sphere."""

    @abc.abstractmethod
    def most(self, low: np.ndarray, high: np.ndarray, shape: tuple[int, ...]) -> float:
        """The largest change there can be of an example of this shape with entries between two bounds."""


@final
class LargestChange(ChangeNorm):
    """The largest change of an entry (L-infinity)."""

    def size(self, change: Array) -> Array:
        """The largest absolute entry."""
        return jnp.abs(change).max(axis=_inner(change), keepdims=True)

    def within(self, change: Array, eps: Any) -> Array:
        """Every entry cut off by itself."""
        return jnp.clip(change, -eps, eps)

    def steepest(self, slope: Array) -> Array:
        """The sign of every entry."""
        return jnp.sign(slope)

    def drawn(self, key: Key, like: Array) -> Array:
        """Entries from -1 to 1."""
        return jax.random.uniform(key, like.shape, like.dtype, -1, 1)

    def extreme(self, key: Key, like: Array) -> Array:
        """Random signs."""
        return jax.random.rademacher(key, like.shape, like.dtype)

    def most(self, low: np.ndarray, high: np.ndarray, shape: tuple[int, ...]) -> float:
        """The widest range of an entry."""
        del shape
        return float((high - low).max())


@final
class WholeChange(ChangeNorm):
    """The length of the whole change (L2)."""

    def size(self, change: Array) -> Array:
        """Root of the sum of squares."""
        return jnp.sqrt(jnp.square(change).sum(axis=_inner(change), keepdims=True))

    def within(self, change: Array, eps: Any) -> Array:
        """The whole made shorter."""
        return change * jnp.minimum(1.0, eps / jnp.maximum(self.size(change), _TINY))

    def steepest(self, slope: Array) -> Array:
        """The gradient at unit length; first its largest entry is one, so that small ones survive their squares."""
        scaled = slope / jnp.maximum(jnp.abs(slope).max(axis=_inner(slope), keepdims=True), _smallest(slope))
        return scaled / jnp.maximum(self.size(scaled), _TINY)

    def drawn(self, key: Key, like: Array) -> Array:
        """A random direction, its length such that all parts of the ball are equally likely."""
        turn, far = jax.random.split(key)
        share = jax.random.uniform(far, (len(like), *(1,) * (like.ndim - 1)), like.dtype)
        return self.extreme(turn, like) * share ** (1 / math.prod(like.shape[1:]))

    def extreme(self, key: Key, like: Array) -> Array:
        """A random direction."""
        return self.steepest(jax.random.normal(key, like.shape, like.dtype))

    def most(self, low: np.ndarray, high: np.ndarray, shape: tuple[int, ...]) -> float:
        """The diagonal of the box."""
        return float(np.sqrt(np.square(np.broadcast_to(high - low, shape)).sum()))


NORMS: dict[str, ChangeNorm] = {"inf": LargestChange(), "2": WholeChange()}


def norm_named(where: str, name: Any) -> ChangeNorm:
    """The norm of this name.

    >>> norm_named("pgd", "3")
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: pgd(norm="3"): norm must be "inf" or "2"
    """
    check_choice(where, "norm", name, NORMS)
    return NORMS[name]


def inside(x: Array, bounds: Bounds | None) -> Array:
    """Examples with every entry cut off at the bounds."""
    return x if bounds is None else jnp.clip(x, *(_beside(bound, x) for bound in bounds))


def check_radius(
    where: str, eps: float, bounds: Bounds | None, shape: tuple[int, ...] = (), norm: str = "inf"
) -> None:
    """Refuse a change that cannot be: a negative one, or one larger than the range of the data allows.

    `shape` is that of an example.

    >>> check_radius("fgsm", 2.0, (0.0, 1.0))
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: fgsm(eps=2): entries lie between 0 and 1, so no change can be larger than 1
           give eps in the units of the examples
    """
    if not eps >= 0 or math.isinf(eps):
        raise ArgumentError(
            f"{where}(eps={eps:g}): eps is how far an example may be changed and must not be negative or infinite",
            remedy="give 0 or more, in the units of the examples",
        )
    if bounds is None:
        return
    low, high = (np.asarray(bound, np.float64) for bound in bounds)
    most = largest_change(bounds, shape, norm)
    if eps > most * (1 + 1e-6):
        entries = math.prod(shape)
        what = f"the {entries:,} entries of an example" if norm == "2" else "entries"
        raise ArgumentError(
            f"{where}(eps={eps:g}): {what} lie between {low.min():g} and {high.max():g}, so no change can be larger "
            f"than {most:g}",
            remedy="give eps in the units of the examples",
        )


def largest_change(bounds: Bounds, shape: tuple[int, ...], norm: str) -> float:
    """The largest change of an example of this shape that stays inside the bounds.

    >>> largest_change((0, 255), (8, 8, 1), "inf"), largest_change((0, 1), (8, 8, 1), "2")
    (255.0, 8.0)
    """
    low, high = (np.asarray(bound, np.float64) for bound in bounds)
    return NORMS[norm].most(low, high, shape)


def _beside(bound: Any, x: Array) -> Array:
    array = jnp.asarray(bound, x.dtype)
    return array.reshape((1,) * (x.ndim - array.ndim) + array.shape)


def _inner(x: Array) -> tuple[int, ...]:
    return tuple(range(1, x.ndim))


def _smallest(x: Array) -> float:
    return float(jnp.finfo(x.dtype).tiny)


__all__ = ["NORMS", "Bounds", "ChangeNorm", "check_radius", "inside", "largest_change", "norm_named"]
