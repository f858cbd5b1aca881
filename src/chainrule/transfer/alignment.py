"""Alignment of two domains in closed form: transfer components, covariances, transport.

Each is fitted to rows of both domains without any label and maps new rows of the source (or of both) to where the
domains look alike. Transfer component analysis finds features of a kernel in which the mean of both domains agrees and
the variance stays; CORAL whitens the source and colours it like the target; transport moves each source row to the mean
of the target rows that an optimal plan sends it to.

References: Pan, Tsang, Kwok and Yang, Domain adaptation via transfer component analysis, 2011; Sun, Feng and Saenko,
Return of frustratingly easy domain adaptation, 2016; Courty, Flamary, Tuia and Rakotomamonjy, Optimal transport for
domain adaptation, 2017.
"""

from typing import Any, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy import linalg

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.kernels.alignment import covariance
from chainrule.kernels.kernel import Kernel
from chainrule.kernels.mean_embedding import median_kernel
from chainrule.kernels.precision import in_double
from chainrule.probability.samples.neighbours import nearest
from chainrule.probability.transport import barycentric_map, cost_matrix, exact, sinkhorn
from chainrule.transfer.importance import domain_rows

Rows = Float[np.ndarray, "_ features"]
_MOST = 6000
"""Rows of both domains whose matrices are solved for."""


@final
class TransferComponents(eqx.Module):
    """Features of both domains in which their means agree: `k(x, rows) @ weights`."""

    kernel: Kernel
    rows: Rows
    """Of the source, then of the target."""
    weights: Float[np.ndarray, "rows components"]
    values: Float[np.ndarray, " components"]
    """What each component keeps of the variance for what it leaves of the discrepancy; largest first."""
    split: int
    """How many rows are of the source."""

    def __call__(self, x: Any) -> Float[np.ndarray, "new components"]:
        """The components of rows of either domain."""
        return _projected(self.kernel, x, self.rows, self.weights)

    @property
    def source(self) -> Float[np.ndarray, "some components"]:
        """The components of the source rows it was fitted to."""
        return self(self.rows[: self.split])

    @property
    def target(self) -> Float[np.ndarray, "others components"]:
        """The components of the target rows it was fitted to."""
        return self(self.rows[self.split :])


def transfer_components(
    source: Any, target: Any, components: int = 2, *, kernel: Kernel | None = None, mu: float = 1.0
) -> TransferComponents:
    """The leading eigenvectors of `(K L K + mu I)⁻¹ K H K`, K the joint Gram matrix.

    `tr(K L)` is the squared maximum mean discrepancy and H centres; a larger `mu` prefers smaller weights to a smaller
    discrepancy. Without a kernel it is RBF of the median distance.

    >>> rng = np.random.default_rng(0)
    >>> found = transfer_components(rng.normal(size=(30, 3)), rng.normal(2, size=(20, 3)))
    >>> found.source.shape, found.target.shape
    ((30, 2), (20, 2))
    """
    first, second = domain_rows("transfer_components", source, target)
    count = len(first) + len(second)
    if not mu > 0:
        raise ArgumentError(f"transfer_components(mu={mu}): mu must be positive")
    if whole("transfer_components", "components", components) >= count:
        raise ArgumentError(f"transfer_components(components={components}): fewer than the {count} rows")
    if count > _MOST:
        raise ArgumentError(
            f"transfer_components: {count} rows; matrices of up to {_MOST} are solved for",
            remedy="give fewer rows",
        )
    rows = np.concatenate([first, second])
    gram, kernel = _joint_gram(first, second, kernel)
    # L is one column times its transpose, so that K L K is too.
    contrast = np.concatenate([np.full(len(first), 1 / len(first)), np.full(len(second), -1 / len(second))])
    apart, centred = gram @ contrast, gram - gram.mean(axis=0)
    kept = centred.T @ centred
    values, weights = linalg.eigh(
        kept, np.outer(apart, apart) + mu * np.eye(count), subset_by_index=(count - components, count - 1)
    )
    return TransferComponents(
        kernel, rows, np.ascontiguousarray(weights[:, ::-1]), values[::-1].copy(), len(first)
    )


@final
class CovarianceAlignment(eqx.Module):
    """A linear map of the source after which its mean and covariance are those of the target."""

    matrix: Float[np.ndarray, "features features"]
    source_mean: Float[np.ndarray, " features"]
    target_mean: Float[np.ndarray, " features"]

    def __call__(self, x: Any) -> Rows:
        """Source rows as rows of the target."""
        rows = np.asarray(x, np.float64).reshape(len(x), -1)
        if rows.shape[1] != len(self.source_mean):
            raise ArgumentError(
                f"coral: rows have {rows.shape[1]} numbers, those of the source had {len(self.source_mean)}",
                remedy="give rows with the features of the source",
            )
        return np.asarray((rows - self.source_mean) @ self.matrix + self.target_mean)


def coral(source: Any, target: Any, *, ridge: float = 1e-6) -> CovarianceAlignment:
    """Whitening of the source and colouring as the target, `C_s^{-1/2} C_t^{1/2}`, with their means moved along.

    `ridge` times the mean variance is added to both covariances; the published method adds 1 and leaves means alone.

    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(200, 2)), rng.normal(size=(200, 2)) @ [[2.0, 0.5], [0.0, 1.0]] + 3
    >>> moved = coral(x, y)(x)
    >>> bool(np.abs(np.cov(moved.T) - np.cov(y.T)).max() < 1e-4)
    True
    """
    first, second = domain_rows("coral", source, target)
    if not ridge >= 0:
        raise ArgumentError(f"coral(ridge={ridge}): ridge must be a number of at least 0")
    if min(len(first), len(second)) < 2:
        raise ArgumentError("coral: each domain needs two rows or more")
    spreads = [np.asarray(in_double(covariance)(one)) for one in (first, second)]
    added = [one + ridge * np.trace(one) / len(one) * np.eye(len(one)) for one in spreads]
    return CovarianceAlignment(
        _power(added[0], -0.5) @ _power(added[1], 0.5), first.mean(axis=0), second.mean(axis=0)
    )


@final
class TransportAlignment(eqx.Module):
    """Source rows moved to the mean target of an optimal plan; new ones move as the nearest of them did."""

    rows: Rows
    moved: Rows
    """Where each source row went."""
    cost: float
    """The mean squared distance that mass moves."""

    def __call__(self, x: Any) -> Rows:
        """Rows of the source, moved."""
        new = np.asarray(x, np.float64).reshape(len(x), -1)
        _, numbers = nearest(new, self.rows)
        chosen = numbers[:, 0]
        return new + (self.moved[chosen] - self.rows[chosen])


def transport_alignment(source: Any, target: Any, *, eps: float = 0.0) -> TransportAlignment:
    """The barycentric map of the cheapest plan for squared distances, or of the entropic one at `eps` > 0.

    >>> found = transport_alignment([[0.0], [1.0]], [[5.0], [6.0]])
    >>> found.moved.tolist(), found([[0.1]]).round(6).tolist()
    ([[5.0], [6.0]], [[5.1]])
    """
    first, second = domain_rows("transport_alignment", source, target)
    if not eps >= 0:
        raise ArgumentError(f"transport_alignment(eps={eps}): eps must be a number of at least 0")
    a, b = (np.full(len(one), 1 / len(one)) for one in (first, second))
    moved, cost = _transported(first, second, a, b, float(eps))
    return TransportAlignment(first, np.asarray(moved), float(cost))


@in_double
def _transported(x: Any, y: Any, a: Any, b: Any, eps: float) -> tuple[Any, Any]:
    costs = cost_matrix(x, y)
    plan = sinkhorn(a, b, costs, eps).plan if eps else exact(a, b, costs).plan
    return barycentric_map(plan, y), (plan * costs).sum()


@in_double
def _joint_gram(x: Any, y: Any, kernel: Kernel | None) -> tuple[Any, Kernel]:
    kernel = kernel or median_kernel(x, y)
    return kernel.gram(jnp.concatenate([x, y])), kernel


@in_double
def _projected(kernel: Kernel, x: Any, rows: Any, weights: Any) -> Any:
    return kernel.gram(jnp.asarray(x).reshape(len(x), -1), rows) @ weights


def _power(matrix: Float[np.ndarray, "n n"], exponent: float) -> Float[np.ndarray, "n n"]:
    """A power of a symmetric positive matrix; directions without variance stay without."""
    values, vectors = np.linalg.eigh(matrix)
    kept = values > 1e-12 * max(values.max(), 1e-300)
    return np.asarray((vectors * np.where(kept, np.where(kept, values, 1.0) ** exponent, 0.0)) @ vectors.T)


__all__ = [
    "CovarianceAlignment",
    "TransferComponents",
    "TransportAlignment",
    "coral",
    "transfer_components",
    "transport_alignment",
]
