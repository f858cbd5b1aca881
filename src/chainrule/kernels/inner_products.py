"""Inner products `x' M y` of vectors, and the change of coordinates that makes them plain ones.

For a symmetric positive definite M there is L with `M = L' L`; in the coordinates `L x` the inner product is the plain
one. A Cholesky factorisation gives the lower C with `M = C C'`, so L is the transpose of C.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.kernels.positive import factored, symmetric
from chainrule.kernels.precision import in_double, traced

Vectors = Float[Array | np.ndarray, "*batch size"]


@final
class InnerProduct(eqx.Module):
    """`<x, y> = x' M y` with lengths, angles and distances of its own; every method takes vectors or rows of them.

    >>> skewed = InnerProduct([[2.0, 1.0], [1.0, 2.0]])
    >>> float(skewed.inner([1.0, 0.0], [0.0, 1.0])), float(skewed.norm([1.0, 1.0])) ** 2
    (1.0, 6.0...)
    >>> InnerProduct([[1.0, 2.0], [2.0, 1.0]])
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: InnerProduct(M): not positive definite: its smallest eigenvalue is -1
           every vector but zero needs a positive square; add more than 1 to the diagonal
    """

    matrix: Float[Array | np.ndarray, "size size"]
    lower: Float[Array | np.ndarray, "size size"]
    """C with `M = C C'`."""

    def __init__(self, M: Any) -> None:
        self.matrix = symmetric("InnerProduct", "M", M)
        if not self.matrix.size:
            raise ArgumentError("InnerProduct(M): an empty matrix has no vectors")
        values = np.linalg.eigvalsh(self.matrix)
        if values[0] <= len(values) * np.finfo(np.float64).eps * abs(values[-1]):
            raise ArgumentError(
                f"InnerProduct(M): not positive definite: its smallest eigenvalue is {values[0]:.6g}",
                remedy="every vector but zero needs a positive square; add more than "
                f"{max(0.0, -values[0]):.3g} to the diagonal",
            )
        self.lower = _lower(self.matrix)

    def inner(self, x: Any, y: Any) -> Float[Array | np.ndarray, "*batch"]:
        """`x' M y`."""
        return _inner(self, self._vectors("x", x), self._vectors("y", y))

    def norm(self, x: Any) -> Float[Array | np.ndarray, "*batch"]:
        """The length of x."""
        return _norm(self, self._vectors("x", x))

    def distance(self, x: Any, y: Any) -> Float[Array | np.ndarray, "*batch"]:
        """The length of x - y."""
        return _distance(self, self._vectors("x", x), self._vectors("y", y))

    def angle(self, x: Any, y: Any) -> Float[Array | np.ndarray, "*batch"]:
        """The angle between x and y in radians, from 0 to pi; the zero vector has none (NaN inside compiled code)."""
        given = {"x": self._vectors("x", x), "y": self._vectors("y", y)}
        for name, vectors in given.items():
            if not traced(vectors) and not (known := np.asarray(vectors).any(axis=-1)).all():
                which = f" {', '.join(map(str, np.argwhere(~known)[0]))}" if known.ndim else ""
                raise ArgumentError(
                    f"InnerProduct.angle({name}): vector{which} is zero, and there is no angle with it",
                    remedy="leave zero vectors out",
                )
        return _angle(self, given["x"], given["y"])

    def whiten(self, x: Any) -> Vectors:
        """Coordinates `L x` in which the inner product is the plain one."""
        return _whiten(self, self._vectors("x", x))

    def unwhiten(self, w: Any) -> Vectors:
        """The vector with these coordinates."""
        return _unwhiten(self, self._vectors("w", w))

    def gram_schmidt(self, vectors: Any) -> Float[Array | np.ndarray, "count size"]:
        """Orthonormal rows: row i lies in the span of the first i vectors and is orthogonal to the others.

        Computed by a QR factorisation in whitened coordinates, which keeps rows orthogonal where subtracting
        projections one by one would not.
        """
        rows = self._vectors("vectors", vectors)
        if rows.ndim != 2:
            raise ArgumentError(
                f"gram_schmidt(vectors): vectors are rows, not an array of shape {rows.shape}"
            )
        made, sizes = _gram_schmidt(self, rows)
        small = np.flatnonzero(~(np.asarray(sizes) > 1e-10))
        if len(small) or len(rows) > len(self.matrix):
            first = int(small[0]) if len(small) else len(self.matrix)
            raise ArgumentError(
                f"gram_schmidt: vector {first} depends on those before it", remedy=f"leave out vector {first}"
            )
        return made

    def check_axioms(self, key: Key | None = None) -> "Axioms":
        """What symmetry, definiteness and bilinearity look like on random vectors."""
        return check_axioms(self.inner, len(self.matrix), key)

    def _vectors(self, name: str, values: Any) -> Any:
        vectors = values if isinstance(values, jax.Array) else np.asarray(values, np.float64)
        if not vectors.ndim or vectors.shape[-1] != len(self.matrix):
            raise ArgumentError(
                f"InnerProduct: {name} of shape {vectors.shape} does not fit M of shape {self.matrix.shape}",
                remedy="coordinates come last",
            )
        return vectors


@final
@dataclass(frozen=True)
class Axioms:
    """How far a function of two vectors is from an inner product, on random vectors; it counts as true if it is one."""

    asymmetry: float
    """The largest `|<x, y> - <y, x>|`, in units of |x| |y|, plain lengths."""
    nonlinearity: float
    """The largest `|<a x + b y, z> - a <x, z> - b <y, z>|`, in the same units."""
    smallest_square: float
    """The smallest `<x, x>` of vectors of plain length one."""

    def __bool__(self) -> bool:
        return self.asymmetry < 1e-9 and self.nonlinearity < 1e-9 and self.smallest_square > 0


def check_axioms(
    inner: Callable[[Any, Any], Any], size: int, key: Key | None = None, draws: int = 256
) -> Axioms:
    """Try symmetry, bilinearity and positive definiteness of a function of two vectors on random ones.

    Numbers are in units of the largest value that vectors of length one gave.

    >>> found = check_axioms(lambda x, y: (x * y).sum(-1) ** 2, 3)
    >>> bool(found), found.asymmetry, found.nonlinearity > 0.1
    (False, 0.0, True)
    """
    key = jax.random.key(0) if key is None else key
    random = np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel().tolist())
    x, y, z = random.normal(size=(3, draws, size))
    x, y, z = (one / np.linalg.norm(one, axis=1, keepdims=True) for one in (x, y, z))
    a, b = random.normal(size=(2, draws))

    def value(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        found = np.asarray(inner(first, second), np.float64)
        if found.shape != (draws,):
            raise ArgumentError(
                f"check_axioms(inner): {draws} pairs of rows gave an array of shape {found.shape}"
            )
        return found

    plain, squares = value(x, z), value(x, x)
    unit = max(np.abs(plain).max(), np.abs(squares).max(), 1e-300)
    mixed = value(a[:, None] * x + b[:, None] * y, z) - a * plain - b * value(y, z)
    return Axioms(
        float(np.abs(plain - value(z, x)).max() / unit),
        float(np.abs(mixed).max() / unit),
        float(squares.min() / unit),
    )


@in_double
def _lower(matrix: Array) -> Array:
    found = factored(matrix, "M")
    return found.lower


@in_double
def _inner(product: InnerProduct, x: Array, y: Array) -> Array:
    return (_upward(product, x) * _upward(product, y)).sum(axis=-1)


@in_double
def _norm(product: InnerProduct, x: Array) -> Array:
    return jnp.linalg.norm(_upward(product, x), axis=-1)


@in_double
def _distance(product: InnerProduct, x: Array, y: Array) -> Array:
    return jnp.linalg.norm(_upward(product, x - y), axis=-1)


@in_double
def _angle(product: InnerProduct, x: Array, y: Array) -> Array:
    w, z = _upward(product, x), _upward(product, y)
    w, z = (one / jnp.linalg.norm(one, axis=-1, keepdims=True) for one in (w, z))
    # Kahan's formula: the arc cosine loses half of the digits of small angles.
    return 2 * jnp.arctan2(jnp.linalg.norm(w - z, axis=-1), jnp.linalg.norm(w + z, axis=-1))


@in_double
def _whiten(product: InnerProduct, x: Array) -> Array:
    return _upward(product, x)


@in_double
def _unwhiten(product: InnerProduct, w: Array) -> Array:
    return _downward(product, w)


def _downward(product: InnerProduct, w: Array) -> Array:
    rows = w.reshape(-1, w.shape[-1])
    found = jax.scipy.linalg.solve_triangular(jnp.asarray(product.lower), rows.T, lower=True, trans="T").T
    return found.reshape(w.shape)


@in_double
def _gram_schmidt(product: InnerProduct, rows: Array) -> tuple[Array, Array]:
    white = _upward(product, rows)
    lengths = jnp.linalg.norm(white, axis=1)
    turned, upper = jnp.linalg.qr(white.T)
    own = jnp.diagonal(upper)
    signs = jnp.where(own < 0, -1.0, 1.0)
    relative = jnp.abs(own) / jnp.where(lengths > 0, lengths, 1.0)[: len(own)]
    return _downward(product, (turned * signs[None, :]).T), relative


def _upward(product: InnerProduct, x: Array) -> Array:
    """`L x` for L the transpose of the lower factor: rows times C."""
    return jnp.matmul(jnp.asarray(x), jnp.asarray(product.lower), precision="highest")


__all__ = ["Axioms", "InnerProduct", "check_axioms"]
