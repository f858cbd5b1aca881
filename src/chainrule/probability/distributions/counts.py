"""Distributions of counts: successes in trials, events in a span of time."""

import math
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import entr

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.probability.distributions.base import Atoms, Univariate
from chainrule.probability.distributions.bernoulli import log_odds
from chainrule.probability.distributions.parameters import broadcast, positive
from chainrule.probability.distributions.special import log_beta, log_poisson
from chainrule.probability.distributions.supports import WholeNumbers


@final
class Binomial(Univariate):
    """The number of successes in `trials`, each with probability `probs` or log-odds `logits`.

    >>> round(float(Binomial(4, 0.5).log_prob(2)), 4)  # log(6 / 16)
    -0.9808
    """

    logits: Float[Array, "*batch"]
    trials: Float[Array, "*batch"]
    most: int = eqx.field(static=True)

    def __init__(self, trials: Any, probs: Any = None, *, logits: Any = None) -> None:
        counts, self.most = _trials("Binomial", trials)
        odds = log_odds("Binomial", probs, logits)
        self.logits, self.trials = broadcast("Binomial", probs=odds, trials=counts)

    @property
    def probs(self) -> Array:
        """The probability of a success."""
        return jax.nn.sigmoid(self.logits)

    @property
    def support(self) -> WholeNumbers:
        """0 to the number of trials."""
        return WholeNumbers(self.trials)

    @property
    def mean(self) -> Array:
        """`n p`."""
        return self.trials * self.probs

    @property
    def variance(self) -> Array:
        """`n p (1 - p)`."""
        return self.trials * self.probs * jax.nn.sigmoid(-self.logits)

    def log_density(self, x: Array) -> Array:
        """The logarithm of `(n choose x) p^x (1 - p)^(n - x)`, with 0^0 = 1."""
        hits, misses = x, self.trials - x
        logs = jax.nn.log_sigmoid(self.logits), jax.nn.log_sigmoid(-self.logits)
        # An impossible outcome that did not happen: 0 times -inf is 0 here.
        kept = [
            jnp.where(n > 0, n * jnp.where(n > 0, log, 0.0), 0.0)
            for n, log in zip((hits, misses), logs, strict=True)
        ]
        return _log_choose(self.trials, x) + kept[0] + kept[1]

    def draw_each(self, key: Key) -> Array:
        """Successes."""
        return jax.random.binomial(key, self.trials, self.probs, dtype=self.dtype).astype(jnp.int32)

    def entropy(self) -> Float[Array, "*batch"]:
        """By enumeration."""
        return self.atoms().entropy(self)

    def atoms(self) -> Atoms:
        """0 to the number of trials."""
        return Atoms.up_to(self.most, self)


@final
class BetaBinomial(Univariate):
    """The number of successes in `trials` whose common probability was drawn from Beta(alpha, beta).

    >>> round(float(BetaBinomial(4, 1.0, 1.0).log_prob(3)), 4)  # all five counts alike
    -1.6094
    """

    alpha: Float[Array, "*batch"]
    beta: Float[Array, "*batch"]
    trials: Float[Array, "*batch"]
    most: int = eqx.field(static=True)

    def __init__(self, trials: Any, alpha: Any, beta: Any) -> None:
        counts, self.most = _trials("BetaBinomial", trials)
        alpha, beta, self.trials = broadcast("BetaBinomial", alpha=alpha, beta=beta, trials=counts)
        self.alpha = positive("BetaBinomial", "alpha", alpha)
        self.beta = positive("BetaBinomial", "beta", beta)

    @property
    def support(self) -> WholeNumbers:
        """0 to the number of trials."""
        return WholeNumbers(self.trials)

    @property
    def mean(self) -> Array:
        """`n alpha / (alpha + beta)`."""
        return self.trials * self.alpha / (self.alpha + self.beta)

    @property
    def variance(self) -> Array:
        """`n p (1 - p) (alpha + beta + n) / (alpha + beta + 1)`, p the mean probability."""
        total = self.alpha + self.beta
        spread = self.alpha * self.beta / jnp.square(total)
        return self.trials * spread * (total + self.trials) / (total + 1)

    def log_density(self, x: Array) -> Array:
        """The logarithm of `(n choose x) B(x + alpha, n - x + beta) / B(alpha, beta)`."""
        ratio = log_beta(x + self.alpha, self.trials - x + self.beta) - log_beta(self.alpha, self.beta)
        return _log_choose(self.trials, x) + ratio

    def draw_each(self, key: Key) -> Array:
        """A probability, then successes."""
        first, then = jax.random.split(key)
        probs = jax.random.beta(first, self.alpha, self.beta, dtype=self.dtype)
        return jax.random.binomial(then, self.trials, probs, dtype=self.dtype).astype(jnp.int32)

    def entropy(self) -> Float[Array, "*batch"]:
        """By enumeration."""
        return self.atoms().entropy(self)

    def atoms(self) -> Atoms:
        """0 to the number of trials."""
        return Atoms.up_to(self.most, self)


@final
class Poisson(Univariate):
    """The number of events where `rate` are expected, and they come independently.

    >>> round(float(Poisson(2.0).log_prob(0)), 4)
    -2.0
    """

    rate: Float[Array, "*batch"]

    def __init__(self, rate: Any) -> None:
        (rate,) = broadcast("Poisson", rate=rate)
        self.rate = positive("Poisson", "rate", rate)

    @property
    def support(self) -> WholeNumbers:
        """All counts."""
        return WholeNumbers(jnp.full_like(self.rate, jnp.inf))

    @property
    def mean(self) -> Array:
        """The rate."""
        return self.rate

    @property
    def variance(self) -> Array:
        """The rate."""
        return self.rate

    def log_density(self, x: Array) -> Array:
        """`x log rate - rate - log x!`."""
        return log_poisson(x, self.rate)

    def draw_each(self, key: Key) -> Array:
        """Counts."""
        return jax.random.poisson(key, self.rate)

    def entropy(self) -> Float[Array, "*batch"]:
        """The sum over counts up to a rate of 1000, from there on its asymptotic series (both to 1e-10)."""
        small = jnp.minimum(self.rate, _LARGE_RATE)
        counts = jnp.arange(_LARGE_RATE + 20 * math.isqrt(_LARGE_RATE)).reshape(-1, *(1,) * small.ndim)
        logs = eqx.tree_at(lambda one: one.rate, self, small).log_prob(counts)
        large = jnp.maximum(self.rate, _LARGE_RATE)
        series = 0.5 * jnp.log(2 * math.pi * math.e * large)
        series -= (1 / 12 + (1 / 24 + 19 / 360 / large) / large) / large
        return jnp.where(self.rate < _LARGE_RATE, entr(jnp.exp(logs)).sum(axis=0), series)


_LARGE_RATE = 1000


def _log_choose(n: Array, k: Array) -> Array:
    """The logarithm of the binomial coefficient."""
    return -jnp.log1p(n) - log_beta(n - k + 1, k + 1)


def _trials(where: str, value: Any) -> tuple[np.ndarray, int]:
    """Numbers of trials and the largest of them, which decides how many outcomes there are."""
    if isinstance(value, jax.core.Tracer):
        raise ArgumentError(
            f"{where}: trials must be known before a function is compiled",
            remedy="give trials from outside of it, or make the distribution outside",
        )
    counts = np.asarray(value)
    if counts.dtype == bool or counts.size == 0 or not (counts == np.floor(counts)).all() or counts.min() < 0:
        raise ArgumentError(f"{where}(trials={value}): trials must be whole numbers of at least 0")
    return counts, int(counts.max())


__all__ = ["BetaBinomial", "Binomial", "Poisson"]
