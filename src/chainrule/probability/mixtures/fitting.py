"""Mixtures of Gaussians by EM from the best of several starts."""

from dataclasses import dataclass
from typing import Any, final

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.probability.distributions import Full, Mixture, MultivariateNormal
from chainrule.probability.k_means import k_means
from chainrule.probability.mixtures.expectation_maximization import (
    KINDS,
    MixtureParameters,
    em_step,
)

_SUBSET = 5000
"""Rows on which starts are compared."""
_TRIED = 20
"""Steps of EM that each start is given."""
_LLOYD = 10
_COLLAPSED = 10.0
"""Times the regularisation: a smaller variance than that is one of its making."""

Rows = Float[np.ndarray, "rows features"]


@final
@dataclass(frozen=True)
class FittedMixture:
    """What EM found, and how it came there."""

    parameters: MixtureParameters
    covariance: str
    trace: Float[np.ndarray, " steps"]
    """Mean log-likelihood of a row before every step, and after the last."""
    converged: bool
    rows: int
    collapsed: tuple[int, ...]
    """Components whose smallest variance is one that only the regularisation kept from zero."""

    @property
    def log_likelihood(self) -> float:
        """Mean over rows, in nats."""
        return float(self.trace[-1])

    @property
    def free_parameters(self) -> int:
        """How many numbers were fitted.

        >>> rows = np.random.default_rng(0).normal(size=(50, 2))
        >>> fit_mixture(rows, 2, restarts=1).free_parameters
        11
        """
        k, d = self.parameters.means.shape
        spread = {"full": k * d * (d + 1) // 2, "tied": d * (d + 1) // 2, "diag": k * d, "spherical": k}
        return k - 1 + k * d + spread[self.covariance]

    @property
    def bic(self) -> float:
        """Schwarz's criterion: smaller is better."""
        return -2 * self.rows * self.log_likelihood + self.free_parameters * float(np.log(self.rows))

    @property
    def aic(self) -> float:
        """Akaike's criterion: smaller is better."""
        return -2 * self.rows * self.log_likelihood + 2 * self.free_parameters

    def mean_log_prob(self, x: Rows) -> float:
        """Mean log-density of rows, in double precision."""
        return em_step(self.parameters, x, self.covariance)[1]

    @property
    def distribution(self) -> Mixture:
        """For densities, draws and responsibilities, in the precision of JAX."""
        weights, means, covariances = self.parameters
        factors = np.linalg.cholesky(covariances)
        dtype = jnp.result_type(float)
        normal = MultivariateNormal(jnp.asarray(means, dtype), Full(jnp.asarray(factors, dtype)))
        return Mixture(jnp.asarray(weights, dtype), normal, normalize=True)


def fit_mixture(
    x: Any,
    k: int,
    *,
    covariance: str = "full",
    restarts: int = 10,
    iterations: int = 500,
    tolerance: float = 1e-6,
    regularisation: float = 1e-6,
    seed: int = 0,
    start: MixtureParameters | None = None,
) -> FittedMixture:
    """A mixture of k Gaussians by EM, which ends when the mean log-likelihood of a row rises by less than `tolerance`.

    Without a `start` the best of several is taken (`start_mixture`).
    """
    rows = checked_rows(x, k, covariance)
    parameters = start or start_mixture(
        rows, k, covariance=covariance, restarts=restarts, regularisation=regularisation, seed=seed
    )
    trace: list[float] = []
    done = False
    for _ in range(iterations):
        new, value = em_step(parameters, rows, covariance, regularisation)
        trace.append(value)
        if len(trace) > 1 and trace[-1] - trace[-2] < tolerance:
            done = True
            break
        parameters = new
    else:
        trace.append(em_step(parameters, rows, covariance, regularisation)[1])
    return FittedMixture(
        parameters, covariance, np.array(trace), done, len(rows), collapsed(parameters, regularisation)
    )


def start_mixture(
    x: Any,
    k: int,
    *,
    covariance: str = "full",
    restarts: int = 10,
    regularisation: float = 1e-6,
    seed: int = 0,
) -> MixtureParameters:
    """Where EM begins: clusters around distant rows, the best of several by likelihood after a few steps.

    Starts are compared on up to 5,000 rows.
    """
    rows = checked_rows(x, k, covariance)
    if restarts < 1:
        raise ArgumentError(
            f"restarts={restarts}: there has to be one start", remedy="use restarts=1 or more"
        )
    random = np.random.default_rng(seed)
    few = rows if len(rows) <= _SUBSET else rows[random.choice(len(rows), _SUBSET, replace=False)]
    if len(np.unique(few, axis=0)) < k:
        few = rows
    best, highest = None, -np.inf
    for _ in range(restarts):
        parameters = _clustered(few, k, covariance, regularisation, random)
        value = -np.inf
        for _ in range(_TRIED if restarts > 1 else 1):
            parameters, value = em_step(parameters, few, covariance, regularisation)
        if value > highest:
            best, highest = parameters, value
    assert best is not None, "a likelihood is a number"
    return best


def collapsed(parameters: MixtureParameters, regularisation: float) -> tuple[int, ...]:
    """Components whose smallest variance is about the regularisation itself."""
    least = np.linalg.eigvalsh(parameters.covariances)[:, 0]
    return tuple(int(i) for i in np.flatnonzero(least < _COLLAPSED * regularisation))


def checked_rows(x: Any, k: int, covariance: str = "full") -> Rows:
    """Rows in double precision; refuses what k components cannot be fitted to."""
    check_choice("mixture", "covariance", covariance, KINDS)
    rows = np.asarray(x, np.float64)
    if rows.ndim != 2 or not rows.size or not np.isfinite(rows).all():
        raise ArgumentError(
            f"x: needs rows of finite numbers, not an array of shape {rows.shape} with others in it"
        )
    if k < 1:
        raise ArgumentError(f"k={k}: a mixture has at least one component", remedy="use k=1 or more")
    different = len(np.unique(rows, axis=0)) if k > 1 else 1
    if different < k:
        raise ArgumentError(
            f"k={k}: there are only {different} different rows, so that components would be empty",
            remedy=f"use k={different} or less",
        )
    return rows


def _clustered(
    rows: Rows, k: int, covariance: str, regularisation: float, random: np.random.Generator
) -> MixtureParameters:
    """Clusters by a few rounds of k-means from rows drawn far apart (k-means++), as Gaussians.

    Features count by their deviations, so that units do not decide which rows are far apart.
    """
    scale = rows.std(axis=0)
    scaled = rows / np.where(scale > 0, scale, 1.0)[None]
    centres, nearest, _ = k_means(scaled, k, random, rounds=_LLOYD)
    counts = np.bincount(nearest, minlength=k)
    whole = np.cov(rows.T, bias=True).reshape(rows.shape[1], rows.shape[1])
    means, spreads = [], []
    for j in range(k):
        own = rows[nearest == j]
        means.append(own.mean(axis=0) if len(own) else centres[j] * np.where(scale > 0, scale, 1.0))
        apart = own - means[-1][None]
        spreads.append(_of_kind(apart.T @ apart / len(own) if len(own) > 1 else whole, covariance))
    weights = np.maximum(counts, 1) / np.maximum(counts, 1).sum()
    found = np.stack(spreads)
    if covariance == "tied":
        found = np.broadcast_to(np.einsum("k,kde->de", weights, found)[None], found.shape)
    return MixtureParameters(weights, np.stack(means), found + regularisation * np.eye(rows.shape[1])[None])


def _of_kind(matrix: np.ndarray, covariance: str) -> np.ndarray:
    if covariance == "diag":
        return np.diag(np.diag(matrix))
    if covariance == "spherical":
        return np.eye(len(matrix)) * np.trace(matrix) / len(matrix)
    return matrix


__all__ = ["FittedMixture", "checked_rows", "collapsed", "fit_mixture", "start_mixture"]
