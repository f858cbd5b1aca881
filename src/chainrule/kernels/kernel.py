"""What a kernel is: a symmetric function of two points whose matrices over points are positive semi-definite.

A kernel is a PyTree of its parameters, so it is differentiated and optimised like a network; scales are kept as
logarithms, which may be any number. Sums and products of kernels are kernels.
"""

import abc
import operator
from typing import TYPE_CHECKING, Any, Union

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Scalar
from chainrule.kernels.precision import traced
from chainrule.probability.distributions.parameters import finite, floating

if TYPE_CHECKING:
    from chainrule.kernels.functions.algebra import ProductKernel, Sum

Points = Float[Array, "rows features"]
TILE = 2**18
"""Entries of a Gram matrix that are computed at once unless told otherwise: as many as fit the cache of a core."""


class Kernel(eqx.Module):
    """A similarity `k(x, y)` that is an inner product of features, which are never written down."""

    @abc.abstractmethod
    def tile(self, x: Points, y: Float[Array, "columns features"]) -> Float[Array, "rows columns"]:
        """The kernel of every pair, all at once; what `gram` is made of."""

    @abc.abstractmethod
    def diagonal(self, x: Points) -> Float[Array, " rows"]:
        """`k(x_i, x_i)`."""

    def __call__(self, x: Any, y: Any) -> Scalar:
        """The kernel of two points; one number stands for a point with one coordinate."""
        a, b = points("kernel", "x", x, single=True), points("kernel", "y", y, single=True)
        _check_sizes(a, b)
        return self.tile(a, b)[0, 0]

    def gram(self, x: Any, y: Any = None, *, block: int | None = None) -> Float[Array, "rows columns"]:
        """The matrix `k(x_i, y_j)`, or `k(x_i, x_j)` without y; `block` rows at a time.

        Beside the result a few blocks are held at once. Unless told, they have as many entries as a cache holds.
        """
        rows = points("gram", "x", x)
        columns = rows if y is None else points("gram", "y", y)
        _check_sizes(rows, columns)
        if not traced(rows, columns):
            accept(self, rows)
            accept(self, columns)
        if block is None:
            block = max(1, TILE // max(1, len(columns)))
        return _gram(self, rows, columns, min(whole("gram", "block", block), max(1, len(rows))))

    def __add__(self, other: Union["Kernel", float]) -> "Sum":
        """The sum with another kernel, or with a constant."""
        from chainrule.kernels.functions.algebra import Sum, as_kernel

        return Sum(self, as_kernel(other))

    def __mul__(self, other: Union["Kernel", float]) -> "ProductKernel":
        """The product with another kernel, or with a positive number."""
        from chainrule.kernels.functions.algebra import ProductKernel, as_kernel

        return ProductKernel(self, as_kernel(other))

    __radd__ = __add__
    __rmul__ = __mul__


class ChecksPoints(Kernel):
    """A kernel that does not take every point."""

    @abc.abstractmethod
    def accept(self, x: Points) -> None:
        """Raise where known points are not such as this kernel takes."""


def accept(kernel: Kernel, x: Points) -> None:
    """Raise where a kernel does not take known points; inside compiled code they are not known."""
    if isinstance(kernel, ChecksPoints):
        kernel.accept(x)


def a_kernel(where: str, kernel: Any) -> Kernel:
    """The kernel that a machine was given; anything else is refused, and it is said what one looks like."""
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, type):
        given, remedy = f"the class {kernel.__name__}", f"make one of the class: {kernel.__name__}()"
    elif hasattr(kernel, "precomputed"):
        given = f"a {type(kernel).__name__}, which compares sequences"
        remedy = "use kernel.precomputed(sequences); points are then numbers of sequences"
    else:
        given = f"a {type(kernel).__name__}"
        remedy = "for example RBF(1.0), or 2.0 * Matern(2.5, scale=0.3)"
    raise ArgumentError(f"{where}(kernel): a Kernel is needed, not {given}", remedy=remedy)


def points(where: str, name: str, values: Any, *, single: bool = False) -> Points:
    """Points as rows of finite numbers; a vector holds points of one coordinate (or is one point, if `single`).

    >>> points("gram", "x", [1, 2]).shape, points("kernel", "x", [1, 2], single=True).shape
    ((2, 1), (1, 2))
    """
    try:
        given = floating(values)
    except (TypeError, ValueError):
        raise ArgumentError(
            f"{where}({name}): points are rows of numbers, all of one length",
            remedy="kernels of words and letters: kernels.sequences, FiniteKernel",
        ) from None
    array = finite(where, name, given)
    if single:
        array = array[None] if array.ndim else array[None, None]
    elif array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise ArgumentError(
            f"{where}({name}): points are the rows of a matrix, not an array of shape {array.shape}",
            remedy=f"flatten them: {name}.reshape(len({name}), -1)" if array.ndim > 2 else "",
        )
    return array


def _check_sizes(x: Array, y: Array) -> None:
    if x.shape[1] != y.shape[1]:
        raise ArgumentError(f"kernel: x has {x.shape[1]} features and y has {y.shape[1]}; both need the same")


@eqx.filter_jit
def _gram(kernel: Kernel, x: Array, y: Array, block: int) -> Array:
    rows = len(x)
    if block >= rows:
        return kernel.tile(x, y)
    tile = jax.eval_shape(kernel.tile, x[:block], y)
    # The last block begins early enough to be whole: rows computed twice are the same, and nothing is padded.
    starts = jnp.minimum(jnp.arange(-(-rows // block)) * block, rows - block)

    def put(i: Array, matrix: Array) -> Array:
        start = starts[i]
        part = kernel.tile(jax.lax.dynamic_slice_in_dim(x, start, block), y)
        return jax.lax.dynamic_update_slice_in_dim(matrix, part, start, axis=0)

    return jax.lax.fori_loop(0, operator.index(len(starts)), put, jnp.zeros((rows, len(y)), tile.dtype))


__all__ = ["ChecksPoints", "Kernel", "Points", "a_kernel", "accept", "points"]
