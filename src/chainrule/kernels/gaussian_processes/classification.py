"""Gaussian process classification of up to a few thousand examples, by Laplace's approximation or variationally.

Classes are numbered from zero. Two classes have one latent function behind a logistic or probit link, several have one
each behind a softmax. The posterior of latent functions is no Gaussian; both ways put one in its place: at the mode
with the curvature there (quick, evidence of either sign of error), or the closest from below in the evidence.
"""

from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Scalar
from chainrule.kernels.data_checks import checked_points
from chainrule.kernels.gaussian_processes import classification_laplace as laplace
from chainrule.kernels.gaussian_processes.climbing import climbed
from chainrule.kernels.gaussian_processes.likelihoods import ClassLikelihood, LogisticLikelihood
from chainrule.kernels.gaussian_processes.likelihoods_race import correlated_softmax
from chainrule.kernels.gaussian_processes.stochastic import StochasticGaussianProcess
from chainrule.kernels.kernel import Kernel, Points, a_kernel
from chainrule.kernels.precision import in_double

_SWEEPS = 500
"""Natural-gradient steps at most."""


class LatentClasses(NamedTuple):
    """Means and covariances of the latent functions at some points."""

    mean: Float[np.ndarray, "rows latents"]
    covariance: Float[np.ndarray, "rows latents latents"]


@final
class LaplaceClassifier(eqx.Module):
    """Classes by Laplace's approximation.

    >>> from chainrule.kernels import RBF
    >>> found = LaplaceClassifier(RBF(1.0)).fit([-2.0, -1.0, 1.0, 2.0], [0, 0, 1, 1])
    >>> found.predict([-1.5, 0.0]).round(2).tolist()
    [[0.63, 0.37], [0.5, 0.5]]
    """

    kernel: Kernel
    likelihood: ClassLikelihood = LogisticLikelihood()

    def fit(self, x: Any, y: Any) -> "LaplacePosterior":
        """The posterior given examples."""
        a_kernel("LaplaceClassifier", self.kernel)
        rows, numbers = checked_examples("LaplaceClassifier.fit", self.likelihood, x, y)
        return LaplacePosterior(
            self.kernel, self.likelihood, rows, numbers, laplace.Mode(*_mode(self, rows, numbers))
        )

    def log_evidence(self, x: Points, y: Array) -> Scalar:
        """The approximate log marginal likelihood; differentiable in the kernel, and traced code itself."""
        return laplace.mode(self.likelihood, self.kernel.tile(x, x), y).log_evidence


@final
class LaplacePosterior(eqx.Module):
    """What examples say about classes, by a Gaussian at the mode of the latent values."""

    kernel: Kernel
    likelihood: ClassLikelihood
    x: Float[np.ndarray, "rows features"]
    y: np.ndarray
    mode: laplace.Mode

    @property
    def log_marginal_likelihood(self) -> float:
        """Approximate, in nats."""
        return float(self.mode.log_evidence)

    def latent(self, x: Any) -> LatentClasses:
        """The latent functions at new points."""
        return LatentClasses(*_laplace_latent(self, checked_points("latent", "x", x, self.x.shape[1])))

    def predict(self, x: Any) -> Float[np.ndarray, "rows classes"]:
        """The probability of every class, averaged over the latent functions."""
        return _laplace_probabilities(self.likelihood, *self.latent(x))

    def optimize(self, steps: int = 100) -> "LaplacePosterior":
        """The posterior under the kernel with the highest approximate evidence that L-BFGS finds from here."""
        best = climbed(
            lambda kernel, likelihood, x, y: LaplaceClassifier(kernel, likelihood).log_evidence(x, y),
            self.kernel,
            self.likelihood,
            self.x,
            self.y,
            steps=steps,
        ).best
        return LaplaceClassifier(best, self.likelihood).fit(self.x, self.y)


@in_double
@eqx.filter_jit
def _mode(classifier: LaplaceClassifier, x: Array, y: Array) -> tuple[Any, ...]:
    return tuple(laplace.mode(classifier.likelihood, classifier.kernel.tile(x, x), y))


@in_double
@eqx.filter_jit
def _laplace_latent(posterior: LaplacePosterior, x: Array) -> tuple[Any, Any]:
    likelihood, kernel = posterior.likelihood, posterior.kernel
    seen = jnp.asarray(posterior.x)
    bent, _ = laplace.curvature(
        likelihood, kernel.tile(seen, seen), posterior.mode.latent, jnp.asarray(posterior.y)
    )
    return laplace.predicted(bent, posterior.mode.weights, kernel.tile(seen, x), kernel.diagonal(x))


@in_double
@eqx.filter_jit
def _laplace_probabilities(likelihood: ClassLikelihood, mean: Any, covariance: Any) -> Any:
    return averaged(likelihood, mean, covariance)


def averaged(
    likelihood: ClassLikelihood,
    mean: Float[Array, "rows latents"],
    covariance: Float[Array, "rows latents latents"],
) -> Float[Array, "rows classes"]:
    """The probability of every class, averaged over latent functions that depend on each other; traced code."""
    if likelihood.latents == 1:
        return likelihood.probabilities(mean, covariance[:, :, 0])
    return correlated_softmax(mean, covariance)


@final
class VariationalClassifier(eqx.Module):
    """Classes by the Gaussian with the highest evidence lower bound, found by natural gradients over all examples."""

    kernel: Kernel
    likelihood: ClassLikelihood = LogisticLikelihood()

    def fit(self, x: Any, y: Any, *, tolerance: float = 1e-8) -> "VariationalPosterior":
        """The posterior given examples; steps end when the bound rises by less than the tolerance."""
        a_kernel("VariationalClassifier", self.kernel)
        rows, numbers = checked_examples("VariationalClassifier.fit", self.likelihood, x, y)
        process, bound, steps = _settled(self.kernel, self.likelihood, rows, numbers, tolerance)
        return VariationalPosterior(process, self.likelihood, rows, numbers, bound, steps)


@final
class VariationalPosterior(eqx.Module):
    """What examples say about classes, by the best Gaussian over latent values."""

    process: StochasticGaussianProcess
    likelihood: ClassLikelihood
    x: Float[np.ndarray, "rows features"]
    y: np.ndarray
    value: np.ndarray
    steps: np.ndarray
    """Natural-gradient steps it took."""

    @property
    def bound(self) -> float:
        """The evidence lower bound, in nats."""
        return float(self.value)

    def predict(self, x: Any) -> Float[np.ndarray, "rows classes"]:
        """The probability of every class, averaged over the latent functions."""
        return np.asarray(self.process.predict(x).mean)

    def optimize(self, rounds: int = 10, steps: int = 20) -> "VariationalPosterior":
        """Kernel and posterior in turns; at the best posterior the slope of the bound is that in the kernel alone."""
        now = self
        for _ in range(rounds):
            found = climbed(_bound_of, now.process.kernel, now.process, now.x, now.y, steps=steps)
            ahead = VariationalClassifier(found.best, now.likelihood).fit(now.x, now.y)
            if ahead.bound - now.bound < 1e-6 * max(1.0, abs(now.bound)):
                return ahead if ahead.bound > now.bound else now
            now = ahead
        return now


def _bound_of(kernel: Kernel, process: StochasticGaussianProcess, x: Array, y: Array) -> Scalar:
    return eqx.tree_at(lambda p: p.kernel, process, kernel).bound(x, y, len(x))


@in_double
@eqx.filter_jit
def _settled(
    kernel: Kernel, likelihood: ClassLikelihood, x: Array, y: Array, tolerance: float
) -> tuple[StochasticGaussianProcess, Any, Any]:
    start = StochasticGaussianProcess(kernel, likelihood, x)
    arrays, rest = eqx.partition((start.mean, start.factor), eqx.is_array)

    def with_q(q: Any) -> StochasticGaussianProcess:
        return eqx.tree_at(lambda p: (p.mean, p.factor), start, eqx.combine(q, rest))

    def goes_on(state: tuple[Any, ...]) -> Array:
        _, _, change, rate, steps = state
        return ((jnp.abs(change) > tolerance) | (rate < 0.5)) & (rate > 1e-3) & (steps < _SWEEPS)

    def step(state: tuple[Any, ...]) -> tuple[Any, ...]:
        q, value, _, rate, steps = state
        moved = with_q(q).natural_step(x, y, len(x), rate)
        ahead = moved.bound(x, y, len(x))
        rose = ahead >= value - tolerance
        new = jax.tree.map(lambda a, b: jnp.where(rose, a, b), (moved.mean, moved.factor), q)
        # Whole steps as a rule; where one overshoots, shorter ones until they help.
        faster = jnp.where(rose, jnp.minimum(2 * rate, 1.0), rate / 2)
        return new, jnp.maximum(ahead, value), ahead - value, faster, steps + 1

    begin = start.bound(x, y, len(x))
    state = (
        arrays,
        begin,
        jnp.asarray(jnp.inf, begin.dtype),
        jnp.ones((), begin.dtype),
        jnp.zeros((), jnp.int32),
    )
    q, value, _, _, steps = jax.lax.while_loop(goes_on, step, state)
    return with_q(q), value, steps


def checked_examples(
    where: str, likelihood: ClassLikelihood, x: Any, y: Any
) -> tuple[Float[np.ndarray, "rows features"], np.ndarray]:
    """Rows and classes that fit each other; every class of two has to be there."""
    rows = checked_points(where, "x", x)
    numbers = likelihood.checked(where, y)
    if len(rows) != len(numbers) or not len(rows):
        raise ArgumentError(f"{where}: {len(rows)} rows of x for {len(numbers)} classes of y")
    if len(np.unique(numbers)) < 2:
        raise ArgumentError(
            f"{where}(y): all examples are of class {numbers[0]}, so there is nothing to tell apart",
            remedy="give examples of two classes at least",
        )
    return rows, numbers


__all__ = [
    "LaplaceClassifier",
    "LaplacePosterior",
    "LatentClasses",
    "VariationalClassifier",
    "VariationalPosterior",
    "averaged",
    "checked_examples",
]
