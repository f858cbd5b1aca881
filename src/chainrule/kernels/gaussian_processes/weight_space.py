"""Gaussian process regression in weight space: a Bayesian linear model on features that stand for the kernel.

A function `f(x) = w · psi(x)` with standard normal weights is a Gaussian process whose kernel is the inner product of
the features. Given targets the weights are normal with precision `A = I + Psi' Psi / noise` and mean `A^-1 Psi' t /
noise`: exact for these features, in time that grows with the number of rows and the square of that of features. Rows
are summed over tiles, so that no matrix with a side of all rows is held. What the features of a new point leave of its
prior variance (none of random Fourier features, some of landmarks) is added to its variance, so that it is sure of
nothing that the features do not see.

References: Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, section 2.1; Quiñonero-Candela and
Rasmussen, A unifying view of sparse approximate Gaussian process regression, 2005 (their deterministic training
conditional, where features are those of landmarks).
"""

import math
from typing import Any, final, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core import random
from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.kernels.approximation import Approximate, feature_map
from chainrule.kernels.data_checks import checked_points, checked_targets
from chainrule.kernels.features import KernelFeatures
from chainrule.kernels.gaussian_processes.sparse import KINDS
from chainrule.kernels.kernel import TILE, Kernel, a_kernel
from chainrule.kernels.positive import factored
from chainrule.kernels.precision import in_double
from chainrule.probability.distributions.parameters import floating, positive


@final
class WeightSpaceGaussianProcess(eqx.Module):
    """A Gaussian process with noise, by `count` features in place of its kernel: `rff` or `nystrom`.

    >>> from chainrule.kernels import RBF
    >>> x = np.linspace(0, 6, 200)
    >>> found = WeightSpaceGaussianProcess(RBF(1.0), 0.01, count=20).fit(x, np.sin(x))
    >>> mean, variance = found.predict([1.5], kind="latent")
    >>> round(float(mean[0]), 2), bool(variance[0] < 0.01)
    (1.0, True)
    """

    kernel: Kernel
    log_noise: Scalar
    approximate: str = eqx.field(static=True)
    count: int = eqx.field(static=True)

    def __init__(
        self, kernel: Kernel, noise: Any = 0.1, *, approximate: str = "nystrom", count: int = 1024
    ) -> None:
        where = "WeightSpaceGaussianProcess"
        self.kernel = a_kernel(where, kernel)
        self.log_noise = jnp.log(positive(where, "noise", floating(noise)))
        check_choice(
            where, "approximate", approximate, [name for name in get_args(Approximate) if name != "none"]
        )
        self.approximate, self.count = approximate, whole(where, "count", count)

    def fit(
        self, x: Any, y: Any, *, key: Key | None = None, features: KernelFeatures | None = None
    ) -> "WeightSpacePosterior":
        """The posterior given examples; several outputs are columns of `y`.

        `key` draws random features. `features` that are given take the place of those that would be drawn or chosen.
        """
        where = "WeightSpaceGaussianProcess.fit"
        rows = checked_points(where, "x", x)
        values = checked_targets(where, "y", y, len(rows))
        if features is None:
            drawn = random.key(0, "features") if key is None else key
            features = feature_map(self.kernel, rows, self.approximate, self.count, drawn)
        found = _posterior(features, np.exp(np.float64(self.log_noise)), rows, values.reshape(len(rows), -1))
        lower, weights, evidence = found
        return WeightSpacePosterior(
            self, features, lower, weights.reshape(-1, *values.shape[1:]), evidence, rows.shape[1]
        )


@final
class WeightSpacePosterior(eqx.Module):
    """What examples say about the weights of the features."""

    process: WeightSpaceGaussianProcess
    features: KernelFeatures
    lower: Float[np.ndarray, "count count"]
    """The factor of the precision of the weights."""
    weights: Float[np.ndarray, "count *outputs"]
    """Their mean."""
    evidence: Float[np.ndarray, ""]
    size: int = eqx.field(static=True)

    @property
    def log_marginal_likelihood(self) -> float:
        """Log density of all targets under the process that the features are of, in nats; outputs are added up."""
        return float(self.evidence)

    def predict(self, x: Any, *, kind: str = "observation") -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of new observations, or of the function itself (`kind="latent"`).

        Outputs share one variance.
        """
        check_choice("predict", "kind", kind, KINDS)
        new = checked_points("predict", "x", x, self.size)
        if not len(new):
            raise ArgumentError("predict(x): there are no points to predict")
        block = max(1, TILE // len(self.lower))
        parts = [
            _predicted(self.process.kernel, self.features, self.lower, self.weights, new[i : i + block])
            for i in range(0, len(new), block)
        ]
        mean, variance = (np.concatenate(part) for part in zip(*parts, strict=True))
        noise = float(np.exp(np.float64(self.process.log_noise))) if kind == "observation" else 0.0
        return mean, variance + noise


@in_double
@eqx.filter_jit
def _posterior(features: KernelFeatures, noise: Any, x: Array, y: Float[Array, "rows outputs"]) -> Any:
    """The factor of the precision of the weights, their mean, and the log evidence."""
    rows, outputs = y.shape
    size = min(rows, max(1, TILE // features.count))
    tiles = -(-rows // size)
    missing = tiles * size - rows
    padded = jnp.pad(x, ((0, missing), (0, 0)), mode="edge").reshape(tiles, size, -1)
    targets = jnp.pad(y, ((0, missing), (0, 0))).reshape(tiles, size, outputs)
    there = (jnp.arange(tiles * size) < rows).astype(y.dtype).reshape(tiles, size)

    def add(sums: tuple[Array, Array], tile: tuple[Array, ...]) -> tuple[tuple[Array, Array], None]:
        here, values, real = tile
        psi = jnp.asarray(features(here)) * real[:, None]
        return (sums[0] + psi.T @ psi, sums[1] + psi.T @ values), None

    count = features.count
    zeros = jnp.zeros((count, count), y.dtype), jnp.zeros((count, outputs), y.dtype)
    (square, across), _ = jax.lax.scan(add, zeros, (padded, targets, there))
    found = factored(jnp.eye(count, dtype=y.dtype) + square / noise, "I + Psi' Psi / noise")
    fitted = jnp.square(found.whiten(across)).sum() / noise
    evidence = -0.5 * (
        outputs * (rows * jnp.log(2 * math.pi * noise) + found.log_det)
        + (jnp.square(y).sum() - fitted) / noise
    )
    return found.lower, found.solve(across) / noise, evidence


@in_double
@eqx.filter_jit
def _predicted(kernel: Kernel, features: KernelFeatures, lower: Any, weights: Any, x: Array) -> Any:
    return predicted(kernel, jnp.asarray(features(x)), lower, weights, x)


def predicted(
    kernel: Kernel,
    psi: Float[Array, "rows count"],
    lower: Float[Array, "count count"],
    weights: Float[Array, "count *outputs"],
    x: Float[Array, "rows size"],
) -> tuple[Float[Array, "rows *outputs"], Float[Array, " rows"]]:
    """Mean and variance of the function at rows with these features; traced code."""
    white = jax.scipy.linalg.solve_triangular(lower, psi.T, lower=True)
    unseen = jnp.maximum(kernel.diagonal(x) - jnp.square(psi).sum(axis=1), 0.0)
    return psi @ weights, unseen + jnp.square(white).sum(axis=0)


__all__ = ["WeightSpaceGaussianProcess", "WeightSpacePosterior", "predicted"]
