"""Kernels made of kernels: sums, products, scaled, normalised, of some columns, of the outputs of a network.

Reference: Shawe-Taylor and Cristianini, Kernel Methods for Pattern Analysis, 2004, section 3.4.
"""

from collections.abc import Callable, Sequence
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Scalar
from chainrule.kernels.kernel import ChecksPoints, Kernel, Points, accept
from chainrule.kernels.positive import refuse_asymmetry
from chainrule.kernels.precision import traced
from chainrule.probability.distributions.parameters import floating, positive, require


@final
class Constant(Kernel):
    """The same positive number for every pair: functions that are constant; as a factor, their variance."""

    log_value: Scalar

    def __init__(self, value: Any = 1.0) -> None:
        self.log_value = jnp.log(positive("Constant", "value", floating(value)))

    @property
    def value(self) -> Scalar:
        """The number."""
        return jnp.exp(self.log_value)

    def tile(self, x: Points, y: Float[Array, "columns features"]) -> Float[Array, "rows columns"]:
        return jnp.broadcast_to(self.value, (len(x), len(y)))

    def diagonal(self, x: Points) -> Float[Array, " rows"]:
        return jnp.broadcast_to(self.value, (len(x),))


@final
class Sum(ChecksPoints):
    """`first(x, y) + second(x, y)`: features side by side, independent functions added."""

    first: Kernel
    second: Kernel

    def accept(self, x: Points) -> None:
        accept(self.first, x)
        accept(self.second, x)

    def tile(self, x: Points, y: Float[Array, "columns features"]) -> Float[Array, "rows columns"]:
        return self.first.tile(x, y) + self.second.tile(x, y)

    def diagonal(self, x: Points) -> Float[Array, " rows"]:
        return self.first.diagonal(x) + self.second.diagonal(x)


@final
class ProductKernel(ChecksPoints):
    """`first(x, y) second(x, y)`: products of every two features."""

    first: Kernel
    second: Kernel

    def accept(self, x: Points) -> None:
        accept(self.first, x)
        accept(self.second, x)

    def tile(self, x: Points, y: Float[Array, "columns features"]) -> Float[Array, "rows columns"]:
        return self.first.tile(x, y) * self.second.tile(x, y)

    def diagonal(self, x: Points) -> Float[Array, " rows"]:
        return self.first.diagonal(x) * self.second.diagonal(x)


@final
class Normalized(ChecksPoints):
    """`k(x, y) / sqrt(k(x, x) k(y, y))`: the cosine of the angle between features."""

    kernel: Kernel

    def accept(self, x: Points) -> None:
        accept(self.kernel, x)

    def tile(self, x: Points, y: Float[Array, "columns features"]) -> Float[Array, "rows columns"]:
        own = self.kernel.diagonal(x)[:, None] * self.kernel.diagonal(y)[None, :]
        known = own > 0
        return jnp.where(known, self.kernel.tile(x, y) / jnp.sqrt(jnp.where(known, own, 1.0)), 0.0)

    def diagonal(self, x: Points) -> Float[Array, " rows"]:
        return jnp.where(self.kernel.diagonal(x) > 0, 1.0, 0.0)


@final
class OnColumns(ChecksPoints):
    """A kernel of some columns of the points."""

    kernel: Kernel
    columns: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, kernel: Kernel, columns: Sequence[int]) -> None:
        given = np.atleast_1d(columns)
        if not given.size or given.ndim > 1 or not np.issubdtype(given.dtype, np.integer):
            raise ArgumentError(
                f"OnColumns(columns={columns!r}): the numbers of one column or more are needed, each a whole number"
            )
        self.kernel = kernel
        self.columns = tuple(int(column) for column in given)

    def _of(self, x: Array) -> Array:
        for column in self.columns:
            if not -x.shape[1] <= column < x.shape[1]:
                raise ArgumentError(
                    f"OnColumns(columns={list(self.columns)}): column {column} of points of {x.shape[1]} features",
                    remedy=f"columns are numbered 0 to {x.shape[1] - 1}",
                )
        return x[:, jnp.array(self.columns)]

    def accept(self, x: Points) -> None:
        accept(self.kernel, self._of(x))

    def tile(self, x: Points, y: Float[Array, "columns features"]) -> Float[Array, "rows columns"]:
        return self.kernel.tile(self._of(x), self._of(y))

    def diagonal(self, x: Points) -> Float[Array, " rows"]:
        return self.kernel.diagonal(self._of(x))


@final
class Composed(ChecksPoints):
    """A kernel of what a map makes of the points: any function of a batch, such as a network (a deep kernel)."""

    kernel: Kernel
    map: Callable[[Array], Array]

    def accept(self, x: Points) -> None:
        accept(self.kernel, self.map(x))

    def tile(self, x: Points, y: Float[Array, "columns features"]) -> Float[Array, "rows columns"]:
        return self.kernel.tile(self.map(x), self.map(y))

    def diagonal(self, x: Points) -> Float[Array, " rows"]:
        return self.kernel.diagonal(self.map(x))


@final
class Precomputed(ChecksPoints):
    """A matrix of similarities of known items; a point is the number of an item.

    What NumPy holds stays as precise as it is: rounded to single precision a Gram matrix need not be one any more.

    >>> items = Precomputed([[1.0, 0.5], [0.5, 1.0]])
    >>> items.gram([0, 1], [1]).tolist()
    [[0.5], [1.0]]
    """

    matrix: Float[Array, "items items"] | Float[np.ndarray, "items items"]

    def __init__(self, matrix: Any) -> None:
        self.matrix = floating(matrix) if isinstance(matrix, jax.Array) else np.asarray(matrix, np.float64)
        if self.matrix.ndim != 2 or self.matrix.shape[0] != self.matrix.shape[1]:
            raise ArgumentError(f"Precomputed(matrix): needs a square matrix, not shape {self.matrix.shape}")
        if not traced(self.matrix):
            refuse_asymmetry("Precomputed", "matrix", np.asarray(self.matrix))

    @property
    def _wanted(self) -> str:
        return f"be a whole number from 0 to {len(self.matrix) - 1}"

    def _numbers(self, x: Array) -> Array:
        if x.shape[1] != 1:
            raise ArgumentError(
                f"Precomputed: points are the numbers of items, one column and not {x.shape[1]}"
            )
        numbers = x[:, 0].astype(jnp.int32)
        wrong = (numbers < 0) | (numbers >= len(self.matrix)) | (numbers != x[:, 0])
        return eqx.error_if(numbers, wrong, f"Precomputed: an item must {self._wanted}")

    def accept(self, x: Points) -> None:
        require(
            "Precomputed",
            "item",
            x,
            lambda v: (v >= 0) & (v < len(self.matrix)) & (v == v // 1),
            self._wanted,
        )

    def tile(self, x: Points, y: Float[Array, "columns features"]) -> Float[Array, "rows columns"]:
        return jnp.asarray(self.matrix)[self._numbers(x)][:, self._numbers(y)]

    def diagonal(self, x: Points) -> Float[Array, " rows"]:
        numbers = self._numbers(x)
        return jnp.asarray(self.matrix)[numbers, numbers]


def as_kernel(value: Any) -> Kernel:
    """A kernel as it is, a positive number as the constant kernel."""
    if isinstance(value, Kernel):
        return value
    if not isinstance(value, int | float | np.number | np.ndarray | jax.Array):
        raise ArgumentError(
            f"kernel: kernels are added to and multiplied with kernels and positive numbers, not a "
            f"{type(value).__name__}"
        )
    return Constant(value)


__all__ = [
    "Composed",
    "Constant",
    "Normalized",
    "OnColumns",
    "Precomputed",
    "ProductKernel",
    "Sum",
    "as_kernel",
]
