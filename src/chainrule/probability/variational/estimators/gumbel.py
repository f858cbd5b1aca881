"""Relaxed draws of classes: points between the corners of the simplex, which move with phi.

The class that maximises logit plus Gumbel noise has the probabilities of the logits; the softmax of the same sum over a
temperature is a smooth stand-in for it (Jang, Gu and Poole, 2017; Maddison, Mnih and Teh, 2017). Gradients are those of
the relaxed problem: biased, the less the lower the temperature, and the noisier.
"""

from typing import final

import equinox as eqx
import jax

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Key, Scalar, Tree
from chainrule.probability.distributions.base import Distribution
from chainrule.probability.distributions.categorical import Categorical
from chainrule.probability.variational.estimators.base import GradientEstimator
from chainrule.probability.variational.problems import GuidedMean, one_hot


@final
class GumbelSoftmax(GradientEstimator):
    """Relaxed draws, in value and in gradient."""

    temperature: float = eqx.field(static=True, default=0.5)

    def __check_init__(self) -> None:
        _check_temperature("GumbelSoftmax", self.temperature)

    @property
    def label(self) -> str:
        """What it is called in tables and pictures."""
        return f"Gumbel-softmax {self.temperature:g}"

    @property
    def is_biased(self) -> bool:
        """Yes, at every temperature."""
        return True

    def obstacle(self, q: Distribution) -> str:
        """It relaxes classes."""
        return _obstacle(q)

    def surrogate(self, problem: GuidedMean, phi: Tree, key: Key, samples: int) -> Scalar:
        """The mean of f between the corners."""
        q = problem.checked_guide(phi)
        averaged, closed = problem.split(q)
        return jax.vmap(averaged)(relaxed_draws(q, key, samples, self.temperature)).mean() + closed


@final
class StraightThrough(GradientEstimator):
    """Draws at the corners in value, relaxed ones in gradient: f never sees a point between classes."""

    temperature: float = eqx.field(static=True, default=0.5)

    def __check_init__(self) -> None:
        _check_temperature("StraightThrough", self.temperature)

    @property
    def label(self) -> str:
        """What it is called in tables and pictures."""
        return f"straight-through {self.temperature:g}"

    @property
    def is_biased(self) -> bool:
        """Yes, at every temperature."""
        return True

    def obstacle(self, q: Distribution) -> str:
        """It relaxes classes."""
        return _obstacle(q)

    def surrogate(self, problem: GuidedMean, phi: Tree, key: Key, samples: int) -> Scalar:
        """The mean of f at the corners, with the gradient at the corners carried to the relaxed draws."""
        q = problem.checked_guide(phi)
        averaged, closed = problem.split(q)
        soft = relaxed_draws(q, key, samples, self.temperature)
        hard = one_hot(_categorical(q), soft.argmax(axis=-1))
        through = hard + (soft - jax.lax.stop_gradient(soft))  # in this order exactly the corner
        return jax.vmap(averaged)(through).mean() + closed


def relaxed_draws(q: Distribution, key: Key, samples: int, temperature: float) -> Array:
    """Points of the simplex; the largest entry of each is the class that would have been drawn."""
    logits = _categorical(q).log_probs
    noise = jax.random.gumbel(key, (samples, *logits.shape), logits.dtype)
    return jax.nn.softmax((logits[None] + noise) / temperature)


def _categorical(q: Distribution) -> Categorical:
    assert isinstance(q, Categorical), "see `obstacle`"
    return q


def _obstacle(q: Distribution) -> str:
    return (
        "" if isinstance(q, Categorical) else f"the guide is {type(q).__name__}, only Categorical is relaxed"
    )


def _check_temperature(name: str, temperature: float) -> None:
    if not temperature > 0:
        raise ArgumentError(f"{name}(temperature={temperature}): it must be above zero")


__all__ = ["GumbelSoftmax", "StraightThrough", "relaxed_draws"]
