"""Attention as a function of queries, keys and values, by four routes that agree.

`plain` builds the scores and is the one that can return the weights. `chunked` goes through queries and keys block by
block and never holds more scores than one block (Rabe and Staats, 2021). `fused` hands the work to
`jax.nn.dot_product_attention`: on a GPU and in 16 bits that is cuDNN's kernel. `native` is our own program for CPUs, in
single precision, of sizes that fill registers, with no mask or a causal one. Leading axes are (batch, heads); keys
and values may have fewer heads than queries, which then share them in groups (Ainslie et al., 2023).
"""

import math
from collections.abc import Callable
from typing import Literal, TypeAlias, get_args

import jax.numpy as jnp

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Float, Int, Key
from chainrule.nn.attention import chunked, fused, native
from chainrule.nn.attention.masks import Mask
from chainrule.nn.attention.softmax import softmax
from chainrule.nn.dropout import Dropout
from chainrule.nn.native import availability

Path: TypeAlias = Literal["auto", "plain", "chunked", "fused", "native"]
Bias: TypeAlias = Callable[[Int[Array, " queries"], Int[Array, " keys"]], Array]
"""From positions of queries and keys to what is added to their scores, (heads, queries, keys)."""

_MOST_SCORES = 2**27
"""Scores that `path="auto"` is willing to hold at once: half a gigabyte in single precision."""


def attend(
    query: Float[Array, "*leading queries size"],
    key: Float[Array, "*others keys size"],
    value: Float[Array, "*others rows outputs"],
    *,
    mask: Mask | None = None,
    bias: Bias | None = None,
    scale: float | None = None,
    path: Path = "auto",
    dropout: float = 0.0,
    dropout_key: Key | None = None,
) -> Float[Array, "*leading queries outputs"]:
    """Means of the values, weighted by `softmax(scale * query · key + bias)` over the keys that the mask allows.

    `scale` is 1/sqrt(size) unless given. A query that may see nothing gets zeros. Scores and their softmax are
    computed in float32; for wider inputs in their type, except by the fused path. `dropout` acts on the weights when
    it comes with a key, and then the path is the plain one.

    >>> x = jnp.eye(4)
    >>> attend(x, x, x, scale=100.0).round(3)[0]
    Array([1., 0., 0., 0.], dtype=float32)
    """
    check_choice("attend", "path", path, get_args(Path))
    _check(query, key, value)
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    drops = dropout > 0 and dropout_key is not None
    if path == "auto":
        path = "plain" if drops else _chosen(query, key, value, mask, bias)
    if drops and path != "plain":
        raise ArgumentError(f'attend(path="{path}"): weights can be dropped on the plain path only')
    if path == "fused":
        return fused.attend(query, key, value, mask, bias, scale)
    if path == "chunked":
        return chunked.attend(query, key, value, mask, bias, scale)
    if path == "native":
        if not native.fast(query, key, value, mask, bias):
            raise ArgumentError(
                f'attend(path="native"): no program for queries of shape {query.shape} ({query.dtype}), keys of shape '
                f"{key.shape}, this mask and this machine",
                remedy="use path=auto",
            )
        return native.attend(query, key, value, mask, scale)
    weights = _weights(query, key, mask, bias, scale, None).astype(value.dtype)
    if drops:
        assert dropout_key is not None
        weights = Dropout(dropout)(weights, dropout_key)
    return gather(weights, value)


def attention_weights(
    query: Float[Array, "*leading queries size"],
    key: Float[Array, "*others keys size"],
    *,
    mask: Mask | None = None,
    bias: Bias | None = None,
    scale: float | None = None,
    at: tuple[Int[Array, " queries"], Int[Array, " keys"]] | None = None,
) -> Float[Array, "*leading queries keys"]:
    """The weights by which `attend` takes means: rows are queries, and each sums to one or is zero.

    `at` holds the positions of queries and keys where they are not 0, 1, 2, and so on.
    """
    _check(query, key, key)
    return _weights(query, key, mask, bias, 1 / math.sqrt(query.shape[-1]) if scale is None else scale, at)


def _weights(
    query: Array,
    key: Array,
    mask: Mask | None,
    bias: Bias | None,
    scale: float,
    at: tuple[Array, Array] | None,
) -> Array:
    # Scaling the queries costs a pass over (queries, size) numbers, scaling the scores one over (queries, keys).
    wide = jnp.promote_types(query.dtype, jnp.float32)
    shared = _grouped(query * jnp.asarray(scale, query.dtype), key)
    scores = jnp.einsum("...qd,...kd->...qk", shared, key, preferred_element_type=wide)
    scores = scores.reshape(*query.shape[:-1], key.shape[-2])
    queries, keys = scores.shape[-2:]
    if bias is not None:
        extra = bias(*((jnp.arange(queries), jnp.arange(keys)) if at is None else at)).astype(wide)
        scores = scores + jnp.broadcast_to(extra, scores.shape)
    if mask is None:
        return softmax(scores)
    seen = mask.table(queries, keys) if at is None else mask.seen(*at)
    if seen.ndim > scores.ndim:
        raise ArgumentError(
            f"the mask tells examples apart (shape {seen.shape}), but the scores have shape {scores.shape}",
            remedy="give queries, keys and values the axes (batch, heads, time, size)",
        )
    return softmax(scores, where=seen)


def gather(
    weights: Float[Array, "*leading queries keys"], value: Float[Array, "*others keys outputs"]
) -> Float[Array, "*leading queries outputs"]:
    """Means of the values by given weights; heads share values in groups where there are fewer of them."""
    out = jnp.einsum("...qk,...kd->...qd", _grouped(weights, value), value)
    return out.reshape(*weights.shape[:-1], value.shape[-1])


def _grouped(query: Array, key: Array) -> Array:
    """Queries of all heads that share a key, in one row after the other, so that one product serves them all."""
    if query.ndim < 3 or query.shape[-3] == key.shape[-3]:
        return query
    *leading, heads, queries, size = query.shape
    groups = key.shape[-3]
    return query.reshape(*leading, groups, heads // groups * queries, size)


def _chosen(query: Array, key: Array, value: Array, mask: Mask | None, bias: Bias | None) -> Path:
    if availability.left_out():
        return "plain"
    if fused.fast(query, value, mask, bias):
        return "fused"
    if native.fast(query, key, value, mask, bias):
        return "native"
    return "chunked" if math.prod(query.shape[:-1]) * key.shape[-2] > _MOST_SCORES else "plain"


def _check(query: Array, key: Array, value: Array) -> None:
    if key.shape[-2] != value.shape[-2]:
        raise ArgumentError(f"attend: {key.shape[-2]} keys but {value.shape[-2]} values; each key needs one")
    if query.shape[:-3] != key.shape[:-3] or query.ndim != key.ndim:
        raise ArgumentError(
            f"attend: queries of shape {query.shape} and keys of shape {key.shape} differ in their leading axes"
        )
    if query.ndim > 2 and query.shape[-3] % key.shape[-3]:
        raise ArgumentError(
            f"attend: {query.shape[-3]} heads of queries cannot share {key.shape[-3]} heads of keys evenly"
        )


__all__ = ["Bias", "Path", "attend", "attention_weights", "gather"]
