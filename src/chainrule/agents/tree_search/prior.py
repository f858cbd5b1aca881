"""Priors before a search and policies after it, shared by the readable and the compiled search."""

from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
from jaxtyping import Bool

from chainrule.agents.games.base import Game
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key


@final
class Noise(NamedTuple):
    """Dirichlet noise on the prior of a root, so that self-play tries every legal move now and then."""

    concentration: float
    """Of the Dirichlet distribution: small for games of many moves, so that few of them get the noise."""
    fraction: float = 0.25
    """Share of the noise: prior = (1 - fraction) p + fraction noise."""

    @classmethod
    def for_game(cls, game: Game[Any]) -> "Noise":
        """The published choice: ten over the number of moves that are legal as a rule."""
        return cls(10 / game.typical_moves)


def check_noise(noise: Noise | None, key: Key | None) -> None:
    """Refuse noise without randomness, and numbers that make none."""
    if noise is None:
        return
    if not noise.concentration > 0 or not 0 <= noise.fraction <= 1:
        raise ArgumentError(f"noise={noise}: needs concentration > 0 and 0 <= fraction <= 1")
    if key is None:
        raise ArgumentError("noise needs a random key", remedy="pass key=jax.random.key(0)")


def legal_prior(
    prior: Float[Array, "*batch actions"], legal: Bool[Array, "*batch actions"]
) -> Float[Array, "*batch actions"]:
    """A prior over legal moves only, normalised; uniform where it gives them nothing."""
    masked = jnp.where(legal, prior, 0)
    total = masked.sum(-1, keepdims=True)
    uniform = legal / legal.sum(-1, keepdims=True)
    return jnp.where(total > 0, masked / jnp.where(total > 0, total, 1), uniform)


def with_noise(
    key: Key, prior: Float[Array, "*batch actions"], legal: Bool[Array, "*batch actions"], noise: Noise
) -> Float[Array, "*batch actions"]:
    """A prior mixed with Dirichlet noise over the legal moves alone."""
    # In logs: gamma variables of a small shape underflow, all of them at times.
    logs = jax.random.loggamma(key, noise.concentration, prior.shape)
    drawn = jax.nn.softmax(jnp.where(legal, logs, -jnp.inf), axis=-1)
    return (1 - noise.fraction) * prior + noise.fraction * drawn


def visit_policy(
    visits: Float[Array, "*batch actions"], temperature: Float[Array, "..."] | float
) -> Float[Array, "*batch actions"]:
    """Proportional to visits^(1 / temperature); at temperature 0 equal shares of the most visited ones.

    >>> print(*(f"{p:.3f}" for p in visit_policy(jnp.array([1.0, 3.0, 0.0]), 1.0)))
    0.250 0.750 0.000
    """
    most = visits.max(-1, keepdims=True)
    # Relative to the largest count, whose logarithm is 0: nothing overflows at low temperatures.
    logs = jnp.log(visits / most) / jnp.where(jnp.asarray(temperature) > 0, temperature, 1)
    cold = jnp.where(visits == most, 0.0, -jnp.inf)
    return jax.nn.softmax(jnp.where(jnp.asarray(temperature) > 0, logs, cold), axis=-1)


__all__ = ["Noise", "check_noise", "legal_prior", "visit_policy", "with_noise"]
