"""Micro-batches: loss and gradient of a batch from pieces of it, one after the other, in the memory of one."""

from collections.abc import Callable
from typing import TypeAlias

import jax
import jax.numpy as jnp

from chainrule.core import tree
from chainrule.core.types import Array, Scalar, Tree
from chainrule.data.batches import Batch, predicted

Once: TypeAlias = Callable[[Tree, Array, Batch], tuple[Scalar, dict[str, Array], Tree, Tree]]
"""(arrays, number of the piece, piece) -> loss, metrics, arrays with moved state, gradient."""


def accumulated(
    once: Once, arrays: Tree, zeros: Tree, batch: Batch, pieces: int
) -> tuple[Scalar, dict[str, Array], Tree, Tree]:
    """Means of loss, metrics and gradient over the pieces, and the arrays after the last of them.

    Pieces differ by one example at most, the larger ones come first, and each counts for what is in it.
    """
    least, larger = divmod(len(batch.x), pieces)

    def add(carry: tuple[Tree, Tree], piece: tuple[Array, Batch]) -> tuple[tuple[Tree, Tree], Tree]:
        arrays, total = carry
        loss, metrics, arrays, grads = once(arrays, *piece)
        weight = _weight(piece[1], least)
        return (arrays, tree.add(total, tree.scale(weight, grads))), (weight, {"loss": loss, **metrics})

    carry, found, cut = (arrays, zeros), [], larger * (least + 1)
    for first, count, examples in ((0, larger, slice(cut)), (larger, pieces - larger, slice(cut, None))):
        if count:
            micro = jax.tree.map(lambda a: a[examples].reshape(count, -1, *a.shape[1:]), batch)  # noqa: B023
            carry, seen = jax.lax.scan(add, carry, (first + jnp.arange(count), micro))
            found.append(seen)
    weights, seen = jax.tree.map(lambda *parts: jnp.concatenate(parts), *found)
    whole = weights.sum()
    means = {name: (weights * values).sum() / whole for name, values in seen.items()}
    loss = means.pop("loss")
    arrays, total = carry
    return loss, means, arrays, tree.scale(1 / whole, total)


def _weight(batch: Batch, least: int) -> Array:
    """What a piece counts for, next to one of `least` examples: examples, or predicted tokens of documents."""
    if batch.documents is not None:
        return jnp.asarray(predicted(batch.documents).sum(), jnp.float32)
    return jnp.asarray(len(batch.x) / least, jnp.float32)


__all__ = ["accumulated"]
