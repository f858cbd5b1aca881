"""The distribution over finitely many classes."""

from typing import Any, final

import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Key
from chainrule.probability.distributions.base import Atoms, Distribution, Shape, events
from chainrule.probability.distributions.parameters import exactly_one, floating, probabilities, require
from chainrule.probability.distributions.supports import WholeNumbers


@final
class Categorical(Distribution):
    """One of the numbers 0, 1, ..., with probabilities (or logits) along the last axis.

    >>> round(float(Categorical([0.2, 0.3, 0.5]).log_prob(2)), 4)
    -0.6931
    """

    log_probs: Float[Array, "*batch classes"]

    def __init__(self, probs: Any = None, *, logits: Any = None, normalize: bool = False) -> None:
        """`normalize` divides `probs` by their sum; `logits` need no normalisation."""
        if exactly_one("Categorical", probs=probs, logits=logits) == "probs":
            self.log_probs = _safe_log(probabilities("Categorical: probs", probs, normalize))
        else:
            given = floating(logits)
            given = require(
                "Categorical", "logits", given, lambda v: v < jnp.inf, "be numbers below infinity"
            )
            self.log_probs = jax.nn.log_softmax(given)

    @property
    def probs(self) -> Array:
        """`[*batch, classes]`."""
        return jnp.exp(self.log_probs)

    @property
    def batch_shape(self) -> Shape:
        """All axes but that of the classes."""
        return self.log_probs.shape[:-1]

    @property
    def event_shape(self) -> Shape:
        """Numbers of classes."""
        return ()

    @property
    def support(self) -> WholeNumbers:
        """0 to the number of classes, less one."""
        last = self.log_probs.shape[-1] - 1
        return WholeNumbers(jnp.full(self.batch_shape, last, self.log_probs.dtype))

    @property
    def mean(self) -> Array:
        """Of the number of the class."""
        return (self.probs * self._numbers).sum(axis=-1)

    @property
    def variance(self) -> Array:
        """Of the number of the class."""
        return (self.probs * jnp.square(self._numbers - self.mean[..., None])).sum(axis=-1)

    @property
    def covariance(self) -> Array:
        """The variance."""
        return self.variance

    def log_prob(self, x: Any) -> Float[Array, "..."]:
        """The logarithm of the probability of each class; -inf for what is no class."""
        x = events(self, x)
        inside = self.support.contains(x)
        index = jnp.where(inside, x, 0).astype(jnp.int32)[..., None]
        table = jnp.broadcast_to(self.log_probs, (*x.shape, self.log_probs.shape[-1]))
        found = jnp.take_along_axis(table, index, axis=-1)[..., 0]
        return jnp.where(inside, found, jnp.where(jnp.isnan(x), x, -jnp.inf))

    def draw(self, key: Key, shape: Shape) -> Array:
        """Classes, by their numbers."""
        return jax.random.categorical(key, self.log_probs, shape=shape)

    def entropy(self) -> Float[Array, "*batch"]:
        """`-sum p log p`, with 0 log 0 = 0."""
        return jax.scipy.special.entr(self.probs).sum(axis=-1)

    def atoms(self) -> Atoms:
        """All classes."""
        return Atoms.up_to(self.log_probs.shape[-1] - 1, self)

    @property
    def _numbers(self) -> Array:
        return jnp.broadcast_to(
            jnp.arange(self.log_probs.shape[-1], dtype=self.log_probs.dtype), self.log_probs.shape
        )


def _safe_log(p: Array) -> Array:
    """The logarithm, -inf at zero, with a derivative of zero there."""
    return jnp.where(p > 0, jnp.log(jnp.where(p > 0, p, 1.0)), -jnp.inf)


__all__ = ["Categorical"]
