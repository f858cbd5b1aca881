"""Products in batches: all at once, or as many at a time as fit a memory budget."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from chainrule.core.types import Array


def basis_map(
    product: Callable[[Array], Array],
    size: int,
    dtype: Any,
    chunk: int,
    *,
    axis: int = 0,
    traced: bool = True,
) -> Array:
    """`product` of every unit vector of length `size`, stacked along an axis, `chunk` of them at a time.

    >>> basis_map(lambda v: 2.0 * v, 2, float, 1).tolist()
    [[2.0, 0.0], [0.0, 2.0]]
    """
    unit = lambda i: (jnp.arange(size) == i).astype(dtype)  # noqa: E731
    return index_map(lambda i: product(unit(i)), size, chunk, axis=axis, traced=traced)


def index_map(
    product: Callable[[Array], Array], count: int, chunk: int, *, axis: int = 0, traced: bool = True
) -> Array:
    """`product(i)` for `i` below `count`, stacked along an axis, `chunk` at a time.

    With `traced=False` batches are run by Python, for products that look at values. One at a time means just that:
    nothing is batched, so products that cannot be are run too.

    Batches are written into the result in place, and the last one overlaps the one before it rather than being
    shorter: `jax.lax.map` would join two parts, and stacking along another axis would transpose, each with a copy of
    the whole result.
    """
    chunk = even(count, chunk)
    if chunk == 1 and count:
        batch = lambda indices: jnp.expand_dims(product(indices[0]), axis)  # noqa: E731
    else:
        batch = jax.vmap(product, out_axes=axis)
    if chunk >= count:
        return batch(jnp.arange(count))
    if not traced:
        parts = [batch(jnp.arange(i, min(i + chunk, count))) for i in range(0, count, chunk)]
        return jnp.concatenate(parts, axis)
    shape = jax.eval_shape(product, jnp.arange(1)[0])
    result = jnp.zeros((*shape.shape[:axis], count, *shape.shape[axis:]), shape.dtype)

    def step(result: Array, start: Array) -> tuple[Array, None]:
        part = batch(start + jnp.arange(chunk))
        return jax.lax.dynamic_update_slice_in_dim(result, part, start, axis), None

    starts = jnp.minimum(jnp.arange(0, count, chunk), count - chunk)
    return jax.lax.scan(step, result, starts)[0]


def even(count: int, chunk: int) -> int:
    """The smallest batch that needs no more batches.

    >>> even(1000, 999), even(10, 5), even(3, 100)
    (500, 5, 3)
    """
    rounds = max(1, -(-count // chunk))
    return max(1, -(-count // rounds))


__all__ = ["basis_map", "even", "index_map"]
