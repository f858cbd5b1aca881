"""Factors under noise: x = W z + mean + noise with z ~ N(0, I), so that x ~ N(mean, W W^T + diag(noise)).

With the same noise in every feature this is probabilistic PCA, whose maximum of likelihood has a closed form: the noise
is the mean of the variances that are left out, and W scales the axes by sqrt(variance - noise). With noise of its own
in every feature it is factor analysis, found by EM; EM also takes rows in which values are missing.

References: Tipping and Bishop, Probabilistic principal component analysis, JRSS B 1999; Rubin and Thayer, EM algorithms
for ML factor analysis, Psychometrika 1982.
"""

from typing import Any, Literal, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Float, Key
from chainrule.probability.distributions import LowRank, MultivariateNormal
from chainrule.probability.linear.principal_components import PrincipalComponents, principal_components

Noise = Literal["isotropic", "diagonal"]
_FLOOR = 1e-6
"""Least noise of a feature, as a share of its variance."""


class Factors(NamedTuple):
    """Parameters in double precision, on the host."""

    mean: Float[np.ndarray, " features"]
    loadings: Float[np.ndarray, "features factors"]
    noise: Float[np.ndarray, " features"]


@final
class FactorModel(eqx.Module):
    """Latent factors, and noise of every feature.

    >>> one = FactorModel(jnp.zeros(2), jnp.array([[1.0], [1.0]]), jnp.array([1.0, 1.0]))
    >>> one.distribution.covariance.tolist()
    [[2.0, 1.0], [1.0, 2.0]]
    """

    mean: Float[Array, " features"]
    loadings: Float[Array, "features factors"]
    noise: Float[Array, " features"]
    """Variance of each feature given the factors."""

    @property
    def distribution(self) -> MultivariateNormal:
        """Of rows; nothing of the size of the whole covariance is made."""
        return MultivariateNormal(self.mean, LowRank(self.loadings, self.noise))

    @property
    def parameters(self) -> Factors:
        """In double precision, on the host."""
        return Factors(*(np.asarray(a, np.float64) for a in (self.mean, self.loadings, self.noise)))

    @staticmethod
    def of(found: Factors) -> "FactorModel":
        """On the device, in its precision."""
        return FactorModel(*(jnp.asarray(a, jnp.result_type(float)) for a in found))

    def posterior(
        self, x: Float[Array, "rows features"]
    ) -> tuple[Float[Array, "rows factors"], Float[Array, "factors factors"]]:
        """Means and covariance of the factors given each row; the covariance is the same for all rows."""
        weighted = self.loadings / self.noise[:, None]
        precision = jnp.eye(self.loadings.shape[1], dtype=x.dtype) + self.loadings.T @ weighted
        factor = jax.scipy.linalg.cho_factor(precision, lower=True)
        means = jax.scipy.linalg.cho_solve(factor, weighted.T @ (x - self.mean[None]).T).T
        return means, jax.scipy.linalg.cho_solve(factor, jnp.eye(len(precision), dtype=x.dtype))

    def decode(self, z: Float[Array, "rows factors"]) -> Float[Array, "rows features"]:
        """The mean of a row given its factors."""
        return z @ self.loadings.T + self.mean[None]

    def sample(self, key: Key, n: int) -> Float[Array, "n features"]:
        """New rows."""
        return self.distribution.sample(key, (n,))


def ppca(found: PrincipalComponents, k: int) -> Factors:
    """Probabilistic PCA by its closed form, with k factors of the components that were `found`.

    >>> rows = np.array([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> ppca(principal_components(rows), 1).noise.tolist()
    [0.5, 0.5]
    """
    features = len(found.mean)
    if not 1 <= k < features or k > len(found.variances):
        raise ArgumentError(
            f"ppca(k={k}): {features} features have from 1 to {features - 1} factors under noise",
            remedy=f"use k={max(min(k, features - 1, len(found.variances)), 1)}",
        )
    noise = (found.total - float(found.variances[:k].sum())) / (features - k)
    if not noise > 1e-12 * max(found.total, 1e-300):
        raise ArgumentError(
            f"ppca(k={k}): {k} factors explain all of the variance, which leaves no noise and no density",
            remedy=f"use fewer than {int((found.variances > 1e-12 * found.total).sum())} factors, or drop features "
            "that follow from others",
        )
    loadings = found.axes[:k].T * np.sqrt(np.maximum(found.variances[:k] - noise, 0.0))[None]
    return Factors(found.mean, loadings, np.full(features, noise))


def fit_factors(
    x: Any, k: int, *, noise: Noise = "isotropic", iterations: int = 500, tolerance: float = 1e-7
) -> FactorModel:
    """Maximum likelihood for rows in which NaN marks what is missing; closed form where there is one, else EM.

    EM ends when the mean log-likelihood of a row rises by less than `tolerance`.
    """
    check_choice("fit_factors", "noise", noise, ("isotropic", "diagonal"))
    rows = np.asarray(x, np.float64)
    if rows.ndim != 2 or np.isinf(rows).any():
        raise ArgumentError("fit_factors(x): needs rows of finite features, NaN where one is missing")
    seen = ~np.isnan(rows)
    if not seen.any(axis=0).all():
        raise ArgumentError(
            f"fit_factors(x): feature {int(np.argmin(seen.any(axis=0)))} is missing in every row",
            remedy="drop it",
        )
    found = ppca(principal_components(np.where(seen, rows, np.nanmean(rows, axis=0)[None])), k)
    if noise == "isotropic" and seen.all():
        return FactorModel.of(found)
    before = -np.inf
    for _ in range(iterations):
        found, value = expectation_maximization(found, rows, noise)
        if value - before < tolerance:
            break
        before = value
    return FactorModel.of(found)


def expectation_maximization(
    found: Factors, x: Float[np.ndarray, "rows features"], noise: Noise, added: float = 0.0
) -> tuple[Factors, float]:
    """The parameters after one iteration of EM, and the mean log-likelihood of a row before it; NaN is missing.

    Rows may stand for rows with independent noise of variance `added` in every entry: all expectations are then over
    that noise too.
    """
    mean, loadings, spread = found
    rows = np.asarray(x, np.float64)
    seen = ~np.isnan(rows)
    filled, centred = np.where(seen, rows, 0.0), np.where(seen, rows - mean[None], 0.0)
    factors = loadings.shape[1]
    # Given a row, its factors have the precision I + W^T diag(seen / noise) W: one for all rows that miss the same.
    patterns, which = _patterns(seen)
    weighted = (patterns / spread[None])[:, :, None] * loadings[None]
    precision = np.eye(factors)[None] + np.einsum("pda,db->pab", weighted, loadings)
    covariance = np.linalg.inv(precision)
    gain = weighted @ covariance  # from a centred row to the mean of its factors
    codes = centred @ gain[0] if len(patterns) == 1 else np.einsum("nd,nda->na", centred, gain[which])
    square = (np.square(centred) * seen / spread[None]).sum(axis=1)
    square -= np.einsum("na,nab,nb->n", codes, precision[which], codes)
    log_det = np.linalg.slogdet(precision)[1][which] + (seen * np.log(spread)[None]).sum(axis=1)
    # Noise in the entries adds the trace of the precision of a row to the expected square.
    traces = (patterns / spread[None]).sum(axis=1) - np.einsum("pda,pda->p", gain, weighted)
    square += added * traces[which]
    value = float((-0.5 * (square + log_det + seen.sum(axis=1) * np.log(2 * np.pi))).mean())
    # The maximisation regresses every feature, where it is seen, on the factors and a constant.
    ones = np.concatenate([codes, np.ones((len(rows), 1))], axis=1)
    counts = np.zeros((len(patterns), rows.shape[1]))
    np.add.at(counts, which, seen)
    spreads = covariance + added * np.einsum("pda,pdb->pab", gain, gain)
    moments = (
        np.einsum("nd,na,nb->dab", seen.astype(float), ones, ones)
        if len(patterns) > 1
        else (ones.T @ ones)[None]
    )
    moments = np.array(np.broadcast_to(moments, (rows.shape[1], factors + 1, factors + 1)))
    moments[:, :factors, :factors] += np.einsum("pd,pab->dab", counts, spreads)
    cross = filled.T @ ones
    cross[:, :factors] += added * np.einsum("pd,pda->da", counts, gain)
    solved = np.linalg.solve(moments, cross[..., None])[..., 0]
    squares = np.square(filled).sum(axis=0) + added * seen.sum(axis=0) - (solved * cross).sum(axis=1)
    left = squares / seen.sum(axis=0)
    if noise == "isotropic":
        left = np.full_like(left, squares.sum() / seen.sum())
    floor = _FLOOR * np.nanvar(rows, axis=0).mean()
    return Factors(solved[:, -1], solved[:, :-1], np.maximum(left, floor)), value


def _patterns(seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different rows of a mask, and which of them each row is."""
    if seen.all():
        return seen[:1], np.zeros(len(seen), int)
    patterns, which = np.unique(seen, axis=0, return_inverse=True)
    return patterns, which.ravel()


__all__ = ["FactorModel", "Factors", "Noise", "expectation_maximization", "fit_factors", "ppca"]
