"""Linear bijections of vectors: permutations, triangular matrices, any invertible matrix by its LU form, rotations."""

from typing import Any, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Int, Key
from chainrule.networks.flows.base import Conditions, Elementary, Events, LogDets, Mapped

_SMALLEST = 1e-6
"""A matrix with a smaller pivot than this, as a share of its largest, counts as singular."""
_FLAT = 1e-5
"""The least deviation of an entry of a first batch; one that does not vary is scaled as if by this."""


def _constant(log_det: Float[Array, ""], like: Events) -> LogDets:
    return jnp.broadcast_to(log_det.astype(like.dtype), (len(like),))


@final
class Permutation(Elementary):
    """Entries in another order: `x_i = z[order[i]]`.

    >>> Permutation([2, 0, 1]).forward(jnp.array([[1.0, 2.0, 3.0]])).value.tolist()
    [[3.0, 1.0, 2.0]]
    """

    order: Int[Array, " features"]
    shape: tuple[int] = eqx.field(static=True)

    def __init__(self, order: Any) -> None:
        if not isinstance(order, jax.core.Tracer):
            order = np.asarray(order)
            if order.ndim != 1 or sorted(order.tolist()) != list(range(len(order))):
                raise ArgumentError(f"Permutation: {order.tolist()} is no order of the numbers from 0")
        self.order, self.shape = jnp.asarray(order, jnp.int32), (len(order),)

    @classmethod
    def random(cls, size: int, key: Key) -> Self:
        """One that is drawn once and then stays."""
        return cls(jax.random.permutation(key, size))

    def forward(self, z: Events, condition: Conditions = None) -> Mapped:
        """Entries picked by the order."""
        del condition
        return Mapped(z[:, self.order], jnp.zeros(len(z), z.dtype))

    def inverse(self, x: Events, condition: Conditions = None) -> Mapped:
        """Entries put back."""
        del condition
        return Mapped(x[:, jnp.argsort(self.order)], jnp.zeros(len(x), x.dtype))


@final
class ReversedEntries(Elementary):
    """Entries from last to first, faster than a `Permutation` that does the same.

    >>> ReversedEntries(3).forward(jnp.array([[1.0, 2.0, 3.0]])).value.tolist()
    [[3.0, 2.0, 1.0]]
    """

    shape: tuple[int] = eqx.field(static=True)

    def __init__(self, size: int) -> None:
        self.shape = (whole("ReversedEntries", "size", size),)

    def forward(self, z: Events, condition: Conditions = None) -> Mapped:
        """Turned round."""
        del condition
        return Mapped(z[:, ::-1], jnp.zeros(len(z), z.dtype))

    def inverse(self, x: Events, condition: Conditions = None) -> Mapped:
        """Turned round again."""
        return self.forward(x, condition)


@final
class Triangular(Elementary):
    """`x = L z + shift` with a lower triangular L, whose diagonal is positive.

    `started` makes it the Gaussian that fits a first batch: codes then have mean zero and no correlations.

    >>> batch = jax.random.normal(jax.random.key(0), (500, 2)) @ jnp.array([[1.0, 2.0], [0.0, 1.0]])
    >>> z = Triangular(2).started(batch, None).inverse(batch).value
    >>> bool(jnp.abs(z.T @ z / 500 - jnp.eye(2)).max() < 0.05)
    True
    """

    below: Float[Array, "features features"]
    """What stands below the diagonal; the rest is ignored."""
    log_diagonal: Float[Array, " features"]
    shift: Float[Array, " features"]
    shape: tuple[int] = eqx.field(static=True)

    def __init__(self, size: int) -> None:
        """It begins as the identity."""
        size = whole("Triangular", "size", size)
        self.below, self.log_diagonal, self.shift = jnp.zeros((size, size)), jnp.zeros(size), jnp.zeros(size)
        self.shape = (size,)

    @property
    def matrix(self) -> Float[Array, "features features"]:
        """L."""
        return jnp.tril(self.below, -1) + jnp.diag(jnp.exp(self.log_diagonal))

    def forward(self, z: Events, condition: Conditions = None) -> Mapped:
        """By the matrix, then the shift."""
        del condition
        return Mapped(z @ self.matrix.T + self.shift[None], _constant(self.log_diagonal.sum(), z))

    def inverse(self, x: Events, condition: Conditions = None) -> Mapped:
        """By substitution."""
        del condition
        z = jax.scipy.linalg.solve_triangular(self.matrix, (x - self.shift[None]).T, lower=True).T
        return Mapped(z, _constant(-self.log_diagonal.sum(), x))

    def started(self, x: Events, condition: Conditions) -> Self:
        """With mean and covariance of this batch, correlations shrunk by as little as keeps them below one."""
        del condition
        rows = jnp.asarray(x)
        mean = rows.mean(axis=0)
        covariance = (rows - mean[None]).T @ (rows - mean[None]) / len(rows)
        deviation = jnp.sqrt(jnp.maximum(jnp.diagonal(covariance), _FLAT**2))
        correlation = covariance / (deviation[:, None] * deviation[None, :])
        lower = jnp.linalg.cholesky(
            (1 - 1 / len(rows)) * correlation + jnp.eye(len(mean), dtype=rows.dtype) / len(rows)
        )
        lower = deviation[:, None] * lower
        start = (lower, jnp.log(jnp.diagonal(lower)), mean)
        return eqx.tree_at(lambda layer: (layer.below, layer.log_diagonal, layer.shift), self, start)


def _check_pivots(sizes: np.ndarray) -> None:
    if not sizes.min() > _SMALLEST * sizes.max():
        raise ArgumentError(
            f"LULinear: the matrix is singular; its smallest |s| is {sizes.min():.3g}",
            remedy="begin with an orthogonal matrix: LULinear.rotation(size, key)",
        )


@final
class LULinear(Elementary):
    """`x = W z + shift` with `W = P L (U + diag s)`: any invertible matrix, its determinant read off s.

    P is a permutation and stays as it began, L has ones on its diagonal, U is strictly upper triangular; signs of s
    stay too (Kingma and Dhariwal, 2018).
    """

    permutation: Int[Array, " features"]
    lower: Float[Array, "features features"]
    upper: Float[Array, "features features"]
    log_scale: Float[Array, " features"]
    """log |s|."""
    sign: Int[Array, " features"]
    shift: Float[Array, " features"]
    shape: tuple[int] = eqx.field(static=True)

    def __init__(self, matrix: Any) -> None:
        """It begins as this matrix; a singular one is refused."""
        dense = jnp.asarray(matrix, float)
        if dense.ndim != 2 or dense.shape[0] != dense.shape[1] or not dense.size:
            raise ArgumentError(f"LULinear: a square matrix is needed, not shape {dense.shape}")
        p, lower, upper = jax.scipy.linalg.lu(dense)
        pivots = jnp.diag(upper)
        if not isinstance(pivots, jax.core.Tracer):
            _check_pivots(np.abs(np.asarray(pivots)))
        self.permutation = p.argmax(axis=1).astype(jnp.int32)
        self.lower, self.upper = jnp.tril(lower, -1), jnp.triu(upper, 1)
        self.log_scale = jnp.log(jnp.abs(pivots))
        self.sign = jnp.sign(pivots).astype(jnp.int32)
        self.shift, self.shape = jnp.zeros(len(dense)), (len(dense),)

    @classmethod
    def rotation(cls, size: int, key: Key) -> Self:
        """One that begins as a random rotation or reflection."""
        return cls(jnp.linalg.qr(jax.random.normal(key, (size, size)))[0])

    @property
    def matrix(self) -> Float[Array, "features features"]:
        """W."""
        return (self._lower @ self._upper)[self.permutation]

    @property
    def _lower(self) -> Array:
        return jnp.tril(self.lower, -1) + jnp.eye(self.shape[0], dtype=self.lower.dtype)

    @property
    def _upper(self) -> Array:
        return jnp.triu(self.upper, 1) + jnp.diag(self.sign * jnp.exp(self.log_scale))

    def forward(self, z: Events, condition: Conditions = None) -> Mapped:
        """By the matrix, then the shift."""
        del condition
        return Mapped(z @ self.matrix.T + self.shift[None], _constant(self.log_scale.sum(), z))

    def inverse(self, x: Events, condition: Conditions = None) -> Mapped:
        """By two substitutions."""
        del condition
        solve = jax.scipy.linalg.solve_triangular
        rows = (x - self.shift[None])[:, jnp.argsort(self.permutation)].T
        z = solve(self._upper, solve(self._lower, rows, lower=True, unit_diagonal=True)).T
        return Mapped(z, _constant(-self.log_scale.sum(), x))


@final
class Householder(Elementary):
    """A product of reflections, `z - 2 v v'z / |v|²` each: an orthogonal map, which changes no volume."""

    vectors: Float[Array, "reflections features"]
    shape: tuple[int] = eqx.field(static=True)

    def __init__(self, size: int, reflections: int, key: Key) -> None:
        reflections = whole("Householder", "reflections", reflections)
        self.vectors = jax.random.normal(key, (reflections, whole("Householder", "size", size)))
        self.shape = (size,)

    def forward(self, z: Events, condition: Conditions = None) -> Mapped:
        """First to last."""
        del condition
        return Mapped(self._reflected(z, self.vectors), jnp.zeros(len(z), z.dtype))

    def inverse(self, x: Events, condition: Conditions = None) -> Mapped:
        """Last to first: a reflection is its own inverse."""
        del condition
        return Mapped(self._reflected(x, self.vectors[::-1]), jnp.zeros(len(x), x.dtype))

    @staticmethod
    def _reflected(rows: Events, vectors: Float[Array, "reflections features"]) -> Events:
        for v in vectors / jnp.linalg.norm(vectors, axis=1, keepdims=True):
            rows = rows - 2 * (rows @ v)[:, None] * v[None]
        return rows


__all__ = ["Householder", "LULinear", "Permutation", "ReversedEntries", "Triangular"]
