"""Low-rank adapters (LoRA): trained weights that stay as they are while the product of two thin matrices learns.

A weight W becomes `W + (alpha / rank) A B` (Hu et al., 2022, arXiv:2106.09685); B starts at zero, so at first nothing
changes. A convolution is the matrix from the patches it sees to its outputs. All of it works on whole trees of layers:
`adapted` gives any model adapters, `merged` adds them into its weights. A model is always used merged, so that layers
know nothing of adapters and a merged copy computes the same to the last bit.
"""

import math
from collections.abc import Sequence
from typing import Any, TypeVar, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core import random, tree
from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, suggest
from chainrule.core.types import Array, Float, Key, Tree
from chainrule.nn.convolution.layers import Conv
from chainrule.nn.linear import Linear
from chainrule.nn.recurrent.cells import Feedback

T = TypeVar("T")
_SHOWN = 6


@final
class AdaptedWeight(eqx.Module):
    """A weight and what it has learnt since, as a product of rank `rank`.

    Axes before the last two are those of a kernel (the product is that of its patches) or, with `stacked` of them, of
    several layers, each of which gets its own pair.

    >>> weight = AdaptedWeight(jnp.ones((6, 4)), rank=2, key=jax.random.key(0))
    >>> weight.down.shape, weight.up.shape, bool((weight.value() == 1).all())
    ((6, 2), (2, 4), True)
    """

    base: Float[Array, "*axes inputs outputs"]
    down: Float[Array, "*axes inputs rank"]
    """A, drawn at random."""
    up: Float[Array, "*stacked rank outputs"]
    """B, zero at first."""
    scale: float = eqx.field(static=True)
    """`alpha / rank`."""

    def __init__(
        self, base: Array, *, rank: int, alpha: float | None = None, stacked: int = 0, key: Key
    ) -> None:
        """`alpha` is twice the rank unless given."""
        rank = whole("AdaptedWeight", "rank", rank)
        shape = base.shape
        limit = 1 / math.sqrt(math.prod(shape[stacked:-1]))
        self.base = base
        self.down = random.uniform(key, (*shape[:-1], rank), -limit, limit).astype(base.dtype)
        self.up = jnp.zeros((*shape[:stacked], rank, shape[-1]), base.dtype)
        self.scale = (2 * rank if alpha is None else alpha) / rank

    def value(self, strength: float = 1.0) -> Array:
        """The weight with `strength` times what was learnt; its own bits where that is nothing."""
        if strength == 0:
            return self.base
        stacked = self.up.shape[:-2]
        thin = self.down.reshape(*stacked, -1, self.down.shape[-1])
        return self.base + strength * self.scale * (thin @ self.up).reshape(self.base.shape)


def adapted(
    model: T,
    rank: int,
    *,
    key: Key,
    alpha: float | None = None,
    layers: Sequence[str] = ("*",),
    without: Sequence[str] = (),
) -> T:
    """A model with adapters for the weights of its dense, recurrent and convolution layers that `layers` mean.

    `layers` and `without` are names or patterns. Convolutions in groups have no single matrix and are left as they are.
    What an adapter begins with depends on the key and the name of the layer alone.

    >>> model = {"first": Linear(3, 2, key=jax.random.key(0)), "last": Linear(2, 1, key=jax.random.key(1))}
    >>> new = adapted(model, 1, key=jax.random.key(2), layers=["last"])
    >>> tree.names(new["last"])
    ['weight.base', 'weight.down', 'weight.up', 'bias']
    """
    suited = [tree.path_name(path) for path, node in _layers(model) if _suits(node)]
    for pattern in layers:
        if not any(tree.matches(name, pattern) for name in suited):
            more = f" and {len(suited) - _SHOWN} more" if len(suited) > _SHOWN else ""
            if not suited:
                raise ArgumentError(
                    f"lora.rank={rank}: this model has no dense, recurrent or convolution layer to adapt",
                    remedy="train it whole, without lora",
                )
            raise ArgumentError(
                f"lora.layers={pattern}: no dense, recurrent or convolution layer has such a name"
                + suggest(pattern, suited),
                remedy=f"layers that can be adapted: {', '.join(suited[:_SHOWN])}{more}",
            )

    def beside(path: tuple[Any, ...], node: Any) -> Any:
        name = tree.path_name(path)
        if name not in suited or not _meant(name, layers) or _meant(name, without):
            return node
        stacked = node.weight.ndim - _axes(node)
        weight = AdaptedWeight(
            node.weight, rank=rank, alpha=alpha, stacked=stacked, key=random.named(key, name)
        )
        return eqx.tree_at(lambda layer: layer.weight, node, weight)

    result: T = jax.tree_util.tree_map_with_path(beside, model, is_leaf=_is_layer)
    return result


def merged(model: T, strength: float = 1.0) -> T:
    """A model with `strength` times its adapters added into its weights; of the structure it had without them."""
    result: T = jax.tree.map(
        lambda node: node.value(strength) if isinstance(node, AdaptedWeight) else node,
        model,
        is_leaf=_is_adapted,
    )
    return result


def apart(model: T, changed: T) -> T:
    """An adapted model with all that is not adapted from a merged copy of it that has moved on."""
    result: T = jax.tree.map(
        lambda node, new: node if isinstance(node, AdaptedWeight) else new,
        model,
        changed,
        is_leaf=_is_adapted,
    )
    return result


def marks(model: Tree) -> Tree:
    """A tree of booleans: true for the two thin matrices of every adapter.

    >>> marks([AdaptedWeight(jnp.ones((2, 2)), rank=1, key=jax.random.key(0)), jnp.ones(2)])[1]
    False
    """

    def mark(node: Any) -> Any:
        if not isinstance(node, AdaptedWeight):
            return False
        blank = jax.tree.map(lambda _: False, node)
        return eqx.tree_at(lambda weight: (weight.down, weight.up), blank, (True, True))

    return jax.tree.map(mark, model, is_leaf=_is_adapted)


def _meant(name: str, patterns: Sequence[str]) -> bool:
    return any(tree.matches(name, pattern) for pattern in patterns)


def _is_adapted(node: Any) -> bool:
    return isinstance(node, AdaptedWeight)


def _is_layer(node: Any) -> bool:
    return isinstance(node, Linear | Conv | Feedback)


def _axes(layer: Linear | Conv | Feedback) -> int:
    """Axes of the weight of a single layer."""
    return len(layer.stride) + 2 if isinstance(layer, Conv) else 2


def _suits(node: Any) -> bool:
    return _is_layer(node) and not (isinstance(node, Conv) and node.groups > 1)


def _layers(model: Tree) -> list[tuple[tuple[Any, ...], Any]]:
    return jax.tree_util.tree_leaves_with_path(model, is_leaf=_is_layer)


__all__ = ["AdaptedWeight", "adapted", "apart", "marks", "merged"]
