"""The smallest change that an attack needs, example by example, by bisection of its radius."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Key


class Smallest(NamedTuple):
    """The smallest radius at which an attack worked, and the example it made.

    The radius is 0 where the example was wrong from the start, and infinite where the largest one was not enough. As
    attacks may miss what is there, it is an upper bound of the distance to the nearest error.
    """

    eps: Float[Array, " batch"]
    x: Array


def smallest(
    attack: Callable[[Array, Key], Array],
    fooled: Callable[[Array], Array],
    x: Array,
    largest: float | Array,
    key: Key,
    *,
    rounds: int = 10,
) -> Smallest:
    """Bisect: after `rounds` the radius is known to `largest / 2**rounds`, as far as the attack finds what is there.

    `attack` takes radii, one for each example with axes of length one behind it, `fooled` says of which it worked.
    """
    column = (len(x), *(1,) * (x.ndim - 1))

    def tried(
        low: Array, high: Array, best: Array, eps: Array, number: Array | int
    ) -> tuple[Array, Array, Array]:
        found = attack(eps, jax.random.fold_in(key, number))
        worked = fooled(found).reshape(column)
        return (
            jnp.where(worked, low, eps),
            jnp.where(worked, eps, high),
            jnp.where(worked, found, best),
        )

    def halve(number: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        low, high, best = state
        return tried(low, high, best, (low + jnp.minimum(high, largest)) / 2, number)

    whole = jnp.full(column, largest, x.dtype)
    begun = tried(jnp.zeros(column, x.dtype), jnp.full(column, jnp.inf, x.dtype), x, whole, rounds)
    _, high, best = jax.lax.fori_loop(0, rounds, halve, begun)
    wrong = fooled(x)
    eps = jnp.where(wrong, 0.0, high.reshape(len(x)))
    return Smallest(eps, jnp.where(wrong.reshape(column), x, best))


__all__ = ["Smallest", "smallest"]
