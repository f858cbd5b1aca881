"""The loss around a trained model, on a plane through its weights.

Random directions are rescaled filter by filter to the size of the weights (Li et al., *Visualizing the loss landscape
of neural nets*, NeurIPS 2018, arXiv:1712.09913): without that, a network whose weights are merely larger looks
flatter. A filter is everything that makes one output of a layer; biases and the weights of normalisers stay where
they are. The running statistics of normalisers stay as trained, which suits weights near the trained ones, or are taken
anew from the examples at every point, which far from them is the only fair choice.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, TypeVar, final

import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np

from chainrule import derive
from chainrule.core import tree
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Key, Tree
from chainrule.data.batches import Batch
from chainrule.models.protocol import HasState, Model, parts_of
from chainrule.nn import BatchNorm
from chainrule.train.state import trainable

M = TypeVar("M", bound=Model)
Objective: TypeAlias = Callable[[Any], Array]
"""From a model to its loss on examples that stay the same."""


Statistics: TypeAlias = Literal["trained", "recomputed"]
"""What batch normalisers divide by where the weights have moved."""


@final
class Surface(eqx.Module):
    """Losses on a grid: `losses[i, j]` at `first[i]` along the first direction and `second[j]` along the second."""

    first: np.ndarray
    second: np.ndarray
    losses: np.ndarray


def objective(batch: Batch, key: Key, statistics: Statistics = "trained") -> Objective:
    """The loss on one batch in inference mode: no noise, and the running statistics that are wanted."""

    def loss(model: Model) -> Array:
        still = recomputed(model, batch, key) if statistics == "recomputed" else model
        return eqx.nn.inference_mode(still).loss(batch, key)[0]

    return loss


def recomputed(model: M, batch: Batch, key: Key) -> M:
    """The model with the statistics of its batch normalisers taken from this batch alone; no gradient flows through."""
    norms = [node for node in jax.tree.leaves(model, is_leaf=_is_norm) if _is_norm(node)]
    if not norms or not isinstance(model, HasState):
        return model
    # A training pass adds the batch with a weight of its own: over zeros, dividing by that weight leaves the batch.
    blank = eqx.tree_at(_statistics, model, replace_fn=jnp.zeros_like)
    _, _, moved = eqx.nn.inference_mode(blank, value=False).loss_and_state(batch, key)
    weights = [norm.new_weight for norm in norms for _ in range(2)]
    fresh = [array / weight for array, weight in zip(_statistics(moved), weights, strict=True)]
    found: M = eqx.tree_at(_statistics, model, fresh)
    return found


def weights_of(model: Model) -> Tree:
    """What gradients move: the model with nothing else in it."""
    return eqx.filter(model, trainable(model, parts_of(model)))


def direction(model: Model, key: Key) -> Tree:
    """A random direction in the space of the weights, each filter as long as the model's own."""
    weights = weights_of(model)
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
    steps = np.linspace(-reach, reach, points, dtype=np.float32)
    return grid(loss, model, (first, second), steps, steps)


def grid(
    loss: Objective, model: Model, ways: tuple[Tree, Tree], first: np.ndarray, second: np.ndarray
) -> Surface:
    """The loss where the model is moved by so much of the first direction and so much of the second."""

    @eqx.filter_jit
    def row(model: Model, ways: tuple[Tree, Tree], a: Array, steps: Array) -> Array:
        return jax.lax.map(lambda b: loss(along(model, (a, ways[0]), (b, ways[1]))), steps)

    rows = [row(model, ways, jnp.asarray(a), jnp.asarray(second)) for a in first]
    return Surface(first, second, np.stack([np.asarray(one) for one in rows]))


def between(
    losses: Mapping[str, Objective], one: Model, other: Model, *, points: int = 25, beyond: float = 0.25
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Losses on the straight line from one model (0) to another (1), and a little beyond both ends.

    Running statistics go along with the weights, so that both ends are the models they are.
    """
    start, end = (eqx.filter(model, eqx.is_inexact_array) for model in (one, other))
    if shapes(start) != shapes(end):
        raise ArgumentError(
            "between: the two models have weights of different shapes",
            remedy="compare models of one kind with the same settings",
        )
    way = jax.tree.map(
        lambda a, b: b - a, start, jax.tree.unflatten(jax.tree.structure(start), jax.tree.leaves(end))
    )
    steps = np.linspace(-beyond, 1 + beyond, points, dtype=np.float32)

    @eqx.filter_jit
    def walk(model: Model, way: Tree, steps: Array) -> dict[str, Array]:
        at = lambda a: {name: loss(along(model, (a, way))) for name, loss in losses.items()}  # noqa: E731
        return jax.lax.map(at, steps)

    found = walk(one, way, jnp.asarray(steps))
    return steps, {name: np.asarray(found[name]) for name in losses}


def shapes(weights: Tree) -> list[tuple[int, ...]]:
    """The shapes of all arrays, in order."""
    return [leaf.shape for leaf in jax.tree.leaves(weights)]


def barrier(steps: np.ndarray, losses: np.ndarray) -> float:
    """How far the loss rises above the straight line between its two ends (steps 0 and 1) at most; 0 where nowhere.

    >>> barrier(np.array([0.0, 0.5, 1.0]), np.array([1.0, 5.0, 3.0]))
    3.0
    """
    inside = (steps >= 0) & (steps <= 1)
    ends = np.interp([0.0, 1.0], steps, losses)
    chord = ends[0] + (ends[1] - ends[0]) * steps
    return max(0.0, float((losses - chord)[inside].max()))


def curvature(loss: Objective, model: Model, key: Key, *, steps: int = 20) -> tuple[float, float]:
    """The least and the greatest eigenvalue of the Hessian, by that many steps of Lanczos."""
    weights, rest = eqx.partition(model, trainable(model, parts_of(model)))
    flat, unflatten = jax.flatten_util.ravel_pytree(weights)

    @eqx.filter_jit
    def extremes(flat: Array, rest: Any) -> tuple[Array, Array]:
        product = derive.hvp(lambda w: loss(eqx.combine(unflatten(w), rest)))
        found = derive.lanczos(lambda v: product(flat, v), flat.size, key, steps=steps)
        return found.values[0], found.values[-1]

    low, high = extremes(flat, rest)
    return float(low), float(high)


def _is_norm(node: Any) -> bool:
    return isinstance(node, BatchNorm)


def _statistics(model: Any) -> list[Any]:
    """The running means and variances of a model, or what stands in their place while `eqx.tree_at` looks for them."""
    nodes = jax.tree.leaves(model, is_leaf=_is_norm)
    return [array for node in nodes if _is_norm(node) for array in (node.mean, node.var)]


def _filters(weight: Array, key: Key) -> Array:
    """Random filters of the sizes of those there are; nothing for biases and scales."""
    if weight.ndim < 2:
        return jnp.zeros_like(weight)
    noise = jax.random.normal(key, weight.shape, weight.dtype)
    axes = tuple(range(weight.ndim - 1))
    size = lambda w: jnp.sqrt(jnp.square(w).sum(axis=axes, keepdims=True))  # noqa: E731
    return noise * size(weight) / jnp.maximum(size(noise), 1e-12)


__all__ = [
    "Objective",
    "Statistics",
    "Surface",
    "along",
    "barrier",
    "between",
    "curvature",
    "direction",
    "grid",
    "objective",
    "recomputed",
    "shapes",
    "surface",
    "weights_of",
]
