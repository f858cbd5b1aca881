"""Slopes of scores in examples, and what games charge for them.

`(gamma/2) E |grad a(x)|²` on real examples is R1, on generated ones R2 (Mescheder, Geiger and Nowozin, 2018): where
both distributions are equal it leaves nothing to gain for a discriminator that still slopes, and the game comes to
rest. The gradient penalty of Gulrajani et al. (2017) asks for slopes of one instead, between the two.
"""

from typing import Any

import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.models.adversarial.networks import Discriminator


def scores_and_slopes(
    discriminator: Discriminator, x: Float[Array, "batch ..."], y: Any
) -> tuple[Float[Array, " decisions"], Float[Array, "batch ..."], Discriminator]:
    """Scores, their gradient in every example, and the discriminator moved on.

    Where scores of a batch depend on each other, slopes are those of their sum.
    """

    def total(x: Array) -> tuple[Scalar, tuple[Array, Discriminator]]:
        scores, moved = discriminator.advance(x, y)
        return scores.sum(), (scores, moved)

    slopes, (scores, moved) = jax.grad(total, has_aux=True)(x)
    return scores, slopes, moved


def lengths(slopes: Float[Array, "batch ..."]) -> Float[Array, " batch"]:
    """The Euclidean length of each slope over all axes of its example; its own derivative is zero where it is zero."""
    squares = jnp.square(slopes).sum(axis=tuple(range(1, slopes.ndim)))
    positive = squares > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, squares, 1.0)), 0.0)


def zero_centred(slopes: Float[Array, "batch ..."], gamma: float, decisions: int) -> Scalar:
    """`(gamma/2)` times the mean squared length of slopes, for each decision."""
    return gamma / 2 * jnp.square(slopes).sum() / decisions


def one_centred(slopes: Float[Array, "batch ..."], one_sided: bool = False) -> Scalar:
    """The mean of `(|slope| - 1)²`; one-sided, slopes below one are free."""
    beyond = lengths(slopes) - 1
    return jnp.square(jax.nn.relu(beyond) if one_sided else beyond).mean()


def interpolates(
    key: Key, real: Float[Array, "batch ..."], fake: Float[Array, "batch ..."]
) -> Float[Array, "batch ..."]:
    """`u real + (1 - u) fake` with one u between 0 and 1 for each pair."""
    u = jax.random.uniform(key, (len(real), *(1,) * (real.ndim - 1)), real.dtype)
    return u * real + (1 - u) * fake


__all__ = ["interpolates", "lengths", "one_centred", "scores_and_slopes", "zero_centred"]
