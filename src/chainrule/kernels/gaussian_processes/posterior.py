"""What data say about a function: mean, variance, covariance, draws, leave-one-out and log marginal likelihood.

On the host everything is LAPACK in double precision, new points in tiles. Where something is traced, or on another
device, the same formulas are JAX's.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Key
from chainrule.kernels import host
from chainrule.kernels.data_checks import checked_points
from chainrule.kernels.gaussian_processes.evidence import log_evidence
from chainrule.kernels.gaussian_processes.hyperparameters import Learning, learn
from chainrule.kernels.gaussian_processes.process import GaussianProcess
from chainrule.kernels.kernel import points as as_points
from chainrule.kernels.positive import Factored, factored
from chainrule.kernels.precision import traced, widened

KINDS = ("observation", "latent")
"""What is predicted: a new observation with its noise, or the function alone."""
ENTRIES = 2**24
"""Kernels of new points with training points that are held at once."""


class Prediction(NamedTuple):
    """Mean and variance at every point, or the covariance of all where that was asked for."""

    mean: Float[np.ndarray, " rows *outputs"] | Array
    variance: Float[np.ndarray, " rows *outputs"] | Array


class LeftOut(NamedTuple):
    """Predictions of every training target from all the others."""

    mean: Float[np.ndarray, " rows *outputs"]
    variance: Float[np.ndarray, " rows *outputs"]
    """Of the observation."""
    log_prob: Float[np.ndarray, " rows *outputs"]
    """Log density of the target that was left out."""


@final
@dataclass(frozen=True, eq=False)
class GaussianProcessPosterior:
    """A Gaussian process that has seen data."""

    process: GaussianProcess
    x: Float[np.ndarray, "rows features"] | Array
    y: Float[np.ndarray, " rows *outputs"] | Array
    factor: host.Lower | Factored
    """Of the kernel matrix with the noise."""
    weights: Float[np.ndarray, "rows outputs"] | Array
    """`C^-1 (y - mean)`."""
    log_marginal_likelihood: float | Array
    """Log density of all targets; outputs are added up."""
    learning: Learning | None = None
    """How the hyper-parameters were learnt, where they were."""

    @property
    def jitter(self) -> float | Array:
        """What had to be added to the diagonal of the kernel matrix."""
        return self.factor.jitter

    def predict(
        self, x: Any, kind: str = "observation", *, noise: Any = None, covariance: bool = False
    ) -> Prediction:
        """Mean and variance at new points: of a new observation, or of the function alone (`kind="latent"`).

        `noise` is the variance of the noise at the new points, where it was given for every training point. With
        `covariance` the second is the covariance of all new points, the same for every output.
        """
        check_choice("predict", "kind", kind, KINDS)
        if traced(self.process, self.weights, x) or isinstance(self.factor, Factored):
            return self._predict_traced(x, kind, noise, covariance)
        points = checked_points("predict", "x", x, self.x.shape[1])
        if not len(points):
            raise ArgumentError("predict(x): there are no points to predict")
        if covariance:
            host.check_size("predict", len(points))
        added = self._noise_at(kind, noise, len(points))
        mean = np.empty((len(points), self.weights.shape[1]))
        variance = np.empty(len(points))
        whitened = []
        size = min(len(points), max(1, ENTRIES // len(self.x)))
        with jax.enable_x64(True):
            process = widened(self.process)
            for start in range(0, len(points), size):
                part = points[start : start + size]
                here = slice(start, start + len(part))
                between = host.cross_gram(process.kernel, np.asarray(self.x), part)
                prior = np.asarray(process.mean_of(jnp.asarray(part), mean.shape[1]))
                mean[here] = prior + between.T @ self.weights
                white = self.factor.whiten(between)
                variance[here] = process.kernel.diagonal(jnp.asarray(part)) - np.einsum(
                    "ij,ij->j", white, white
                )
                if covariance:
                    whitened.append(white)
            if covariance:
                own = host.lower_gram(process.kernel, points)
                white = np.concatenate(whitened, axis=1)
                spread = np.tril(own) + np.tril(own, -1).T - white.T @ white
                return Prediction(self._shaped(mean), spread + np.diag(np.broadcast_to(added, len(points))))
        # Rounding may leave a variance a little below zero.
        found = np.maximum(variance, 0.0) + added
        return Prediction(self._shaped(mean), self._shaped(np.broadcast_to(found[:, None], mean.shape)))

    def _predict_traced(self, x: Any, kind: str, noise: Any, covariance: bool) -> Prediction:
        """The same in JAX."""
        points = as_points("predict", "x", x)
        process, factor = self.process, Factored(jnp.asarray(self.factor[0]), jnp.asarray(self.factor[1]))
        between = process.kernel.tile(jnp.asarray(self.x), points)
        weights = jnp.asarray(self.weights)
        mean = process.mean_of(points, weights.shape[1]) + between.T @ weights
        white = factor.whiten(between)
        added = jnp.asarray(self._noise_at(kind, noise, len(points)))
        mean = mean[:, 0] if self.y.ndim == 1 else mean
        if covariance:
            spread = process.kernel.tile(points, points) - white.T @ white
            return Prediction(mean, spread + jnp.diag(jnp.broadcast_to(added, (len(points),))))
        found = jnp.maximum(process.kernel.diagonal(points) - jnp.square(white).sum(axis=0), 0.0) + added
        return Prediction(mean, found if mean.ndim == 1 else jnp.broadcast_to(found[:, None], mean.shape))

    def sample(
        self, key: Key, x: Any, n: int = 1, kind: str = "latent"
    ) -> Float[np.ndarray, "n rows *outputs"]:
        """Functions drawn given the data, by their values at these points; with noise for `kind="observation"`."""
        mean, spread = self.predict(x, kind, covariance=True)
        count = whole("sample", "n", n)
        columns = np.asarray(mean).reshape(len(mean), -1)
        lower = host.factor(lambda: np.asfortranarray(spread), "covariance")
        with jax.enable_x64(True):
            noise = np.asarray(jax.random.normal(key, (count, *columns.shape), jnp.float64))
        drawn = columns[None] + np.tril(lower.matrix) @ noise
        return drawn.reshape(count, *np.shape(mean))

    def leave_one_out(self) -> LeftOut:
        """Predictions of every target from all the others, in closed form.

        Reference: Rasmussen and Williams, 2006, equations 5.10 to 5.12.
        """
        if isinstance(self.factor, Factored):
            lower = np.asfortranarray(np.asarray(self.factor.lower, np.float64))
            own = host.Lower(lower, float(self.factor.jitter)).inverse_diagonal()
        else:
            own = self.factor.inverse_diagonal()
        weights, targets = np.asarray(self.weights), np.asarray(self.y)
        missed = (weights / own[:, None]).reshape(targets.shape)
        variance = np.broadcast_to((1 / own)[:, None], weights.shape).reshape(targets.shape)
        log_prob = -0.5 * (np.square(missed) / variance + np.log(2 * np.pi * variance))
        return LeftOut(targets - missed, variance, log_prob)

    def optimize(self, **options: Any) -> "GaussianProcessPosterior":
        """The posterior of the same data under hyper-parameters that suit them better; options as of `learn`."""
        learnt, learning = learn(self.process, np.asarray(self.x), np.asarray(self.y), **options)
        return condition(learnt, np.asarray(self.x), np.asarray(self.y), learning)

    def _noise_at(self, kind: str, noise: Any, rows: int) -> Any:
        if kind == "latent":
            if noise is not None:
                raise ArgumentError('predict(noise=...): kind="latent" is the function without noise')
            return 0.0
        if noise is not None:
            found = np.asarray(noise, np.float64)
            if found.shape not in ((), (rows,)) or not (found >= 0).all():
                raise ArgumentError(
                    f"predict(noise): a variance for each of {rows} points is needed, none below zero"
                )
            return found
        own = self.process.noise
        if own.ndim and len(own) > 1:
            raise ArgumentError(
                "predict: the noise was given for every training point, and is not known at new ones",
                remedy='give it: predict(x, noise=...), or predict the function alone: kind="latent"',
            )
        return own.reshape(())

    def _shaped(self, values: np.ndarray) -> np.ndarray:
        return values[:, 0] if self.y.ndim == 1 else values


def condition(
    process: GaussianProcess, x: np.ndarray, y: np.ndarray, learning: Learning | None = None
) -> GaussianProcessPosterior:
    """The posterior of checked data, in double precision."""
    columns = y.reshape(len(y), -1)
    with jax.enable_x64(True):
        wide = widened(process)
        targets = columns - np.asarray(wide.mean_of(jnp.asarray(x), columns.shape[1]))
        kept = jax.tree.map(lambda a: np.asarray(a) if isinstance(a, jax.Array) else a, wide)
        if jax.default_backend() != "cpu":
            lower, solved, value = _conditioned(wide, jnp.asarray(x), jnp.asarray(targets))
            return GaussianProcessPosterior(kept, x, y, lower, solved, float(value), learning)
        noise = np.asarray(wide.noise)
        found = host.factor(lambda: host.lower_gram(wide.kernel, x, noise))
    weights = found.solve(targets)
    log_prob = -0.5 * (
        float((targets * weights).sum()) + targets.shape[1] * (found.log_det + len(x) * math.log(2 * math.pi))
    )
    return GaussianProcessPosterior(kept, x, y, found, weights, log_prob, learning)


def condition_traced(process: GaussianProcess, x: Any, y: Any) -> GaussianProcessPosterior:
    """The same inside compiled code, in the precision of the arguments."""
    points, targets = as_points("GaussianProcess.fit", "x", x), jnp.asarray(y)
    columns = targets.reshape(len(targets), -1)
    centred = columns - process.mean_of(points, columns.shape[1])
    return GaussianProcessPosterior(process, points, targets, *_conditioned(process, points, centred))


def _conditioned(process: GaussianProcess, x: Array, targets: Array) -> tuple[Factored, Array, Array]:
    covariance = process.kernel.gram(x) + jnp.diag(jnp.broadcast_to(process.noise, (len(x),)))
    found = factored(covariance)
    weights = found.solve(targets)
    return found, weights, log_evidence(covariance, targets)


__all__ = ["GaussianProcessPosterior", "LeftOut", "Prediction", "condition", "condition_traced"]
