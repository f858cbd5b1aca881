"""Covariance matrices by their structure: full, diagonal, low rank plus diagonal, by eigenvectors (singular ones too).

A multivariate normal asks its covariance for four things: to colour white noise, to measure an offset, its
log-determinant, and itself as a matrix.
"""

import abc
from typing import Any, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float
from chainrule.probability.distributions.matrices import (
    apply,
    checked_covariance,
    diagonal_matrix,
    solve_lower,
)
from chainrule.probability.distributions.parameters import broadcast, finite, floating, positive


class Covariance(eqx.Module):
    """A covariance matrix, or a batch of them; every array begins with the batch shape."""

    @property
    @abc.abstractmethod
    def is_singular(self) -> bool:
        """Whether there is no density with respect to Lebesgue measure."""

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, ...]:
        """`(*batch, d, d)`."""

    @abc.abstractmethod
    def matrix(self) -> Float[Array, "*batch d d"]:
        """All of it."""

    @abc.abstractmethod
    def diagonal(self) -> Float[Array, "*batch d"]:
        """The variances."""

    @abc.abstractmethod
    def noise_size(self) -> int:
        """How many independent standard normal numbers make one draw."""

    @abc.abstractmethod
    def color(self, noise: Float[Array, "... noise"]) -> Float[Array, "... d"]:
        """Standard normal noise to noise of this covariance."""

    @abc.abstractmethod
    def square(self, offset: Float[Array, "... d"]) -> Float[Array, "..."]:
        """`offset^T covariance^-1 offset`, the squared Mahalanobis norm; on the range of a singular covariance."""

    @abc.abstractmethod
    def log_det(self) -> Float[Array, "*batch"]:
        """The logarithm of the determinant; of a singular covariance, of its positive eigenvalues."""

    def batched(self, shape: tuple[int, ...]) -> Self:
        """With another batch shape, to which its own broadcasts."""
        mine = len(self.shape) - 2
        return jax.tree.map(lambda a: jnp.broadcast_to(a, (*shape, *a.shape[mine:])), self)


@final
class Full(Covariance):
    """Any positive definite matrix, by its Cholesky factor."""

    cholesky: Float[Array, "*batch d d"]

    @property
    def is_singular(self) -> bool:
        """No."""
        return False

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the factor."""
        return self.cholesky.shape

    def matrix(self) -> Float[Array, "*batch d d"]:
        """`L L^T`."""
        return self.cholesky @ self.cholesky.mT

    def diagonal(self) -> Float[Array, "*batch d"]:
        """Squared norms of the rows."""
        return jnp.square(self.cholesky).sum(axis=-1)

    def noise_size(self) -> int:
        """As many as entries."""
        return self.cholesky.shape[-1]

    def color(self, noise: Float[Array, "... noise"]) -> Float[Array, "... d"]:
        """`L noise`."""
        return apply(self.cholesky, noise)

    def square(self, offset: Float[Array, "... d"]) -> Float[Array, "..."]:
        """Of the solution of a triangular system."""
        white = solve_lower(self.cholesky, offset)
        return jnp.square(white).sum(axis=-1)

    def log_det(self) -> Float[Array, "*batch"]:
        """Twice that of the factor."""
        return 2 * jnp.log(jnp.diagonal(self.cholesky, axis1=-2, axis2=-1)).sum(axis=-1)


@final
class Diagonal(Covariance):
    """Independent entries, by their variances.

    >>> Diagonal([1.0, 4.0]).matrix().tolist()
    [[1.0, 0.0], [0.0, 4.0]]
    """

    variances: Float[Array, "*batch d"]

    def __init__(self, variances: Any) -> None:
        self.variances = positive("Diagonal", "variances", _vectors("Diagonal", "variances", variances))

    @property
    def is_singular(self) -> bool:
        """No."""
        return False

    @property
    def shape(self) -> tuple[int, ...]:
        """With the number of variances twice."""
        return (*self.variances.shape, self.variances.shape[-1])

    def matrix(self) -> Float[Array, "*batch d d"]:
        """The variances on the diagonal."""
        return diagonal_matrix(self.variances)

    def diagonal(self) -> Float[Array, "*batch d"]:
        """The variances."""
        return self.variances

    def noise_size(self) -> int:
        """As many as entries."""
        return self.variances.shape[-1]

    def color(self, noise: Float[Array, "... noise"]) -> Float[Array, "... d"]:
        """Every entry by itself."""
        return noise * jnp.broadcast_to(jnp.sqrt(self.variances), noise.shape)

    def square(self, offset: Float[Array, "... d"]) -> Float[Array, "..."]:
        """The sum over entries."""
        return (jnp.square(offset) / jnp.broadcast_to(self.variances, offset.shape)).sum(axis=-1)

    def log_det(self) -> Float[Array, "*batch"]:
        """The sum over entries."""
        return jnp.log(self.variances).sum(axis=-1)


@final
class LowRank(Covariance):
    """`factor factor^T + diag(variances)` with a factor of few columns; nothing of size d x d is ever made.

    Woodbury's identity needs the Cholesky factor of a matrix as small as the rank.
    """

    factor: Float[Array, "*batch d rank"]
    variances: Float[Array, "*batch d"]

    def __init__(self, factor: Any, variances: Any) -> None:
        factor = floating(factor)
        if factor.ndim < 2:
            raise ArgumentError(f"LowRank: factor needs the shape (..., d, rank), not {factor.shape}")
        variances = _vectors("LowRank", "variances", variances)
        if variances.shape[-1] not in (1, factor.shape[-2]):
            raise ArgumentError(
                f"LowRank: a factor of shape {factor.shape} needs {factor.shape[-2]} variances,"
                f" not {variances.shape[-1]}"
            )
        columns, tall = broadcast("LowRank", factor=factor, variances=variances[..., None])
        self.factor = finite("LowRank", "factor", columns)
        self.variances = positive("LowRank", "variances", tall[..., 0])

    @property
    def is_singular(self) -> bool:
        """No."""
        return False

    @property
    def shape(self) -> tuple[int, ...]:
        """With the number of variances twice."""
        return (*self.variances.shape, self.variances.shape[-1])

    def matrix(self) -> Float[Array, "*batch d d"]:
        """The sum of both."""
        return self.factor @ self.factor.mT + diagonal_matrix(self.variances)

    def diagonal(self) -> Float[Array, "*batch d"]:
        """Squared norms of the rows of the factor, and the variances."""
        return jnp.square(self.factor).sum(axis=-1) + self.variances

    def noise_size(self) -> int:
        """One for each entry and one for each column of the factor."""
        return sum(self.factor.shape[-2:])

    def color(self, noise: Float[Array, "... noise"]) -> Float[Array, "... d"]:
        """Shared noise through the factor, and own noise."""
        own, shared = jnp.split(noise, [self.factor.shape[-2]], axis=-1)
        return own * jnp.broadcast_to(jnp.sqrt(self.variances), own.shape) + apply(self.factor, shared)

    def square(self, offset: Float[Array, "... d"]) -> Float[Array, "..."]:
        """By Woodbury's identity."""
        scaled = offset / jnp.broadcast_to(self.variances, offset.shape)
        inner = solve_lower(self._capacitance(), apply(self.factor.mT, scaled))
        return (offset * scaled).sum(axis=-1) - jnp.square(inner).sum(axis=-1)

    def log_det(self) -> Float[Array, "*batch"]:
        """By the matrix determinant lemma."""
        inner = jnp.diagonal(self._capacitance(), axis1=-2, axis2=-1)
        return jnp.log(self.variances).sum(axis=-1) + 2 * jnp.log(inner).sum(axis=-1)

    def _capacitance(self) -> Array:
        """The Cholesky factor of `I + factor^T diag(variances)^-1 factor`."""
        scaled = self.factor / self.variances[..., None]
        inner = self.factor.mT @ scaled
        return jnp.linalg.cholesky(inner + diagonal_matrix(jnp.ones_like(inner[..., 0])))


@final
class Eigen(Covariance):
    """`axes diag(variances) axes^T` with orthonormal columns; variances of zero make it singular."""

    axes: Float[Array, "*batch d d"]
    variances: Float[Array, "*batch d"]
    singular: bool = eqx.field(static=True)

    @staticmethod
    def of(matrix: Any) -> "Eigen":
        """By the eigenvectors of a symmetric matrix; inside a compiled function it counts as singular.

        >>> Eigen.of([[1.0, 1.0], [1.0, 1.0]]).is_singular
        True
        """
        array = checked_covariance("Eigen.of", "covariance", matrix)
        variances, axes = jnp.linalg.eigh(array)
        kept = variances > array.shape[-1] * jnp.finfo(array.dtype).eps * variances[..., -1:]
        known = not isinstance(kept, jax.core.Tracer)
        return Eigen(axes, jnp.where(kept, variances, 0.0), not (known and bool(kept.all())))

    @property
    def is_singular(self) -> bool:
        """As was found when it was made."""
        return self.singular

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the axes."""
        return self.axes.shape

    def matrix(self) -> Float[Array, "*batch d d"]:
        """`axes diag(variances) axes^T`."""
        return (self.axes * self.variances[..., None, :]) @ self.axes.mT

    def diagonal(self) -> Float[Array, "*batch d"]:
        """The variances of the entries."""
        return (jnp.square(self.axes) * self.variances[..., None, :]).sum(axis=-1)

    def noise_size(self) -> int:
        """As many as entries."""
        return self.axes.shape[-1]

    def color(self, noise: Float[Array, "... noise"]) -> Float[Array, "... d"]:
        """Along each axis by itself."""
        return apply(self.axes, noise * jnp.broadcast_to(jnp.sqrt(self.variances), noise.shape))

    def square(self, offset: Float[Array, "... d"]) -> Float[Array, "..."]:
        """The sum over axes of positive variance."""
        along = jnp.square(apply(self.axes.mT, offset))
        variances = jnp.broadcast_to(self.variances, along.shape)
        return jnp.where(variances > 0, along / jnp.where(variances > 0, variances, 1.0), 0.0).sum(axis=-1)

    def log_det(self) -> Float[Array, "*batch"]:
        """The sum over axes of positive variance."""
        positive = self.variances > 0
        return jnp.log(jnp.where(positive, self.variances, 1.0)).sum(axis=-1)

    @property
    def factor(self) -> Float[Array, "*batch d d"]:
        """F with F F^T the covariance: `mean + F z` of standard normal z has it, singular or not."""
        return self.axes * jnp.sqrt(self.variances)[..., None, :]

    @property
    def rank(self) -> Array:
        """Dimension of the support: how many axes have positive variance."""
        return (self.variances > 0).sum(axis=-1)

    def off_range(self, offset: Float[Array, "... d"]) -> Float[Array, "..."]:
        """The length of what an offset has along axes of no variance."""
        along = apply(self.axes.mT, offset)
        none = jnp.broadcast_to(self.variances == 0, along.shape)
        return jnp.sqrt(jnp.square(jnp.where(none, along, 0.0)).sum(axis=-1))


def from_matrix(where: str, matrix: Any) -> Covariance:
    """A symmetric matrix by its Cholesky factor, or by its eigenvectors if it is singular.

    Inside a compiled function, where this cannot be known, it has to be positive definite (else: `Eigen.of`).
    """
    array = floating(matrix)
    if array.ndim < 2:
        raise ArgumentError(
            f"{where}: covariance needs the shape (..., d, d), not {array.shape}",
            remedy="for independent entries give Diagonal(variances)",
        )
    array = checked_covariance(where, "covariance", array)
    lower = jnp.linalg.cholesky(array)
    if isinstance(array, jax.core.Tracer):
        message = (
            f"{where}: covariance must be positive definite inside a compiled function (or use Eigen.of)"
        )
        return Full(eqx.error_if(lower, jnp.isnan(lower), message))
    found = np.linalg.eigvalsh(np.asarray(array, np.float64))
    regular = found[..., 0] > array.shape[-1] * np.finfo(array.dtype).eps * found[..., -1]
    return Full(lower) if regular.all() else Eigen.of(array)


def _vectors(where: str, name: str, value: Any) -> Array:
    array = floating(value)
    if array.ndim == 0 or not array.shape[-1]:
        raise ArgumentError(f"{where}: {name} needs the shape (..., d), not {array.shape}")
    return array


__all__ = ["Covariance", "Diagonal", "Eigen", "Full", "LowRank", "from_matrix"]
