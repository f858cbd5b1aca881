"""Ablation: the loss without a head or a neuron, with everything else as it is.

What is taken out is set to zero, or to its mean over the examples, which leaves later layers what they are used to
(mean ablation). Losses are compared example by example, so that the standard error is that of the difference.
Neurons are many: all are ranked by the first-order estimate of their effect (one gradient), and the first are measured.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from chainrule.core.errors import check_choice
from chainrule.core.types import Array, Key
from chainrule.data.batches import Batch
from chainrule.explain.methods.activations import Hook, watched_run
from chainrule.models.protocol import Model

Replacement: TypeAlias = Literal["zero", "mean"]
_HEADS, _NEURONS = "*.z", "*.mlp.post"


@final
@dataclass(frozen=True)
class Ablation:
    """By how much the loss rises without each of some parts."""

    base: float
    """The mean loss of the examples with everything in."""
    rise: Float[np.ndarray, "*parts"]
    stderr: Float[np.ndarray, "*parts"]
    """Standard errors over examples; not a number for a single one."""


def ablate_heads(model: Model, batch: Batch, key: Key, replacement: Replacement = "zero") -> Ablation:
    """By how much the loss rises without what each head gathers: a row for every attention layer, in order.

    The layers are those of `activation_names` that end in `.z`.
    """
    base, losses = _without_heads(model, batch, key, _weight(replacement))
    return _compared(np.asarray(base), np.asarray(losses))


def ablate_neurons(
    model: Model, batch: Batch, key: Key, replacement: Replacement = "zero", *, most: int = 16
) -> tuple[list[tuple[int, int]], Ablation]:
    """The neurons that matter most by a first-order estimate, as (layer, neuron), and the loss without each."""
    base, chosen, losses = _without_neurons(model, batch, key, _weight(replacement), most)
    return [(int(i), int(j)) for i, j in np.asarray(chosen)], _compared(np.asarray(base), np.asarray(losses))


def _weight(replacement: Replacement) -> Array:
    """Of the mean in what is put in: a number, so that both replacements are one program."""
    check_choice("ablation", "replacement", replacement, ("zero", "mean"))
    return jnp.asarray(float(replacement == "mean"))


def _compared(base: Float[np.ndarray, " examples"], losses: Float[np.ndarray, "*parts examples"]) -> Ablation:
    rise, count = losses.astype(np.float64) - base, len(base)
    spread = rise.std(axis=-1, ddof=1) / np.sqrt(count) if count > 1 else np.full(rise.shape[:-1], np.nan)
    return Ablation(float(base.mean()), rise.mean(axis=-1), spread)


def _losses(
    model: Model, batch: Batch, key: Key, hooks: Mapping[str, Hook], names: tuple[str, ...]
) -> tuple[Array, tuple[Array, ...]]:
    """The loss of each example by itself, and the activations of these names."""

    def one(example: Batch, key: Key) -> tuple[Array, tuple[Array, ...]]:
        alone = jax.tree.map(lambda leaf: leaf[None], example)
        loss, found = watched_run(lambda: model.loss(alone, key)[0], hooks, names)
        return loss, found.values

    keys = jax.random.split(key, len(jax.tree.leaves(batch)[0]))
    return jax.vmap(one)(batch, keys)


@eqx.filter_jit
def _without_heads(model: Model, batch: Batch, key: Key, weight: Array) -> tuple[Array, Array]:
    """The losses, and those without each head of each layer."""
    base, values = _losses(model, batch, key, {}, (_HEADS,))  # (examples, 1, heads, time, size)
    shape = len(values), values[0].shape[2]
    parts = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), axis=-1).reshape(-1, 2)
    losses = _without(model, batch, key, _HEADS, 1, _instead(values, weight), jnp.asarray(parts))
    return base, losses.reshape(*shape, -1)


@eqx.filter_jit
def _without_neurons(
    model: Model, batch: Batch, key: Key, weight: Array, most: int
) -> tuple[Array, Array, Array]:
    """The losses, the neurons with the largest estimates, and the losses without each of them."""
    base, values = _losses(model, batch, key, {}, (_NEURONS,))  # (examples, 1, time, neurons)
    instead = _instead(values, weight)
    estimates = _estimates(model, batch, key, values, instead)
    numbers = [(i, j) for i, one in enumerate(estimates) for j in range(len(one))]
    _, order = jax.lax.top_k(jnp.abs(jnp.concatenate(estimates)), min(most, len(numbers)))
    chosen = jnp.asarray(np.array(numbers))[order]
    return base, chosen, _without(model, batch, key, _NEURONS, 2, instead, chosen)


def _instead(values: tuple[Array, ...], weight: Array) -> list[Array]:
    """What is put in for all examples: zeros, or the mean over examples and positions (the last axis but one)."""
    return [weight * value.mean(axis=(0, value.ndim - 2), keepdims=True)[0] for value in values]


def _without(
    model: Model, batch: Batch, key: Key, name: str, axis: int, instead: Sequence[Array], parts: Array
) -> Array:
    """The losses without each of some parts, given as (layer, index along an axis of the activation)."""

    def one(part: Array) -> Array:
        numbers = iter(range(len(instead)))

        def hook(value: Array, _: str) -> Array:
            number = next(numbers)
            shape = [value.shape[axis] if i == axis else 1 for i in range(value.ndim)]
            chosen = (part[0] == number) & (jnp.arange(value.shape[axis]) == part[1])
            return jnp.where(chosen.reshape(shape), instead[number], value)

        return _losses(model, batch, key, {name: hook}, ())[0]

    return jax.lax.map(one, parts)


def _estimates(
    model: Model, batch: Batch, key: Key, values: Sequence[Array], instead: Sequence[Array]
) -> list[Array]:
    """By how much the loss changes without each neuron, to first order: the gradient times the change."""

    def shifted(shifts: list[Array]) -> Array:
        def one(example: Batch, key: Key, shifts: list[Array]) -> Array:
            alone, rest = jax.tree.map(lambda leaf: leaf[None], example), iter(shifts)
            hooks: dict[str, Hook] = {_NEURONS: lambda value, name: value + next(rest)}
            return watched_run(lambda: model.loss(alone, key)[0], hooks, ())[0]

        keys = jax.random.split(key, len(jax.tree.leaves(batch)[0]))
        return jax.vmap(one)(batch, keys, shifts).mean()

    slopes = jax.grad(shifted)([jnp.zeros_like(value) for value in values])
    return [
        jnp.sum(slope * (mean[None] - value), axis=(0, 1, 2))
        for slope, value, mean in zip(slopes, values, instead, strict=True)
    ]


__all__ = ["Ablation", "Replacement", "ablate_heads", "ablate_neurons"]
