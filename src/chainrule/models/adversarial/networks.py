"""The two players: a generator of examples from noise, and a discriminator that scores examples.

Both see examples in the units of the network, images in [-1, 1]. A condition enters the generator beside the noise or
by scaling and shifting normalised features (Dumoulin et al., 2017), and the discriminator beside its features or by the
inner product of its vector with them (projection; Miyato and Koyama, 2018).
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Key
from chainrule.models.adversarial.stages import Layer, Stage, advance
from chainrule.networks.conditions import ConditionEncoder
from chainrule.nn import Conv, Linear, SpectralNorm
from chainrule.nn.sequential import batch_statistics


def _summary(condition: ConditionEncoder | None, y: Any) -> Float[Array, "batch width"] | None:
    return None if condition is None or y is None else condition(y).summary


@final
class Generator(eqx.Module):
    """From noise, and perhaps conditions, to examples."""

    stages: tuple[Stage, ...]
    condition: ConditionEncoder | None
    beside: bool = eqx.field(static=True)
    """Whether the condition stands beside the noise."""
    seed_shape: tuple[int, ...] = eqx.field(static=True)
    """The shape of what goes into the first stage: a vector, or an image of one pixel."""
    bounded: bool = eqx.field(static=True)
    """Whether examples lie in [-1, 1]."""
    inference: bool

    def __init__(
        self,
        stages: tuple[Stage, ...],
        *,
        seed_shape: tuple[int, ...],
        bounded: bool,
        condition: ConditionEncoder | None = None,
        beside: bool = False,
    ) -> None:
        self.stages, self.condition, self.beside = stages, condition, beside
        self.seed_shape, self.bounded, self.inference = seed_shape, bounded, False

    def advance(self, z: Float[Array, "batch size"], y: Any) -> tuple[Float[Array, "batch ..."], Self]:
        """Examples, and the generator with its statistics moved on; in inference mode as it is."""
        c = _summary(self.condition, y)
        if c is not None and self.beside:
            z = jnp.concatenate([z, c.astype(z.dtype)], axis=-1)
        x, stages = advance(self.stages, z.reshape(len(z), *self.seed_shape), c, not self.inference)
        wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
        return jnp.tanh(wide) if self.bounded else wide, eqx.tree_at(lambda g: g.stages, self, stages)

    def __call__(self, z: Float[Array, "batch size"], y: Any = None) -> Float[Array, "batch ..."]:
        """Examples as they are drawn from a trained generator."""
        return eqx.nn.inference_mode(self).advance(z, y)[0]


class DecisionContext(NamedTuple):
    """How a discriminator is told more than one example: conditions, and others beside it."""

    condition: ConditionEncoder | None = None
    projected: bool = False
    """Whether the condition is multiplied with the features; otherwise it stands beside them."""
    pack: int = 1
    """Examples of one decision (Lin et al., 2018)."""
    minibatch_std: bool = False
    """Whether a feature says how much examples of the batch differ (Karras et al., 2018)."""


@final
class Discriminator(eqx.Module):
    """From examples, and perhaps their conditions, to scores."""

    stages: tuple[Stage, ...]
    head: Linear | Conv | SpectralNorm
    condition: ConditionEncoder | None
    projected: bool = eqx.field(static=True)
    pack: int = eqx.field(static=True)
    minibatch_std: bool = eqx.field(static=True)
    inference: bool

    def __init__(
        self, stages: tuple[Stage, ...], head: Linear | Conv | SpectralNorm, context: DecisionContext
    ) -> None:
        self.stages, self.head, self.inference = stages, head, False
        self.condition, self.projected, self.pack, self.minibatch_std = context

    def advance(self, x: Float[Array, "batch ..."], y: Any) -> tuple[Float[Array, " decisions"], Self]:
        """A score for each example (for each pack of them), and the discriminator moved on; see `Generator.advance`."""
        training = not self.inference
        flat = isinstance(_inner(self.stages[0].layer), Linear)
        seen = packed(x.reshape(len(x), -1) if flat else x, self.pack)
        h, first = advance(self.stages[:-1], seen, None, training)
        if self.minibatch_std:
            h = jnp.concatenate([h, _deviation(h)], axis=-1)
        c = _summary(self.condition, y)
        h, last = self.stages[-1].advance(h, None, training)
        features = h if isinstance(_inner(self.head), Conv) else h.reshape(len(h), -1)
        seen = features
        if c is not None and not self.projected:
            seen = jnp.concatenate([features, _spread(c.astype(h.dtype), features)], axis=-1)
        head = self.head
        if isinstance(head, SpectralNorm) and training:
            scores, head = head.advance(seen)
        else:
            scores = head(seen)
        scores = scores.reshape(len(h), -1).mean(axis=1)
        scores = scores.astype(jnp.promote_types(scores.dtype, jnp.float32))
        if c is not None and self.projected:
            pooled = h.reshape(len(h), -1, h.shape[-1]).sum(axis=1)
            scores = scores + (c.astype(scores.dtype) * pooled.astype(scores.dtype)).sum(axis=-1)
        moved = eqx.tree_at(lambda d: (d.stages, d.head), self, ((*first, last), head))
        return scores, moved

    def __call__(self, x: Float[Array, "batch ..."], y: Any = None) -> Float[Array, " decisions"]:
        """Scores by a trained discriminator."""
        return eqx.nn.inference_mode(self).advance(x, y)[0]


def packed(x: Float[Array, "batch ..."], count: int) -> Float[Array, "decisions ..."]:
    """Examples side by side in their last axis, `count` to a decision; those that fill none are left out.

    >>> packed(jnp.arange(10.0).reshape(5, 2), 2).tolist()
    [[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0]]
    """
    if count == 1:
        return x
    whole = len(x) // count
    grouped = x[: whole * count].reshape(whole, count, *x.shape[1:])
    return jnp.moveaxis(grouped, 1, -2).reshape(whole, *x.shape[1:-1], count * x.shape[-1])


def _spread(c: Float[Array, "batch width"], features: Float[Array, "batch ..."]) -> Float[Array, "batch ..."]:
    """The vector of a condition at every position that has features."""
    inner = (len(c), *(1,) * (features.ndim - 2), c.shape[-1])
    return jnp.broadcast_to(c.reshape(inner), (*features.shape[:-1], c.shape[-1]))


def _inner(layer: Layer) -> Layer:
    return layer.layer if isinstance(layer, SpectralNorm) else layer


def _deviation(h: Float[Array, "batch *positions features"]) -> Float[Array, "batch *positions 1"]:
    """One number for the whole batch: the deviation of features over its examples, averaged over all of them."""
    spread = jnp.sqrt(h.var(axis=0) + 1e-8).mean()
    return jnp.broadcast_to(spread, (*h.shape[:-1], 1)).astype(h.dtype)


def couples_examples(discriminator: Discriminator) -> bool:
    """Whether the score of an example depends on the others of its batch."""
    return discriminator.minibatch_std or batch_statistics(discriminator)


def _uniform(key: Key, shape: tuple[int, ...], dtype: Any) -> Array:
    return jax.random.uniform(key, shape, dtype, -(3**0.5), 3**0.5)


BASES: Mapping[str, Callable[..., Array]] = {"normal": jax.random.normal, "uniform": _uniform}
"""Distributions of noise by name, all of mean 0 and variance 1: functions of a key, a shape and a type."""

__all__ = ["BASES", "DecisionContext", "Discriminator", "Generator", "couples_examples", "packed"]
