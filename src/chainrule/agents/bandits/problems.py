"""Bandit problems: arms with unknown mean rewards, one of which can be pulled at each step."""

import abc
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Int, Key, Scalar


class BanditProblem(eqx.Module):
    """Arms; a batch of problems is the same with leading axes, for `jax.vmap`."""

    means: eqx.AbstractVar[Float[Array, "*batch arms"]]

    @abc.abstractmethod
    def reward(self, key: Key, arm: Int[Array, ""]) -> Scalar:
        """The reward of one pull."""

    @abc.abstractmethod
    def divergences(self) -> Float[Array, "arms"]:
        """Kullback-Leibler divergence of the rewards of each arm from those of the best one, in nats."""

    @final
    def gaps(self) -> Float[Array, "arms"]:
        """By how much each arm is worse than the best."""
        return self.means.max() - self.means

    @final
    def least_regret(self) -> Scalar:
        """What regret must grow by with the logarithm of time, for whoever is good on all problems (Lai, Robbins)."""
        gaps = self.gaps()
        worse = gaps > 0
        return jnp.where(worse, gaps / jnp.where(worse, self.divergences(), 1.0), 0.0).sum()


@final
class NormalArms(BanditProblem):
    """Rewards are normal around the mean of the arm.

    >>> float(NormalArms(jnp.array([0.0, 1.0])).least_regret())
    2.0
    """

    means: Float[Array, "*batch arms"]
    scale: Any = 1.0

    def reward(self, key: Key, arm: Int[Array, ""]) -> Scalar:
        return entry_of(self.means, arm) + self.scale * jax.random.normal(key)

    def divergences(self) -> Float[Array, "arms"]:
        return jnp.square(self.gaps() / self.scale) / 2


@final
class BernoulliArms(BanditProblem):
    """Rewards are 1 with the probability of the arm, else 0."""

    means: Float[Array, "*batch arms"]

    def reward(self, key: Key, arm: Int[Array, ""]) -> Scalar:
        return (jax.random.uniform(key) < entry_of(self.means, arm)).astype(jnp.float32)

    def divergences(self) -> Float[Array, "arms"]:
        p, best = self.means, self.means.max()
        return jax.scipy.special.rel_entr(p, jnp.full_like(p, best)) + jax.scipy.special.rel_entr(
            1 - p, jnp.full_like(p, 1 - best)
        )


def entry_of(numbers: Float[Array, "arms"], arm: Int[Array, ""]) -> Scalar:
    """The number of one arm: of many runs side by side, a sum over all arms is quicker than looking one up."""
    return jnp.where(jnp.arange(len(numbers)) == arm, numbers, 0.0).sum()


__all__ = ["BanditProblem", "BernoulliArms", "NormalArms", "entry_of"]
