"""What the states of a hidden Markov model emit, as arrays of a model: normal vectors, or one of several levels."""

import abc
import math
from collections.abc import Sequence
from typing import Any, Self, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import scipy.special
from jaxtyping import Float

from chainrule.core.types import Array, Key
from chainrule.probability import Categorical, Diagonal, Distribution, HiddenMarkov, MultivariateNormal
from chainrule.probability.markov.starting import guess_gaussians, guess_symbols


class StateEmission(eqx.Module):
    """The emissions of all states, and how examples are read as what they emit."""

    @abc.abstractmethod
    def distribution(self) -> Distribution:
        """One for each state."""

    @abc.abstractmethod
    def fitted(self, distribution: Any) -> Self:
        """The same with the parameters of a distribution."""

    @abc.abstractmethod
    def read(self, x: Any) -> Any:
        """Examples `[batch, time, features]` as sequences of what states emit."""

    @abc.abstractmethod
    def written(self, y: Array) -> Float[Array, "batch time features"]:
        """The inverse of `read`."""

    @abc.abstractmethod
    def log_unit(self, time: int) -> float:
        """What turns a log-probability of a sequence of this length into a log-density in model units."""

    @abc.abstractmethod
    def guess(self, key: Key, states: int, y: np.ndarray) -> HiddenMarkov:
        """Where training begins."""

    @abc.abstractmethod
    def quantiles(
        self, weights: Float[np.ndarray, "batch steps states"], levels: Sequence[float]
    ) -> Float[np.ndarray, "levels batch steps features"]:
        """Quantiles of mixtures of what the states emit, in model units."""

    @abc.abstractmethod
    def curves(self) -> tuple[np.ndarray, np.ndarray]:
        """Values of the first feature, and the density or probability of each by state: what a picture shows."""


@final
class NormalStates(StateEmission):
    """Vectors: a normal distribution for each state."""

    means: Float[Array, "states features"]
    covariances: Float[Array, "states features features"]
    diagonal: bool = eqx.field(static=True)

    def __init__(self, states: int, features: int, diagonal: bool) -> None:
        self.means = jnp.zeros((states, features))
        self.covariances = jnp.tile(jnp.eye(features)[None], (states, 1, 1))
        self.diagonal = diagonal or features == 1

    def distribution(self) -> Distribution:
        """With full or diagonal covariances."""
        if self.diagonal:
            return MultivariateNormal(
                self.means, Diagonal(jnp.diagonal(self.covariances, axis1=-2, axis2=-1))
            )
        return MultivariateNormal(self.means, self.covariances)

    def fitted(self, distribution: Any) -> "NormalStates":
        """Its means and covariances."""
        found = (jnp.asarray(distribution.mean), jnp.asarray(distribution.covariance))
        return eqx.tree_at(lambda one: (one.means, one.covariances), self, found)

    def read(self, x: Any) -> Any:
        """As they are."""
        return x

    def written(self, y: Array) -> Float[Array, "batch time features"]:
        """As they are."""
        return y

    def log_unit(self, time: int) -> float:
        """It is one already."""
        del time
        return 0.0

    def guess(self, key: Key, states: int, y: np.ndarray) -> HiddenMarkov:
        """A state for each cluster; covariances as full or diagonal as they are to be."""
        found = guess_gaussians(key, states, y)
        start = self.fitted(found.emission)
        return HiddenMarkov(found.start, found.transition, start.distribution())

    def quantiles(
        self, weights: Float[np.ndarray, "batch steps states"], levels: Sequence[float]
    ) -> Float[np.ndarray, "levels batch steps features"]:
        """By bisection of the distribution functions."""
        mean = np.asarray(self.means, np.float64)
        scale = np.sqrt(np.diagonal(np.asarray(self.covariances, np.float64), axis1=1, axis2=2))
        wanted = np.asarray(levels, np.float64).reshape(-1, 1, 1, 1)
        shape = (len(wanted), *weights.shape[:2], mean.shape[1])
        low, high = (
            np.broadcast_to(end, shape) for end in ((mean - 9 * scale).min(0), (mean + 9 * scale).max(0))
        )
        for _ in range(60):
            middle = (low + high) / 2
            below = scipy.special.ndtr((middle[..., None, :] - mean) / scale)
            short = np.einsum("bts,lbtsf->lbtf", weights, below) < wanted
            low, high = np.where(short, middle, low), np.where(short, high, middle)
        return (low + high) / 2

    def curves(self) -> tuple[np.ndarray, np.ndarray]:
        """Densities of the first feature."""
        mean = np.asarray(self.means[:, 0])
        scale = np.sqrt(np.asarray(self.covariances[:, 0, 0]))
        at = np.linspace((mean - 4 * scale).min(), (mean + 4 * scale).max(), 401)
        z = (at[None] - mean[:, None]) / scale[:, None]
        return at, np.exp(-0.5 * z**2) / (scale[:, None] * math.sqrt(2 * math.pi))


@final
class LevelStates(StateEmission):
    """Levels, one of which is emitted at each time: probabilities of each for each state."""

    probs: Float[Array, "states levels"]

    def __init__(self, states: int, levels: int) -> None:
        self.probs = jnp.full((states, levels), 1 / levels)

    def distribution(self) -> Distribution:
        """Over the levels."""
        return Categorical(self.probs / self.probs.sum(axis=-1, keepdims=True))

    def fitted(self, distribution: Any) -> "LevelStates":
        """Its probabilities."""
        return eqx.tree_at(lambda one: one.probs, self, jnp.asarray(distribution.probs))

    def read(self, x: Any) -> Any:
        """Model units are level / (levels - 1)."""
        return jnp.round(x[..., 0] * (self.probs.shape[1] - 1)).astype(jnp.int32)

    def written(self, y: Array) -> Float[Array, "batch time features"]:
        """In model units."""
        return (y / (self.probs.shape[1] - 1)).astype(self.probs.dtype)[..., None]

    def log_unit(self, time: int) -> float:
        """A density is a probability over the distance between two levels."""
        return time * math.log(self.probs.shape[1] - 1)

    def guess(self, key: Key, states: int, y: np.ndarray) -> HiddenMarkov:
        """Frequencies, pulled apart."""
        return guess_symbols(key, states, np.bincount(np.ravel(y), minlength=self.probs.shape[1]))

    def quantiles(
        self, weights: Float[np.ndarray, "batch steps states"], levels: Sequence[float]
    ) -> Float[np.ndarray, "levels batch steps features"]:
        """The first level up to which there is enough probability."""
        below = np.cumsum(weights @ np.asarray(self.probs, np.float64), axis=-1)
        last = below.shape[-1] - 1
        found = [np.minimum((below < level).sum(axis=-1), last) / last for level in levels]
        return np.stack(found)[..., None]

    def curves(self) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities of the levels."""
        return np.arange(self.probs.shape[1], dtype=float), np.asarray(self.probs)


__all__ = ["LevelStates", "NormalStates", "StateEmission"]
