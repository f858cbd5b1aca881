"""Masked softmax, and the differentiable lookup table it makes of keys and values.

`jax.nn.softmax` gives NaN for a row in which nothing may be seen; here such a row is zero and so is its derivative.
"""

import functools
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Bool

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Float


def softmax(x: Float[Array, "*axes"], where: Bool[Array, "..."] | None = None, axis: int = -1) -> Array:
    """`exp(x) / sum(exp(x))` along an axis, over the entries that `where` allows; zeros where it allows none.

    The largest allowed entry is subtracted first, so nothing overflows. An entry of -inf counts as not allowed.

    >>> softmax(jnp.array([1000.0, 1000.0, 0.0]))
    Array([0.5, 0.5, 0. ], dtype=float32)
    >>> softmax(jnp.array([1.0, 2.0]), where=jnp.array([False, False]))
    Array([0., 0.], dtype=float32)
    """
    if where is not None:
        x = jnp.where(jnp.broadcast_to(where, x.shape), x, -jnp.inf)
    return _normalised(x, axis)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _normalised(x: Array, axis: int) -> Array:
    # The derivative is written out: it needs the result only, and a row of zeros stays one.
    top = jnp.max(x, axis=axis, keepdims=True, initial=-jnp.inf)
    powers = jnp.exp(x - jnp.where(top == -jnp.inf, 0, top))
    total = powers.sum(axis=axis, keepdims=True)
    return powers / jnp.where(total == 0, 1, total)


@_normalised.defjvp
def _normalised_jvp(axis: int, primals: Any, tangents: Any) -> tuple[Array, Array]:
    (x,), (t,) = primals, tangents
    p = _normalised(x, axis)
    weighted = p * t
    return p, weighted - p * weighted.sum(axis=axis, keepdims=True)


def lookup(
    query: Float[Array, "*leading size"],
    keys: Float[Array, "entries size"],
    values: Float[Array, "rows outputs"],
    kind: Literal["linear", "softmax"] = "softmax",
) -> Float[Array, "*leading outputs"]:
    """A table that can be differentiated: the values, weighted by how well each key fits the query.

    The weights are the inner products `<query, key>` ("linear") or their softmax. With basis vectors for keys and a
    basis vector for a query, the linear table returns one value exactly; everything in between is a mixture.

    >>> keys, values = jnp.eye(6), jnp.arange(6.0)[:, None]
    >>> lookup(jnp.zeros(6).at[3].set(1).at[5].set(2), keys, values, kind="linear")  # v_3 + 2 v_5
    Array([13.], dtype=float32)
    """
    check_choice("lookup", "kind", kind, ("linear", "softmax"))
    if keys.shape[0] != values.shape[0]:
        raise ArgumentError(f"lookup: {keys.shape[0]} keys but {values.shape[0]} values; each key needs one")
    weights = query @ keys.T
    return (softmax(weights) if kind == "softmax" else weights) @ values


__all__ = ["lookup", "softmax"]
