"""The loss around a trained model, on a plane through its weights.

Random directions are rescaled filter by filter to the size of the weights (Li et al., *Visualizing the loss landscape
of neural nets*, NeurIPS 2018, arXiv:1712.09913): without that, a network whose weights are merely larger looks
flatter. A filter is everything that makes one output of a layer; biases and the weights of normalisers stay where
they are.
"""

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, final

import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np

from chainrule import derive
from chainrule.core import tree
from chainrule.core.types import Array, Key, Tree
from chainrule.data.base import Batch
from chainrule.models.base import Model, parts_of
from chainrule.train.step import parameters

M = TypeVar("M", bound=Model)
Objective: TypeAlias = Callable[[Any], Array]
"""From a model to its loss on examples that stay the same."""


@final
class Surface(eqx.Module):
    """Losses on a grid: `losses[i, j]` at `steps[i]` along the first direction and `steps[j]` along the second."""

    steps: np.ndarray
    losses: np.ndarray


def objective(batch: Batch, key: Key) -> Objective:
    """The loss on one batch in inference mode: no noise, running statistics as they are."""
    return lambda model: eqx.nn.inference_mode(model).loss(batch, key)[0]


def direction(model: Model, key: Key) -> Tree:
    """A random direction in the space of the weights, each filter as long as the model's own."""
    weights = eqx.filter(model, parameters(model, parts_of(model)))
    leaves, structure = jax.tree.flatten(weights)
    keys = jax.random.split(key, len(leaves))
    return jax.tree.unflatten(structure, [_filters(w, k) for w, k in zip(leaves, keys, strict=True)])


def along(model: M, *moves: tuple[Any, Tree]) -> M:
    """The model moved by so much of each direction."""
    for amount, way in moves:
        model = eqx.apply_updates(model, tree.scale(amount, way))
    return model


def surface(loss: Objective, model: Model, key: Key, *, points: int = 25, reach: float = 1.0) -> Surface:
    """The loss on a square grid of `points` x `points` around the model, from -reach to reach both ways."""
    first, second = (direction(model, k) for k in jax.random.split(key))
    steps = jnp.linspace(-reach, reach, points)

    @eqx.filter_jit
    def row(model: Model, a: Array) -> Array:
        return jax.lax.map(lambda b: loss(along(model, (a, first), (b, second))), steps)

    return Surface(np.asarray(steps), np.stack([np.asarray(row(model, a)) for a in steps]))


def between(loss: Objective, one: Model, other: Model, *, points: int = 25, beyond: float = 0.25) -> Surface:
    """The loss on the straight line from one model to another, and a little beyond both ends."""
    weights = parameters(one, parts_of(one))
    start, end = (eqx.filter(model, weights) for model in (one, other))
    way = jax.tree.map(jnp.subtract, end, start)
    steps = jnp.linspace(-beyond, 1 + beyond, points)
    run = eqx.filter_jit(lambda model: jax.lax.map(lambda a: loss(along(model, (a, way))), steps))
    return Surface(np.asarray(steps), np.asarray(run(one)))


def curvature(loss: Objective, model: Model, key: Key, *, steps: int = 20) -> tuple[float, float]:
    """The least and the greatest eigenvalue of the Hessian, by that many steps of Lanczos."""
    weights, rest = eqx.partition(model, parameters(model, parts_of(model)))
    flat, unflatten = jax.flatten_util.ravel_pytree(weights)

    @eqx.filter_jit
    def extremes(flat: Array, rest: Any) -> tuple[Array, Array]:
        product = derive.hvp(lambda w: loss(eqx.combine(unflatten(w), rest)))
        found = derive.lanczos(lambda v: product(flat, v), flat.size, key, steps=steps)
        return found.values[0], found.values[-1]

    low, high = extremes(flat, rest)
    return float(low), float(high)


def _filters(weight: Array, key: Key) -> Array:
    """Random filters of the sizes of those there are; nothing for biases and scales."""
    if weight.ndim < 2:
        return jnp.zeros_like(weight)
    noise = jax.random.normal(key, weight.shape, weight.dtype)
    axes = tuple(range(weight.ndim - 1))
    size = lambda w: jnp.sqrt(jnp.square(w).sum(axis=axes, keepdims=True))  # noqa: E731
    return noise * size(weight) / jnp.maximum(size(noise), 1e-12)


__all__ = ["Objective", "Surface", "along", "between", "curvature", "direction", "objective", "surface"]
