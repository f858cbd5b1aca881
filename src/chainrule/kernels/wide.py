"""Double precision kept in arrays of single precision: what was solved in double precision survives in a model.

Arrays of a model are of single precision. Weights and factors of Gram matrices rounded to it would lose what their
solution in double precision gained, so each number is kept as the sum of two. `doubled` calls a function in double
precision inside of any compiled code, where the two are put together.
"""

from collections.abc import Callable
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.types import Array, Float


@final
class Wide(eqx.Module):
    """An array of double precision as the sum of two of single precision.

    >>> third = Wide.of(np.array([1 / 3]), jnp.float32)
    >>> float(third.high[0]) == 1 / 3, abs(float(third.high[0]) + float(third.low[0]) - 1 / 3) < 1e-15
    (False, True)
    """

    high: Float[Array, "..."]
    low: Float[Array, "..."]
    """What rounding left over."""

    @classmethod
    def of(cls, values: Any, dtype: Any) -> "Wide":
        """From numbers of double precision, in two arrays of this type."""
        return cls(*(jnp.asarray(part, dtype) for part in _split(np.asarray(values, np.float64), dtype)))

    def double(self) -> Float[Array, "..."]:
        """The numbers in double precision; call it where that is on."""
        return self.high.astype(jnp.float64) + self.low.astype(jnp.float64)


@final
class WideTriangle(eqx.Module):
    """A lower triangular matrix of double precision in one square of single precision and a vector.

    What rounding left of the entry (i, j) stands at (j, i); of the diagonal, beside it.
    """

    packed: Float[Array, "size size"]
    diagonal_low: Float[Array, " size"]

    @classmethod
    def of(cls, lower: Float[np.ndarray, "size size"], dtype: Any) -> "WideTriangle":
        """From a lower triangular matrix; what stands above the diagonal is not read."""
        high, low = _split(np.asarray(lower, np.float64), dtype)
        packed = np.tril(high) + np.tril(low, -1).T
        return cls(jnp.asarray(packed, dtype), jnp.asarray(np.diagonal(low), dtype))

    def double(self) -> Float[Array, "size size"]:
        """The matrix in double precision; call it where that is on."""
        packed, low = self.packed.astype(jnp.float64), self.diagonal_low.astype(jnp.float64)
        return jnp.tril(packed) + jnp.triu(packed, 1).T + jnp.diag(low)


def counted_once(tree: Any) -> Any:
    """The same tree, whose derivatives by numbers of double precision are by their larger parts alone.

    Both parts of a number have the same derivative; a kernel of derivatives would count the number twice.

    >>> total = lambda a: counted_once(a).high.sum() + counted_once(a).low.sum()
    >>> slope = jax.grad(total)(Wide.of(np.ones(1), jnp.float32))
    >>> float(slope.high[0]), float(slope.low[0])
    (1.0, 0.0)
    """
    return jax.tree.map(_once, tree, is_leaf=lambda node: isinstance(node, Wide | WideTriangle))


def _once(node: Any) -> Any:
    still = jax.lax.stop_gradient
    if isinstance(node, Wide):
        return Wide(node.high, still(node.low))
    if isinstance(node, WideTriangle):
        packed = jnp.tril(node.packed) + still(jnp.triu(node.packed, 1))
        return WideTriangle(packed, still(node.diagonal_low))
    return node


def doubled(function: Callable[..., Any], *arguments: Any, dtype: Any) -> Any:
    """What a function of trees gives when all it computes is in double precision; floating results are of this type.

    It may be called inside compiled code of any precision, and has derivatives in reverse mode, likewise computed;
    where double precision is on, in every mode.

    >>> float(doubled(lambda x: (1 + x) - 1, jnp.float32(1e-10), dtype=jnp.float32)) > 0
    True
    """
    arrays, rest = eqx.partition(arguments, eqx.is_inexact_array)
    # Flags and whole numbers are handed over, too: a derivative taken later must not meet them in a closure.
    others, fixed = eqx.partition(rest, eqx.is_array)

    def inner(wide: Any, others: Any) -> Any:
        return function(*eqx.combine(wide, others, fixed))

    if jax.config.jax_enable_x64:  # type: ignore[attr-defined]  # nothing to switch on
        return _cast(inner(_cast(arrays, jnp.float64), others), dtype)

    @jax.custom_vjp
    def call(arrays: Any, others: Any) -> Any:
        with jax.enable_x64(True):
            return _cast(inner(_cast(arrays, jnp.float64), others), dtype)

    def forward(arrays: Any, others: Any) -> tuple[Any, Any]:
        with jax.enable_x64(True):
            found, back = jax.vjp(lambda wide: inner(wide, others), _cast(arrays, jnp.float64))
            return _cast(found, dtype), back

    def backward(back: Any, slopes: Any) -> tuple[Any, None]:
        with jax.enable_x64(True):
            (found,) = back(_cast(slopes, jnp.float64))
            return jax.tree.map(lambda slope, own: slope.astype(own.dtype), found, arrays), None

    call.defvjp(forward, backward)
    return call(arrays, others)


def _cast(tree: Any, dtype: Any) -> Any:
    return jax.tree.map(lambda a: a.astype(dtype) if eqx.is_inexact_array(a) else a, tree)


def _split(values: np.ndarray, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    high = values.astype(dtype).astype(np.float64)
    return high, values - high


__all__ = ["Wide", "WideTriangle", "counted_once", "doubled"]
