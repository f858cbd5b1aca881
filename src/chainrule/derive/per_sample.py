"""Gradients of single examples: all of them, only their norms, or their clipped sum.

`loss(params, batch)` is the mean loss of a batch (or one loss per example). Examples must not talk to each other; a
loss that couples them, as batch normalisation does, has no per-example gradient and is refused.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from chainrule.core import tree
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Tree
from chainrule.derive import validate
from chainrule.derive.batched import index_map

Loss = Callable[[Any, Any], Array]


def per_sample_gradient(loss: Loss, params: Tree, batch: Tree, *, chunk: int | None = None) -> Tree:
    """The gradient of every example, stacked along a leading axis.

    >>> loss = lambda w, xy: jnp.mean((xy[0] @ w - xy[1]) ** 2)
    >>> per_sample_gradient(loss, jnp.ones(2), (jnp.eye(2), jnp.zeros(2))).tolist()
    [[2.0, 0.0], [0.0, 2.0]]
    """
    params, count = _checked("per_sample_gradient", loss, params, batch)
    return _map(lambda grads: grads, loss, params, batch, count, chunk)


def per_sample_norms(
    loss: Loss, params: Tree, batch: Tree, *, chunk: int | None = None
) -> Float[Array, " batch"]:
    """The norm of every example's gradient, without keeping the gradients."""
    params, count = _checked("per_sample_norms", loss, params, batch)
    return _map(tree.norm, loss, params, batch, count, chunk)


def clipped_sum(loss: Loss, params: Tree, batch: Tree, limit: float, *, chunk: int | None = None) -> Tree:
    """The sum of all gradients, each scaled down to norm `limit` where it exceeds it (as private training needs)."""
    if not limit > 0:
        raise ArgumentError(f"clipped_sum(limit={limit}): the limit must be positive")
    params, count = _checked("clipped_sum", loss, params, batch)
    zeros = jax.tree.map(jnp.zeros_like, params)
    size = min(chunk or count, count)

    def clip(grads: Tree) -> Tree:
        factor = jnp.minimum(1.0, limit / jnp.maximum(tree.norm(grads), 1e-30))
        return tree.scale(factor, grads)

    total = zeros
    for first in range(0, count, size):
        part = jax.tree.map(lambda a, f=first: a[f : f + size], batch)
        clipped = _map(clip, loss, params, part, min(size, count - first), None)
        total = tree.add(total, jax.tree.map(lambda a: a.sum(axis=0), clipped))
    return total


def _map(
    reduce: Callable[[Tree], Any], loss: Loss, params: Tree, batch: Tree, count: int, chunk: int | None
) -> Any:
    def one(i: Array) -> Any:
        return reduce(jax.grad(lambda p: _single(loss, p, batch, i))(params))

    return index_map(one, jnp.arange(count), chunk or count)


def _single(loss: Loss, params: Tree, batch: Tree, i: Array) -> Array:
    """The loss of one example, seen as a batch of one."""
    example = jax.tree.map(lambda a: jax.lax.dynamic_slice_in_dim(a, i, 1), batch)
    return jnp.sum(loss(params, example))


def _checked(where: str, loss: Loss, params: Tree, batch: Tree) -> tuple[Tree, int]:
    params = validate.point(where, params, name="params")
    sizes = {jnp.shape(leaf)[0] if jnp.ndim(leaf) else None for leaf in jax.tree.leaves(batch)}
    if len(sizes) != 1 or None in sizes:
        raise ArgumentError(
            f"{where}: the leaves of the batch have leading sizes {sorted(map(str, sizes))}, not one"
        )
    (count,) = sizes
    whole = loss(params, batch)
    if jnp.shape(whole) not in ((), (count,)):
        raise ArgumentError(f"{where}: the loss has shape {jnp.shape(whole)}, not () or ({count},)")
    singles = jax.vmap(lambda i: _single(loss, params, batch, i))(jnp.arange(count))
    if not isinstance(whole, jax.core.Tracer):
        expected = singles if jnp.ndim(whole) else singles.mean()
        scale = jnp.abs(expected).max() + jnp.finfo(singles.dtype).tiny
        tolerance = 1e3 * jnp.finfo(singles.dtype).eps
        if not bool(jnp.all(jnp.abs(whole - expected) <= tolerance * scale)):
            raise ArgumentError(
                f"{where}: the loss of the batch is not the mean of the losses of its examples "
                f"({float(jnp.mean(whole)):.6g} against {float(jnp.mean(expected)):.6g}), so examples are coupled",
                remedy="use a mean over examples, and a normalisation that does not look across the batch",
            )
    return params, int(count or 0)


__all__ = ["clipped_sum", "per_sample_gradient", "per_sample_norms"]
