"""One of several evenly spaced levels: with a logit for each (categorical), or as a count of successes."""

import math
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import betaln

from chainrule.core.types import Array, Float
from chainrule.probability.distributions.outputs.base import ProbableLevels
from chainrule.probability.distributions.special import log_beta

_EXTREME = 5.0
"""Logarithms of the beta distribution's parameters stay within this, smoothly."""


@final
class LevelsOutput(ProbableLevels):
    """One of several evenly spaced levels between 0 and 1; the parameters are their logits."""

    levels: int = eqx.field(static=True)

    @property
    def parameter_count(self) -> int:
        """One for each level."""
        return self.levels

    def log_prob(
        self, parameters: Float[Array, "*entries parameters"], x: Float[Array, "*entries"]
    ) -> Float[Array, "*entries"]:
        """The probability of the nearest level over the distance between levels."""
        level = jnp.rint(x * (self.levels - 1)).astype(jnp.int32)
        chosen = jnp.take_along_axis(jax.nn.log_softmax(parameters), level[..., None], axis=-1)[..., 0]
        return chosen + math.log(self.levels - 1)

    def logits(self, parameters: Float[Array, "*entries parameters"]) -> Float[Array, "*entries levels"]:
        """The parameters."""
        return parameters

    def initial_parameters(self) -> np.ndarray:
        """All levels alike."""
        return np.zeros(self.levels)


@final
class BetaBinomialOutput(ProbableLevels):
    """A level as a number of successes, whose probability has a beta distribution; two parameters, its logarithms.

    With both parameters of the beta distribution at one all levels are alike, below one the ends are likeliest.
    """

    levels: int = eqx.field(static=True)

    @property
    def parameter_count(self) -> int:
        """Two: the (bounded) logarithms of the beta distribution's parameters."""
        return 2

    def log_prob(
        self, parameters: Float[Array, "*entries 2"], x: Float[Array, "*entries"]
    ) -> Float[Array, "*entries"]:
        """`C(n, k) B(k + a, n - k + b) / B(a, b)` of the nearest level `k` of `n`, over the distance of levels."""
        level = jnp.rint(x * (self.levels - 1))
        return self._log_probability(parameters, level) + math.log(self.levels - 1)

    def logits(self, parameters: Float[Array, "*entries 2"]) -> Float[Array, "*entries levels"]:
        """From level to level: `p(k + 1) / p(k) = (n - k) (k + a) / ((k + 1) (n - k - 1 + b))`."""
        a, b = self._shapes(parameters)
        n, below = self.levels - 1, np.arange(self.levels - 1).reshape(*(1,) * a.ndim, -1)
        ways, level = (jnp.asarray(one, a.dtype) for one in (np.log((n - below) / (below + 1)), below))
        steps = ways + jnp.log((level + a[..., None]) / (n - 1 - level + b[..., None]))
        first = jnp.zeros((*a.shape, 1), a.dtype)
        return jax.lax.associative_scan(jnp.add, jnp.concatenate([first, steps], axis=-1), axis=-1)

    def _shapes(self, parameters: Array) -> tuple[Array, Array]:
        a, b = jnp.moveaxis(jnp.exp(_EXTREME * jnp.tanh(parameters / _EXTREME)), -1, 0)
        return a, b

    def _log_probability(self, parameters: Array, level: Array) -> Array:
        a, b = self._shapes(parameters)
        a, b = jnp.broadcast_to(a, level.shape), jnp.broadcast_to(b, level.shape)
        n = self.levels - 1
        # A table in double precision: these are small differences of large numbers.
        ways = jnp.asarray(-np.log(n + 1) - betaln(n - np.arange(n + 1) + 1, np.arange(n + 1) + 1), a.dtype)
        of_level = ways[level.astype(jnp.int32)]
        return of_level + log_beta(level + a, n - level + b) - log_beta(a, b)

    def initial_parameters(self) -> np.ndarray:
        """All levels alike."""
        return np.zeros(2)


__all__ = ["BetaBinomialOutput", "LevelsOutput"]
