"""Strategies for bandits: which arm to pull, given what the arms have paid so far.

Reference: Sutton and Barto, Reinforcement Learning, 2018, chapter 2; Auer, Cesa-Bianchi and Fischer, Finite-time
analysis of the multiarmed bandit problem, 2002 (UCB1); Thompson, 1933; Williams, 1992 (gradients).
"""

import abc
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.agents.learning import exploration
from chainrule.core.types import Array, Float, Int, Key, Scalar, Tree


class BanditStrategy(eqx.Module):
    """A rule of choosing arms; its numbers are leaves, so that a grid of them runs side by side."""

    @abc.abstractmethod
    def start(self, arms: int) -> Tree:
        """What it knows before the first pull."""

    @abc.abstractmethod
    def choose(self, key: Key, known: Tree) -> Int[Array, ""]:
        """The arm to pull."""

    @abc.abstractmethod
    def learn(self, known: Tree, arm: Int[Array, ""], reward: Scalar) -> Tree:
        """What it knows after a pull."""


class ArmRecords(NamedTuple):
    """How often each arm was pulled, and what it is believed to pay."""

    pulls: Float[Array, "arms"]
    means: Float[Array, "arms"]

    def after(self, arm: Array, reward: Array, rate: Any = None) -> "ArmRecords":
        """With one more pull: averages, or with a rate averages that forget."""
        pulled = _pulled(arm, self.pulls)
        pulls = self.pulls + pulled
        size = 1.0 / jnp.maximum(pulls, 1.0) if rate is None else rate
        return ArmRecords(pulls, self.means + pulled * size * (reward - self.means))


@final
class EpsilonGreedyArms(BanditStrategy):
    """The arm that looks best, or with probability epsilon any.

    `initial` is what every arm is believed to pay before it is pulled: far too much makes all of them worth a try
    without any epsilon, all the longer with a constant `rate`.
    """

    epsilon: Any = 0.1
    initial: Any = 0.0
    rate: Any = None

    def start(self, arms: int) -> ArmRecords:
        return ArmRecords(jnp.zeros(arms), jnp.full(arms, self.initial, jnp.float32))

    def choose(self, key: Key, known: ArmRecords) -> Array:
        return exploration.epsilon_greedy(key, known.means, self.epsilon)

    def learn(self, known: ArmRecords, arm: Array, reward: Array) -> ArmRecords:
        return known.after(arm, reward, self.rate)


@final
class UCB1(BanditStrategy):
    """The arm that could be best: its mean plus scale * sqrt(2 ln t / pulls); every arm is tried once.

    `scale` is the range of the rewards, or their standard deviation where they are normal.
    """

    scale: Any = 1.0

    def start(self, arms: int) -> ArmRecords:
        return ArmRecords(jnp.zeros(arms), jnp.zeros(arms))

    def choose(self, key: Key, known: ArmRecords) -> Array:
        del key
        return jnp.argmax(self.bounds(known))

    def bounds(self, known: ArmRecords) -> Float[Array, "arms"]:
        """What each arm could pay; infinite for one that was never pulled."""
        time = jnp.maximum(known.pulls.sum(), 1.0)
        width = self.scale * jnp.sqrt(2 * jnp.log(time) / jnp.maximum(known.pulls, 1.0))
        return jnp.where(known.pulls > 0, known.means + width, jnp.inf)

    def learn(self, known: ArmRecords, arm: Array, reward: Array) -> ArmRecords:
        return known.after(arm, reward)


@final
class ThompsonNormal(BanditStrategy):
    """The best arm of a world drawn from the posterior: normal rewards of known spread, normal prior around 0."""

    scale: Any = 1.0
    """Standard deviation of rewards."""
    prior: Any = 1.0
    """Standard deviation of means, before anything is known."""

    def start(self, arms: int) -> ArmRecords:
        return ArmRecords(jnp.zeros(arms), jnp.zeros(arms))

    def posterior(self, known: ArmRecords) -> tuple[Float[Array, "arms"], Float[Array, "arms"]]:
        """Mean and standard deviation of what each arm pays."""
        precision = 1 / self.prior**2 + known.pulls / self.scale**2
        return known.pulls / self.scale**2 * known.means / precision, precision**-0.5

    def choose(self, key: Key, known: ArmRecords) -> Array:
        mean, deviation = self.posterior(known)
        return jnp.argmax(mean + deviation * jax.random.normal(key, mean.shape))

    def learn(self, known: ArmRecords, arm: Array, reward: Array) -> ArmRecords:
        return known.after(arm, reward)


class CoinRecords(NamedTuple):
    """Wins and losses of each arm, those of the prior included."""

    wins: Float[Array, "arms"]
    losses: Float[Array, "arms"]


@final
class ThompsonBernoulli(BanditStrategy):
    """The best arm of a world drawn from the posterior: rewards 0 and 1, a Beta prior for each arm."""

    wins: Any = 1.0
    losses: Any = 1.0

    def start(self, arms: int) -> CoinRecords:
        return CoinRecords(jnp.full(arms, self.wins, jnp.float32), jnp.full(arms, self.losses, jnp.float32))

    def choose(self, key: Key, known: CoinRecords) -> Array:
        return jnp.argmax(jax.random.beta(key, known.wins, known.losses))

    def learn(self, known: CoinRecords, arm: Array, reward: Array) -> CoinRecords:
        pulled = _pulled(arm, known.wins)
        return CoinRecords(known.wins + pulled * reward, known.losses + pulled * (1 - reward))


class Preferences(NamedTuple):
    """Logits of the arms; and the average reward so far, what a reward is compared with."""

    logits: Float[Array, "arms"]
    average: Scalar
    pulls: Scalar


@final
class GradientBandit(BanditStrategy):
    """Softmax of preferences that climb the gradient of the expected reward, one pull at a time."""

    rate: Any = 0.1
    baseline: bool = eqx.field(static=True, default=True)
    """Whether rewards are compared with their average: the same gradient on average, with less noise."""

    def start(self, arms: int) -> Preferences:
        return Preferences(jnp.zeros(arms), jnp.zeros(()), jnp.zeros(()))

    def choose(self, key: Key, known: Preferences) -> Array:
        return exploration.softmax(key, known.logits, 1.0)

    def learn(self, known: Preferences, arm: Array, reward: Array) -> Preferences:
        pulls = known.pulls + 1
        average = known.average + (reward - known.average) / pulls
        compared = reward - average if self.baseline else reward
        policy = jax.nn.softmax(known.logits)
        step = self.rate * compared * (_pulled(arm, policy) - policy)
        return Preferences(known.logits + step, average, pulls)


def _pulled(arm: Array, like: Float[Array, "arms"]) -> Float[Array, "arms"]:
    """1 for the arm, 0 for all others: of many runs side by side, sums of all arms are quicker than writes to one."""
    return (jnp.arange(len(like)) == arm).astype(like.dtype)


__all__ = [
    "UCB1",
    "ArmRecords",
    "BanditStrategy",
    "CoinRecords",
    "EpsilonGreedyArms",
    "GradientBandit",
    "Preferences",
    "ThompsonBernoulli",
    "ThompsonNormal",
]
