"""Sparse formats: matrices from the values at a pattern's positions, one maker per format, prepared once.

What a maker does on the device ("dense" scatters) is part of the compiled program; what it does afterwards is as little
as can be, because a small derivative takes no longer than a few Python calls.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from jax.experimental import sparse

from chainrule.core.errors import CapabilityError
from chainrule.core.types import Array
from chainrule.derive.sparse.patterns import Pattern


@final
@dataclass(frozen=True)
class Maker:
    """The two halves of making a matrix."""

    inside: Callable[[Array], Array]
    """On the device, from the values; may be compiled."""
    outside: Callable[[Array], Any]
    """From what `inside` returned."""


def maker(where: str, pattern: Pattern, format: str) -> Maker:
    """How to make matrices of this format."""
    return _MAKERS[format](where, pattern)


def _same(array: Array) -> Array:
    return array


def _values(_: str, __: Pattern) -> Maker:
    return Maker(_same, _same)


def _dense(_: str, pattern: Pattern) -> Maker:
    def scatter(values: Array) -> Array:
        empty = jnp.zeros(pattern.shape, dtype=values.dtype)
        entries = empty.at[pattern.rows, pattern.cols]
        return entries.set(values, unique_indices=True, indices_are_sorted=True, mode="promise_in_bounds")

    return Maker(scatter, _same)


def _bcoo(_: str, pattern: Pattern) -> Maker:
    indices = jax.device_put(np.stack([pattern.rows, pattern.cols], axis=1))
    like = sparse.BCOO(
        (_some_values(pattern), indices), shape=pattern.shape, indices_sorted=True, unique_indices=True
    )
    return Maker(_same, _filled(like))


def _bcsr(_: str, pattern: Pattern) -> Maker:
    starts = jax.device_put(pattern.indptr.astype(np.int32))
    parts = (_some_values(pattern), jax.device_put(pattern.cols), starts)
    like = sparse.BCSR(parts, shape=pattern.shape, indices_sorted=True, unique_indices=True)
    return Maker(_same, _filled(like))


def _some_values(pattern: Pattern) -> Array:
    # Moved to the device as they are: jnp.zeros and jnp.asarray are programs, to be compiled for every new shape.
    return jax.device_put(np.zeros(pattern.nnz, dtype=jnp.result_type(float)))


def _filled(like: Any) -> Callable[[Array], Any]:
    """Other values in a matrix of JAX's, as JAX itself puts them in; several times faster than the constructor."""
    (_, *indices), about = like.tree_flatten()
    refill = type(like).tree_unflatten
    return lambda values: refill(about, (values, *indices))


def _csr(where: str, pattern: Pattern) -> Maker:
    def make(values: Array) -> Any:
        _on_the_host(where, "csr", values)
        arrays = (_known_to_scipy(values), pattern.cols, pattern.indptr)
        return scipy.sparse.csr_array(arrays, shape=pattern.shape)

    return Maker(_same, make)


def _csc(where: str, pattern: Pattern) -> Maker:
    turned = scipy.sparse.csr_array(
        (np.arange(pattern.nnz), pattern.cols, pattern.indptr), shape=pattern.shape
    )
    by_column = turned.tocsc()
    order = by_column.data.copy()

    def make(values: Array) -> Any:
        _on_the_host(where, "csc", values)
        arrays = (_known_to_scipy(values)[order], by_column.indices, by_column.indptr)
        return scipy.sparse.csc_array(arrays, shape=pattern.shape)

    return Maker(_same, make)


def _known_to_scipy(values: Any) -> np.ndarray:
    """The values as they are, or half precision in single: SciPy has no matrices of narrower numbers."""
    array = np.asarray(values)
    return array if array.dtype.itemsize >= np.dtype(np.float32).itemsize else array.astype(np.float32)


def _on_the_host(where: str, format: str, values: Any) -> None:
    if isinstance(values, jax.core.Tracer):
        raise CapabilityError(
            f'{where}(format="{format}"): SciPy matrices cannot be made inside jit, vmap or grad',
            remedy="use .values(x) inside and .matrix(values) outside,\n"
            'or prepare it with format="bcoo", "bcsr", "dense" or "values"',
        )


_MAKERS: dict[str, Callable[[str, Pattern], Maker]] = {
    "bcoo": _bcoo,
    "bcsr": _bcsr,
    "csr": _csr,
    "csc": _csc,
    "dense": _dense,
    "values": _values,
}
FORMATS = tuple(_MAKERS)

__all__ = ["FORMATS", "Maker", "maker"]
