"""Distributions over actions: what the numbers that a network puts out mean, for each kind of space.

A network puts out a vector; an `ActionDistribution` makes a distribution of it. Draws are a function of those numbers
and of noise that does not depend on them, so that the noise of a whole stretch of time is made at once. What is drawn
is kept as it was drawn: of bounded continuous actions that is the number before it is squashed, with which the density
is exact however close to a bound the action lies.
"""

import abc
import math
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.agents.envs.spaces import Box, Discrete, MultiDiscrete, Space
from chainrule.agents.learning.base import Decision, Policy
from chainrule.agents.learning.networks import ActorCritic
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key, Tree

_NEVER = -1e9
"""The logit of an action that is not legal: its probability is exactly 0, and its share of an entropy too."""


class ActionDistribution(eqx.Module):
    """What numbers mean: any leading axes, then the numbers of one distribution."""

    @property
    @abc.abstractmethod
    def outputs(self) -> int:
        """How many numbers depend on the observation."""

    @property
    @abc.abstractmethod
    def free(self) -> int:
        """How many numbers follow them that do not."""

    @abc.abstractmethod
    def noise(self, key: Key, shape: tuple[int, ...]) -> Array:
        """Noise for a draw at each of `shape`."""

    @abc.abstractmethod
    def draw(self, numbers: Array, noise: Array) -> Array:
        """A draw, before it is an action."""

    @abc.abstractmethod
    def mode(self, numbers: Array) -> Array:
        """What is most probable, before it is an action."""

    @abc.abstractmethod
    def action(self, drawn: Array) -> Array:
        """The action that a draw means."""

    def drawn(self, action: Array) -> Array:
        """Default: the draw that means an action is the action itself."""
        return action

    @abc.abstractmethod
    def log_prob(self, numbers: Array, drawn: Array) -> Array:
        """The logarithm of the probability, or density, of the action that a draw means."""

    @abc.abstractmethod
    def entropy(self, numbers: Array) -> Array:
        """The entropy of the action, in nats."""

    @abc.abstractmethod
    def divergence(self, old: Array, new: Array) -> Array:
        """The Kullback-Leibler divergence from `old` to `new`."""

    @abc.abstractmethod
    def preferences(self, numbers: Array) -> Array:
        """Probabilities of finitely many actions, the mean of continuous ones."""

    def masked(self, numbers: Array, legal: Array | None) -> Array:
        """Default: refuse; else the numbers with which actions that are not legal are never drawn."""
        if legal is not None:
            raise ArgumentError(f"{type(self).__name__}: legal actions are known of one discrete choice only")
        return numbers


@final
class CategoricalActions(ActionDistribution):
    """One of n actions, by logits.

    >>> numbers = jnp.log(jnp.array([0.25, 0.75]))
    >>> round(float(jnp.exp(CategoricalActions(2).log_prob(numbers, jnp.array(1)))), 3)
    0.75
    """

    n: int = eqx.field(static=True)

    @property
    def outputs(self) -> int:
        return self.n

    @property
    def free(self) -> int:
        return 0

    def noise(self, key: Key, shape: tuple[int, ...]) -> Array:
        return jax.random.gumbel(key, (*shape, self.n))

    def draw(self, numbers: Array, noise: Array) -> Array:
        return jnp.argmax(numbers + noise, axis=-1)

    def mode(self, numbers: Array) -> Array:
        return jnp.argmax(numbers, axis=-1)

    def action(self, drawn: Array) -> Array:
        return drawn

    def log_prob(self, numbers: Array, drawn: Array) -> Array:
        # A sum over few actions: picking entries would scatter in the backward pass, which takes longer.
        return jnp.sum(jax.nn.one_hot(drawn, self.n) * jax.nn.log_softmax(numbers), axis=-1)

    def entropy(self, numbers: Array) -> Array:
        return -jnp.sum(jax.nn.softmax(numbers) * jax.nn.log_softmax(numbers), axis=-1)

    def divergence(self, old: Array, new: Array) -> Array:
        return jnp.sum(jax.nn.softmax(old) * (jax.nn.log_softmax(old) - jax.nn.log_softmax(new)), axis=-1)

    def preferences(self, numbers: Array) -> Array:
        return jax.nn.softmax(numbers)

    def masked(self, numbers: Array, legal: Array | None) -> Array:
        return numbers if legal is None else jnp.where(legal, numbers, _NEVER)


@final
class SeveralCategoricalActions(ActionDistribution):
    """Several choices at once, independent of each other given the observation."""

    choices: tuple[CategoricalActions, ...]

    def __init__(self, ns: tuple[int, ...]) -> None:
        self.choices = tuple(CategoricalActions(n) for n in ns)

    @property
    def outputs(self) -> int:
        return sum(one.n for one in self.choices)

    @property
    def free(self) -> int:
        return 0

    def noise(self, key: Key, shape: tuple[int, ...]) -> Array:
        return jax.random.gumbel(key, (*shape, self.outputs))

    def draw(self, numbers: Array, noise: Array) -> Array:
        return self.mode(numbers + noise)

    def mode(self, numbers: Array) -> Array:
        parts = zip(self.choices, self._each(numbers), strict=True)
        return jnp.stack([one.mode(part) for one, part in parts], axis=-1)

    def action(self, drawn: Array) -> Array:
        return drawn

    def log_prob(self, numbers: Array, drawn: Array) -> Array:
        parts = enumerate(zip(self.choices, self._each(numbers), strict=True))
        return self._sum([one.log_prob(part, drawn[..., i]) for i, (one, part) in parts])

    def entropy(self, numbers: Array) -> Array:
        return self._sum([one.entropy(p) for one, p in zip(self.choices, self._each(numbers), strict=True)])

    def divergence(self, old: Array, new: Array) -> Array:
        parts = zip(self.choices, self._each(old), self._each(new), strict=True)
        return self._sum([one.divergence(before, after) for one, before, after in parts])

    def preferences(self, numbers: Array) -> Array:
        return jnp.concatenate([jax.nn.softmax(part) for part in self._each(numbers)], axis=-1)

    def _each(self, numbers: Array) -> list[Array]:
        return jnp.split(numbers, np.cumsum([one.n for one in self.choices])[:-1].tolist(), axis=-1)

    @staticmethod
    def _sum(parts: list[Array]) -> Array:
        return jnp.sum(jnp.stack(parts), axis=0)


_INSIDE = 1 - 1e-6
"""How near to its bounds, in units of their distance from the centre, an action is taken to lie at most."""
_NODES, _WEIGHTS = (a.astype(np.float32) for a in np.polynomial.hermite_e.hermegauss(16))


@final
class GaussianActions(ActionDistribution):
    """Continuous actions: independent normal numbers, squashed into their bounds where they have any.

    An action between bounds is `centre + half tanh(u)` with `u` normal, so that its density is that of `u` over the
    slope of this map. The numbers are means and logarithms of standard deviations of `u`.

    >>> actions = GaussianActions(np.full(1, -2.0), np.full(1, 2.0))
    >>> actions.action(jnp.array([0.0])).tolist(), actions.action(jnp.array([20.0])).tolist()
    ([0.0], [2.0])
    """

    centre: tuple[float, ...] = eqx.field(static=True)
    half: tuple[float, ...] = eqx.field(static=True)
    """Half the distance between the bounds; nothing where there are none."""
    shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, low: np.ndarray, high: np.ndarray) -> None:
        bounded = bool(np.isfinite(low).all() and np.isfinite(high).all())
        self.shape = low.shape
        self.centre = tuple(((low + high) / 2).ravel().tolist()) if bounded else ()
        self.half = tuple(((high - low) / 2).ravel().tolist()) if bounded else ()

    @property
    def outputs(self) -> int:
        return math.prod(self.shape)

    @property
    def free(self) -> int:
        return self.outputs

    def noise(self, key: Key, shape: tuple[int, ...]) -> Array:
        return jax.random.normal(key, (*shape, self.outputs))

    def draw(self, numbers: Array, noise: Array) -> Array:
        mean, log_scale = self._split(numbers)
        return mean + jnp.exp(log_scale) * noise

    def mode(self, numbers: Array) -> Array:
        return self._split(numbers)[0]

    def action(self, drawn: Array) -> Array:
        if self.half:
            drawn = _like(drawn, self.centre) + _like(drawn, self.half) * jnp.tanh(drawn)
        return drawn.reshape(*drawn.shape[:-1], *self.shape)

    def drawn(self, action: Array) -> Array:
        """The number before it was squashed; actions at a bound, where there is none, are taken as just inside it."""
        flat = action.reshape(*action.shape[: action.ndim - len(self.shape)], self.outputs)
        if not self.half:
            return flat
        share = (flat - _like(flat, self.centre)) / _like(flat, self.half)
        return jnp.arctanh(jnp.clip(share, -_INSIDE, _INSIDE))

    def log_prob(self, numbers: Array, drawn: Array) -> Array:
        mean, log_scale = self._split(numbers)
        z = (drawn - mean) * jnp.exp(-log_scale)
        density = -0.5 * z * z - log_scale - 0.5 * math.log(2 * math.pi)
        return jnp.sum(density - self._log_slope(drawn), axis=-1)

    def entropy(self, numbers: Array) -> Array:
        """Of the squashed action too: the mean of the map's log-slope is a sum over 16 nodes (Gauss-Hermite)."""
        mean, log_scale = self._split(numbers)
        own = jnp.sum(log_scale, axis=-1) + self.outputs * 0.5 * math.log(2 * math.pi * math.e)
        if not self.half:
            return own
        nodes = jnp.asarray(_NODES).reshape(-1, *[1] * mean.ndim)
        slopes = self._log_slope(mean[None] + jnp.exp(log_scale)[None] * nodes).sum(-1)
        weights = jnp.asarray(_WEIGHTS / _WEIGHTS.sum())
        return own + jnp.tensordot(weights, slopes, axes=1)

    def divergence(self, old: Array, new: Array) -> Array:
        """That of the normal numbers: a map of both, one to one, changes nothing."""
        (mean, log_scale), (moved, rescaled) = self._split(old), self._split(new)
        ratio = jnp.exp(2 * (log_scale - rescaled))
        shift = jnp.square((mean - moved) * jnp.exp(-rescaled))
        return jnp.sum(rescaled - log_scale + 0.5 * (ratio + shift - 1), axis=-1)

    def preferences(self, numbers: Array) -> Array:
        return self.action(self.mode(numbers))

    def _split(self, numbers: Array) -> tuple[Array, Array]:
        return numbers[..., : self.outputs], numbers[..., self.outputs :]

    def _log_slope(self, drawn: Array) -> Array:
        if not self.half:
            return jnp.zeros_like(drawn)
        # log(1 - tanh(u)^2), in a form that keeps its digits where tanh is 1 in single precision.
        return _like(drawn, np.log(self.half)) + 2 * (math.log(2) - drawn - jax.nn.softplus(-2 * drawn))


def _like(x: Array, numbers: Any) -> Array:
    return jnp.broadcast_to(jnp.asarray(numbers, x.dtype), x.shape)


def distribution_over(space: Space) -> ActionDistribution:
    """The distribution that fits a space of actions.

    >>> distribution_over(Discrete(3)).outputs
    3
    """
    match space:
        case Discrete():
            return CategoricalActions(space.n)
        case MultiDiscrete():
            return SeveralCategoricalActions(space.ns)
        case Box():
            return GaussianActions(space.low, space.high)
    raise ArgumentError(f"no distribution over actions in a {type(space).__name__}")


@final
class NetworkPolicy(Policy):
    """A network and the distribution that its numbers mean."""

    network: ActorCritic
    actions: ActionDistribution

    def start(self) -> Tree:
        return self.network.start()

    def act(
        self, key: Key, observation: Array, memory: Tree, *, greedy: bool, legal: Array | None = None
    ) -> Decision:
        seen = vectors(observation[None])
        numbers, after = self.network.act(seen, jax.tree.map(lambda a: a[None], memory))
        value = self.network.values_after(seen[None], jax.tree.map(lambda a: a[None, None], memory))[0, 0]
        own = self.actions.masked(numbers[0], legal)
        drawn = self.actions.mode(own) if greedy else self.actions.draw(own, self.actions.noise(key, ()))
        memory = jax.tree.map(lambda a: a[0], after)
        return Decision(self.actions.action(drawn), memory, value, self.actions.preferences(own))


def vectors(observations: Float[Array, "worlds ..."]) -> Float[Array, "worlds inputs"]:
    """Observations as vectors of floating numbers."""
    return observations.reshape(observations.shape[0], -1).astype(jnp.float32)


__all__ = [
    "ActionDistribution",
    "CategoricalActions",
    "GaussianActions",
    "NetworkPolicy",
    "SeveralCategoricalActions",
    "distribution_over",
    "vectors",
]
