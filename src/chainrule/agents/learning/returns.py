"""Kinds of returns: what the numbers that a network has for an action say about the return that follows it.

Either its expectation (Mnih et al., 2015), or its distribution: probabilities of fixed values (Bellemare et al., 2017),
or values of fixed probabilities (Dabney et al., 2018). Targets are held fixed in all of them: no gradient passes
through what follows.
"""

import abc
from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float
from chainrule.nn.losses import cross_entropy, huber


class JudgedReturns(NamedTuple):
    """How far predictions are from what followed, one number for each step."""

    losses: Float[Array, " batch"]
    errors: Float[Array, " batch"]
    """Temporal differences: target less prediction, of expected returns."""


class Returns(eqx.Module):
    """A kind of returns."""

    @property
    @abc.abstractmethod
    def numbers(self) -> int:
        """Numbers that a network has for each action."""

    @abc.abstractmethod
    def values(self, outputs: Float[Array, "... numbers"]) -> Float[Array, "..."]:
        """The expected return."""

    @abc.abstractmethod
    def judged(
        self,
        predicted: Float[Array, "batch numbers"],
        following: Float[Array, "batch numbers"],
        rewards: Float[Array, " batch"],
        discounts: Float[Array, " batch"],
    ) -> JudgedReturns:
        """Predictions held against `rewards + discounts * following`, in which nothing is differentiated."""


@final
class ExpectedReturns(Returns):
    """One number, the expected return: half the squared error, or a straight line beyond an error of 1 (`robust`)."""

    robust: bool = eqx.field(static=True, default=False)

    @property
    def numbers(self) -> int:
        return 1

    def values(self, outputs: Float[Array, "... numbers"]) -> Float[Array, "..."]:
        return outputs[..., 0]

    def judged(
        self,
        predicted: Float[Array, "batch numbers"],
        following: Float[Array, "batch numbers"],
        rewards: Float[Array, " batch"],
        discounts: Float[Array, " batch"],
    ) -> JudgedReturns:
        target = jax.lax.stop_gradient(rewards + discounts * following[:, 0])
        errors = target - predicted[:, 0]
        return JudgedReturns(huber(predicted[:, 0], target) if self.robust else 0.5 * errors**2, errors)


@final
class CategoricalReturns(Returns):
    """Logits of `atoms` equally spaced returns from `low` to `high`."""

    low: float = eqx.field(static=True)
    high: float = eqx.field(static=True)
    atoms: int = eqx.field(static=True)

    @property
    def numbers(self) -> int:
        return self.atoms

    @property
    def support(self) -> Float[Array, " atoms"]:
        """The returns that probabilities are given to."""
        return jnp.linspace(self.low, self.high, self.atoms)

    def values(self, outputs: Float[Array, "... numbers"]) -> Float[Array, "..."]:
        return jax.nn.softmax(outputs) @ self.support

    def projected(
        self, probabilities: Float[Array, "batch atoms"], rewards: Array, discounts: Array
    ) -> Float[Array, "batch atoms"]:
        """The distribution of `reward + discount * return` on the same atoms: mass is shared by the nearest two."""
        moved = jnp.clip(rewards[:, None] + discounts[:, None] * self.support[None, :], self.low, self.high)
        apart = (self.high - self.low) / (self.atoms - 1)
        # A hat around each atom: 1 on it, 0 on its neighbours.
        share = jnp.clip(1 - jnp.abs(moved[:, None, :] - self.support[None, :, None]) / apart, 0, 1)
        return jnp.einsum("bij,bj->bi", share, probabilities)

    def judged(
        self,
        predicted: Float[Array, "batch numbers"],
        following: Float[Array, "batch numbers"],
        rewards: Float[Array, " batch"],
        discounts: Float[Array, " batch"],
    ) -> JudgedReturns:
        target = jax.lax.stop_gradient(self.projected(jax.nn.softmax(following), rewards, discounts))
        return JudgedReturns(cross_entropy(predicted, target), target @ self.support - self.values(predicted))


@final
class QuantileReturns(Returns):
    """Returns that are not exceeded with probability (i + 1/2)/n; their mean is the expectation."""

    quantiles: int = eqx.field(static=True)

    @property
    def numbers(self) -> int:
        return self.quantiles

    def values(self, outputs: Float[Array, "... numbers"]) -> Float[Array, "..."]:
        return outputs.mean(-1)

    def judged(
        self,
        predicted: Float[Array, "batch numbers"],
        following: Float[Array, "batch numbers"],
        rewards: Float[Array, " batch"],
        discounts: Float[Array, " batch"],
    ) -> JudgedReturns:
        target = jax.lax.stop_gradient(rewards[:, None] + discounts[:, None] * following)
        differences = target[:, None, :] - predicted[:, :, None]
        levels = (jnp.arange(self.quantiles) + 0.5) / self.quantiles
        near = jnp.minimum(jnp.abs(differences), 1.0)
        rounded = near * (jnp.abs(differences) - 0.5 * near)
        tilted = jnp.abs(levels[None, :, None] - (differences < 0)) * rounded
        return JudgedReturns(tilted.mean(2).sum(1), target.mean(1) - predicted.mean(1))


__all__ = ["CategoricalReturns", "ExpectedReturns", "JudgedReturns", "QuantileReturns", "Returns"]
