"""Attention block by block with a running softmax, so that no row of scores ever exists whole.

For each block of queries the keys pass by in blocks; what is kept is the largest score so far, the sum of exponentials
and the weighted sum of values, rescaled whenever a larger score turns up (Milakov and Gimelshein, 2018; Rabe and
Staats, 2021). Blocks are recomputed in the backward pass, so memory stays proportional to the length there too, and
derivatives of every mode and order work. Blocks that the mask hides are skipped.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Int
from chainrule.nn.attention.masks import Mask

_BLOCK = 256
"""Queries, and keys, in a block: its scores stay in a processor's cache."""

Carry = tuple[Array, Array, Array]


def attend(
    query: Array,
    key: Array,
    value: Array,
    mask: Mask | None,
    bias: Callable[[Int[Array, " queries"], Int[Array, " keys"]], Array] | None,
    scale: float,
    block: int = _BLOCK,
) -> Array:
    """See `chainrule.nn.attention.attend`."""
    heads_in = query.shape[:-2]
    rows, columns = query.shape[-2], key.shape[-2]
    wide = jnp.promote_types(query.dtype, jnp.float32)
    key, value = (_repeated(x, heads_in) for x in (key, value))
    keys, values = (_blocks(x, block) for x in (key, value))
    positions = _positions(columns, block)

    @jax.checkpoint
    def one(queries: Array, at: Array) -> Array:
        def step(carry: Carry, inputs: tuple[Array, Array, Array]) -> tuple[Carry, None]:
            some_keys, some_values, there = inputs
            seen = _seen(mask, at, there, columns)

            def take(carry: Carry) -> Carry:
                scores = jnp.einsum("...qd,...kd->...qk", queries, some_keys, preferred_element_type=wide)
                if bias is not None:
                    scores = scores + jnp.broadcast_to(bias(at, there).astype(wide), scores.shape)
                return _updated(
                    carry, jnp.where(jnp.broadcast_to(seen, scores.shape), scores, -jnp.inf), some_values
                )

            return jax.lax.cond(seen.any(), take, lambda carry: carry, carry), None

        blank = queries.shape[:-1]
        start = (
            jnp.full(blank, -jnp.inf, wide),
            jnp.zeros(blank, wide),
            jnp.zeros((*blank, value.shape[-1]), wide),
        )
        (_, total, mean), _ = jax.lax.scan(jax.checkpoint(step), start, (keys, values, positions))
        return (mean / jnp.where(total == 0, 1, total)[..., None]).astype(value.dtype)

    scaled = _blocks(query * jnp.asarray(scale, query.dtype), block)
    out = jax.lax.map(lambda inputs: one(*inputs), (scaled, _positions(rows, block)))
    joined = jnp.moveaxis(out, 0, -3).reshape(*heads_in, -1, value.shape[-1])
    return joined[..., :rows, :]


def _updated(carry: Carry, scores: Array, values: Array) -> Carry:
    top, total, mean = carry
    new = jnp.maximum(top, jax.lax.stop_gradient(scores.max(axis=-1)))
    finite = jnp.where(new == -jnp.inf, 0, new)
    shrink = jnp.exp(top - finite)
    powers = jnp.exp(scores - finite[..., None])
    gathered = jnp.einsum(
        "...qk,...kd->...qd", powers.astype(values.dtype), values, preferred_element_type=mean.dtype
    )
    return new, total * shrink + powers.sum(axis=-1), mean * shrink[..., None] + gathered


def _seen(mask: Mask | None, queries: Array, keys: Array, columns: int) -> Array:
    real = (keys < columns)[None, :]
    if mask is None:
        return real
    # Positions after the end are filled up: rules are asked about the last real one instead.
    seen = mask.seen(queries, jnp.minimum(keys, columns - 1))
    return seen & real.reshape((1,) * (seen.ndim - 2) + real.shape)


def _positions(length: int, block: int) -> Array:
    return jnp.arange(-(-length // block) * block).reshape(-1, block)


def _blocks(x: Array, block: int) -> Array:
    """(..., time, size) as (blocks, ..., block, size), filled up with zeros."""
    *leading, length, size = x.shape
    count = -(-length // block)
    padded = jnp.pad(x, [(0, 0)] * len(leading) + [(0, count * block - length), (0, 0)])
    return jnp.moveaxis(padded.reshape(*leading, count, block, size), -3, 0)


def _repeated(x: Array, leading: tuple[int, ...]) -> Array:
    if not leading or x.shape[-3] == leading[-1]:
        return x
    return jnp.repeat(x, leading[-1] // x.shape[-3], axis=-3)


__all__ = ["attend"]
