"""The distribution of zero or one."""

from typing import Any, final

import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Key
from chainrule.probability.distributions.base import Atoms, Univariate
from chainrule.probability.distributions.parameters import exactly_one, floating, require, unit
from chainrule.probability.distributions.supports import WholeNumbers


@final
class Bernoulli(Univariate):
    """One with probability `probs`, or with log-odds `logits`; zero otherwise.

    >>> round(float(Bernoulli(0.25).log_prob(0)), 4)
    -0.2877
    """

    logits: Float[Array, "*batch"]

    def __init__(self, probs: Any = None, *, logits: Any = None) -> None:
        self.logits = log_odds("Bernoulli", probs, logits)

    @property
    def probs(self) -> Array:
        """The probability of a one."""
        return jax.nn.sigmoid(self.logits)

    @property
    def support(self) -> WholeNumbers:
        """0 and 1."""
        return WholeNumbers(jnp.ones_like(self.logits))

    @property
    def mean(self) -> Array:
        """The probability of a one."""
        return self.probs

    @property
    def variance(self) -> Array:
        """`p (1 - p)`."""
        return self.probs * jax.nn.sigmoid(-self.logits)

    def log_density(self, x: Array) -> Array:
        """The logarithm of p or of 1 - p."""
        return jax.nn.log_sigmoid(jnp.where(x == 1, self.logits, -self.logits))

    def draw_each(self, key: Key) -> Array:
        """A coin."""
        return jax.random.bernoulli(key, self.probs).astype(jnp.int32)

    def entropy(self) -> Float[Array, "*batch"]:
        """`-p log p - (1 - p) log(1 - p)`."""
        p, other = self.probs, jax.nn.sigmoid(-self.logits)
        return jax.scipy.special.entr(p) + jax.scipy.special.entr(other)

    def atoms(self) -> Atoms:
        """0 and 1."""
        return Atoms.up_to(1, self)


def log_odds(where: str, probs: Any, logits: Any) -> Array:
    """Log-odds from the one of the two that was given."""
    if exactly_one(where, probs=probs, logits=logits) == "logits":
        return require(where, "logits", floating(logits), lambda v: abs(v) <= jnp.inf, "be numbers")
    p = unit(where, "probs", floating(probs))
    return jnp.log(p) - jnp.log1p(-p)


__all__ = ["Bernoulli", "log_odds"]
