"""What an output distribution is: a family of distributions of one number, whose parameters a network gives."""

import abc
from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.types import Array, ArrayLike, Float, Key

COLDEST = 1e-9
"""A temperature at which the smallest difference of logits in single precision decides."""


@final
class EntryRange(NamedTuple):
    """Numbers from `low` to `high`, both included."""

    low: float
    high: float

    def __str__(self) -> str:
        """As in a formula.

        >>> print(EntryRange(0, 1), EntryRange(0, float("inf")))
        [0,1] [0,inf)
        """
        return (
            ("(" if self.low == -np.inf else "[")
            + f"{self.low:g},{self.high:g}"
            + (")" if self.high == np.inf else "]")
        )


LINE = EntryRange(-np.inf, np.inf)
UNIT = EntryRange(0.0, 1.0)


class OutputDistribution(eqx.Module):
    """A family of distributions of one number; its parameters are arguments, the last axis of an array."""

    @property
    @abc.abstractmethod
    def parameter_count(self) -> int:
        """How many parameters an entry has."""

    @abc.abstractmethod
    def log_prob(
        self, parameters: Float[Array, "*entries parameters"], x: Float[Array, "*entries"]
    ) -> Float[Array, "*entries"]:
        """Log-density of each entry."""

    @abc.abstractmethod
    def sample(
        self,
        parameters: Float[Array, "*entries parameters"],
        key: Key,
        temperature: Float[ArrayLike, ""] = 1.0,
    ) -> Float[Array, "*entries"]:
        """One value for each entry, from the distribution to the power `1 / temperature`; at 0 the likeliest."""

    @abc.abstractmethod
    def mean(self, parameters: Float[Array, "*entries parameters"]) -> Float[Array, "*entries"]:
        """The expected value of each entry."""

    @abc.abstractmethod
    def initial_parameters(self) -> np.ndarray:
        """Parameters to begin training with."""

    def parameters_around(
        self, mean: Float[np.ndarray, "*entries"]
    ) -> Float[np.ndarray, "*entries parameters"]:
        """Default: parameters to begin with say nothing of the mean of an entry."""
        start = self.initial_parameters()
        return np.broadcast_to(start, (*mean.shape, len(start)))

    @property
    def support(self) -> EntryRange:
        """Default: entries lie anywhere."""
        return LINE

    @property
    def probable_levels(self) -> int:
        """Default: 0, it is a density; otherwise how many evenly spaced levels from 0 to 1 have a probability."""
        return 0

    def is_likelihood_of(self, levels: int) -> bool:
        """Whether `log_prob` is a log-likelihood of data with so many levels (0: of continuous data).

        Probabilities are one of data with exactly these levels; the cross-entropy of other values between is not. A
        density is one of continuous data, and of levels once noise fills the gaps between them (`dequantized`).
        """
        return self.probable_levels in (0, levels)


class Located(OutputDistribution):
    """A family whose first parameter is the mean, or nearly so."""

    def parameters_around(
        self, mean: Float[np.ndarray, "*entries"]
    ) -> Float[np.ndarray, "*entries parameters"]:
        """Parameters to begin with, moved to the mean of each entry."""
        start = np.tile(self.initial_parameters(), (*mean.shape, 1))
        start[..., 0] = mean
        return start


class ProbableLevels(OutputDistribution):
    """A family of distributions of evenly spaced levels between 0 and 1, all of which can be listed.

    Listing takes as much memory as an entry has levels; `log_prob`, which training needs, does without.
    """

    levels: eqx.AbstractVar[int]

    @abc.abstractmethod
    def logits(self, parameters: Float[Array, "*entries parameters"]) -> Float[Array, "*entries levels"]:
        """The logarithm of the probability of every level, up to a number that all levels share."""

    @property
    def support(self) -> EntryRange:
        """From the lowest level to the highest."""
        return UNIT

    @property
    def probable_levels(self) -> int:
        """As many as it was made for."""
        return self.levels

    def sample(
        self,
        parameters: Float[Array, "*entries parameters"],
        key: Key,
        temperature: Float[ArrayLike, ""] = 1.0,
    ) -> Float[Array, "*entries"]:
        """One of the levels."""
        chosen = jax.random.categorical(key, tempered(self.logits(parameters), temperature))
        return chosen.astype(parameters.dtype) / (self.levels - 1)

    def mean(self, parameters: Float[Array, "*entries parameters"]) -> Float[Array, "*entries"]:
        """The mean over the levels."""
        levels = jnp.linspace(0, 1, self.levels, dtype=parameters.dtype)
        return jax.nn.softmax(self.logits(parameters)) @ levels


def tempered(logits: Array, temperature: Float[ArrayLike, ""]) -> Array:
    """Logits over the temperature; instead of zero, which would make them infinite, next to nothing."""
    return logits / jnp.maximum(jnp.asarray(temperature, logits.dtype), COLDEST)


__all__ = ["LINE", "UNIT", "EntryRange", "Located", "OutputDistribution", "ProbableLevels", "tempered"]
