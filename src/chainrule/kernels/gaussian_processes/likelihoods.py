"""What is observed of a latent function: the distribution of an observation given the function's values there.

Variational bounds need `E log p(y | f)` for Gaussian f, predictions need `E p(y | f)`. Both are closed forms or
quadratures here, never draws, so that bounds are the same numbers every time and have exact gradients.
"""

import abc
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln, log_ndtr, ndtr

from chainrule.core.checks import check_class_numbers, whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Scalar
from chainrule.kernels.gaussian_processes.likelihoods_race import expected_log_sum, expected_softmax
from chainrule.probability.distributions.parameters import floating, positive
from chainrule.probability.distributions.special import log_poisson

NODES = 64
"""Of Gauss-Hermite quadrature over one latent value."""

Latent = Float[Array, "rows latents"]


class Predicted(NamedTuple):
    """Mean and variance of new observations."""

    mean: Float[Array, "rows *outcomes"]
    variance: Float[Array, "rows *outcomes"]


class FunctionLikelihood(eqx.Module):
    """`p(y | f)`: independent observations of one latent function or several."""

    @property
    @abc.abstractmethod
    def latents(self) -> int:
        """How many latent functions an observation depends on."""

    @abc.abstractmethod
    def log_prob(self, f: Latent, y: Array) -> Float[Array, " rows"]:
        """`log p(y | f)` of every row."""

    @abc.abstractmethod
    def expected(self, mean: Latent, variance: Latent, y: Array) -> Float[Array, " rows"]:
        """`E log p(y | f)` of every row, where its latent values are independent and Gaussian."""

    @abc.abstractmethod
    def predictive(self, mean: Latent, variance: Latent) -> Predicted:
        """Mean and variance of observations; of classes, the probability of each."""

    @abc.abstractmethod
    def checked(self, where: str, y: Any) -> np.ndarray:
        """Observations as numbers this likelihood knows; raises for others."""


class ClassLikelihood(FunctionLikelihood):
    """The likelihood of classes, numbered from zero."""

    @property
    @abc.abstractmethod
    def classes(self) -> int:
        """How many there are."""

    @abc.abstractmethod
    def probabilities(self, mean: Latent, variance: Latent) -> Float[Array, "rows classes"]:
        """Of every class, averaged over the latent values."""

    def predictive(self, mean: Latent, variance: Latent) -> Predicted:
        """Probabilities, and the variances of indicators."""
        p = self.probabilities(mean, variance)
        return Predicted(p, p * (1 - p))

    def checked(self, where: str, y: Any) -> np.ndarray:
        """Numbers of classes."""
        numbers = np.asarray(y)
        if numbers.ndim != 1 or not (np.issubdtype(numbers.dtype, np.integer) or numbers.dtype == bool):
            raise ArgumentError(
                f"{where}(y): classes are whole numbers from 0, one for each row, not {numbers.dtype} of shape "
                f"{numbers.shape}",
                remedy="number them: names, y = np.unique(y, return_inverse=True)",
            )
        check_class_numbers(where, "y", numbers, self.classes)
        return numbers.astype(np.int32)


@functools.cache
def _nodes(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for a standard normal variable."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    return nodes, weights / math.sqrt(2 * math.pi)


def gaussian_mean(
    f: Callable[[Float[Array, "rows nodes"]], Float[Array, "rows nodes"]], mean: Latent, variance: Latent
) -> Float[Array, " rows"]:
    """The mean of a function of one Gaussian value a row.

    >>> gaussian_mean(jnp.square, jnp.array([[1.0]]), jnp.array([[4.0]])).round(4).tolist()
    [5.0]
    """
    nodes, weights = (jnp.asarray(part, mean.dtype) for part in _nodes(NODES))
    return f(mean + _root(variance) * nodes[None, :]) @ weights


def _root(variance: Array) -> Array:
    """The square root, with a finite derivative at zero, where rounding may have left it."""
    return jnp.sqrt(jnp.maximum(variance, jnp.finfo(variance.dtype).tiny))


class _OneLatent(FunctionLikelihood):
    """A likelihood of one latent function."""

    @property
    def latents(self) -> int:
        """One."""
        return 1

    @abc.abstractmethod
    def log_density(self, f: Array, y: Array) -> Array:
        """`log p(y | f)`, entry by entry."""

    def log_prob(self, f: Latent, y: Array) -> Float[Array, " rows"]:
        return self.log_density(f[:, 0], y)

    def by_quadrature(self, mean: Latent, variance: Latent, y: Array) -> Float[Array, " rows"]:
        """`E log p(y | f)`, where there is no closed form."""
        return gaussian_mean(lambda f: self.log_density(f, y[:, None]), mean, variance)


class _Numbers(_OneLatent):
    """Observations that are numbers."""

    def checked(self, where: str, y: Any) -> np.ndarray:
        """Finite numbers, one for each row."""
        values = np.asarray(y, np.float64)
        if values.ndim != 1 or not np.isfinite(values).all():
            bad = "" if values.ndim != 1 else f" with y[{int(np.argmin(np.isfinite(values)))}] not finite"
            raise ArgumentError(
                f"{where}(y): needs one finite number for each row, not shape {values.shape}{bad}"
            )
        return values


@final
class GaussianLikelihood(_Numbers):
    """`y = f + noise`, the noise normal with this variance."""

    log_noise: Scalar

    def __init__(self, noise: Any = 0.1) -> None:
        self.log_noise = jnp.log(positive("GaussianLikelihood", "noise", floating(noise)))

    @property
    def noise(self) -> Scalar:
        """Its variance."""
        return jnp.exp(self.log_noise)

    def log_density(self, f: Array, y: Array) -> Array:
        """The logarithm of the normal density."""
        return -0.5 * (jnp.square(y - f) / self.noise + self.log_noise + math.log(2 * math.pi))

    def expected(self, mean: Latent, variance: Latent, y: Array) -> Float[Array, " rows"]:
        """In closed form."""
        return self.log_density(mean[:, 0], y) - 0.5 * variance[:, 0] / self.noise

    def predictive(self, mean: Latent, variance: Latent) -> Predicted:
        """The noise adds its variance."""
        return Predicted(mean[:, 0], variance[:, 0] + self.noise)


@final
class StudentTLikelihood(_Numbers):
    """`y = f + scale t`, t of Student's distribution: heavy tails that let outliers be."""

    log_scale: Scalar
    log_excess: Scalar
    """Of the degrees of freedom over two, where the variance ends."""

    def __init__(self, scale: Any = 0.3, degrees: Any = 4.0) -> None:
        self.log_scale = jnp.log(positive("StudentTLikelihood", "scale", floating(scale)))
        self.log_excess = jnp.log(positive("StudentTLikelihood", "degrees - 2", floating(degrees) - 2))

    @property
    def degrees(self) -> Scalar:
        """Of freedom, more than two."""
        return 2 + jnp.exp(self.log_excess)

    def log_density(self, f: Array, y: Array) -> Array:
        """The logarithm of Student's density."""
        degrees = self.degrees
        constant = gammaln((degrees + 1) / 2) - gammaln(degrees / 2) - 0.5 * jnp.log(degrees * math.pi)
        far = jnp.square((y - f) * jnp.exp(-self.log_scale)) / degrees
        return constant - self.log_scale - 0.5 * (degrees + 1) * jnp.log1p(far)

    def expected(self, mean: Latent, variance: Latent, y: Array) -> Float[Array, " rows"]:
        """By quadrature."""
        return self.by_quadrature(mean, variance, y)

    def predictive(self, mean: Latent, variance: Latent) -> Predicted:
        """The noise adds its variance."""
        noise = jnp.exp(2 * self.log_scale) * self.degrees / (self.degrees - 2)
        return Predicted(mean[:, 0], variance[:, 0] + noise)


@final
class PoissonLikelihood(_OneLatent):
    """Counts with the rate `exp(f)`."""

    def log_density(self, f: Array, y: Array) -> Array:
        """`y f - exp(f) - log y!`."""
        return log_poisson(y.astype(f.dtype), jnp.exp(f))

    def expected(self, mean: Latent, variance: Latent, y: Array) -> Float[Array, " rows"]:
        """In closed form: the mean of `exp(f)` is `exp(mean + variance / 2)`."""
        y = y.astype(mean.dtype)
        return y * mean[:, 0] - jnp.exp(mean[:, 0] + 0.5 * variance[:, 0]) - gammaln(y + 1)

    def predictive(self, mean: Latent, variance: Latent) -> Predicted:
        """The rate is log-normal: its variance adds to that of the counts."""
        rate = jnp.exp(mean[:, 0] + 0.5 * variance[:, 0])
        return Predicted(rate, rate + jnp.square(rate) * jnp.expm1(variance[:, 0]))

    def checked(self, where: str, y: Any) -> np.ndarray:
        """Counts."""
        counts = np.asarray(y, np.float64)
        wrong = ~((counts >= 0) & (counts == np.floor(counts)) & (counts < np.inf))
        if counts.ndim != 1 or wrong.any():
            shown = f"y[{int(np.argmax(wrong))}] is {counts[np.argmax(wrong)]:g}" if counts.ndim == 1 else ""
            raise ArgumentError(
                f"{where}(y): counts are whole numbers from 0, one for each row; {shown or f'shape {counts.shape}'}"
            )
        return counts


class _TwoClasses(_OneLatent, ClassLikelihood):
    """Two classes: a link turns the latent value into the probability of class 1."""

    @property
    def classes(self) -> int:
        """Two."""
        return 2

    @abc.abstractmethod
    def log_link(self, f: Array) -> Array:
        """The logarithm of the probability of class 1; of class 0 it is that of -f."""

    @abc.abstractmethod
    def second(self, mean: Array, variance: Array) -> Float[Array, " rows"]:
        """The probability of class 1, averaged."""

    def log_density(self, f: Array, y: Array) -> Array:
        """The logarithm of the link, f with the sign of the class."""
        return self.log_link(jnp.where(y > 0, f, -f))

    def expected(self, mean: Latent, variance: Latent, y: Array) -> Float[Array, " rows"]:
        """By quadrature."""
        return self.by_quadrature(mean, variance, y)

    def probabilities(self, mean: Latent, variance: Latent) -> Float[Array, "rows classes"]:
        # Each by its own integral: one minus the other would lose the digits of the smaller.
        return jnp.stack([self.second(-mean, variance), self.second(mean, variance)], axis=1)


@final
class LogisticLikelihood(_TwoClasses):
    """Class 1 with probability `1 / (1 + exp(-f))`."""

    def log_link(self, f: Array) -> Array:
        """`-log(1 + exp(-f))`."""
        return jax.nn.log_sigmoid(f)

    def second(self, mean: Array, variance: Array) -> Float[Array, " rows"]:
        """By quadrature."""
        return gaussian_mean(jax.nn.sigmoid, mean, variance)


@final
class ProbitLikelihood(_TwoClasses):
    """Class 1 with the probability that a standard normal variable is below f."""

    def log_link(self, f: Array) -> Array:
        """The logarithm of the normal distribution function."""
        return log_ndtr(f)

    def second(self, mean: Array, variance: Array) -> Float[Array, " rows"]:
        """In closed form: the normal distribution function of `mean / sqrt(1 + variance)`."""
        return ndtr(mean[:, 0] / jnp.sqrt(1 + variance[:, 0]))


@final
class SoftmaxLikelihood(ClassLikelihood):
    """One latent function for each class; probabilities are their softmax."""

    count: int = eqx.field(static=True)

    def __init__(self, classes: int) -> None:
        self.count = whole("SoftmaxLikelihood", "classes", classes, least=2)

    @property
    def classes(self) -> int:
        """How many there are."""
        return self.count

    @property
    def latents(self) -> int:
        """As many as classes."""
        return self.count

    def log_prob(self, f: Latent, y: Array) -> Float[Array, " rows"]:
        return jnp.take_along_axis(jax.nn.log_softmax(f, axis=1), y[:, None], axis=1)[:, 0]

    def expected(self, mean: Latent, variance: Latent, y: Array) -> Float[Array, " rows"]:
        """The mean of the class's latent value less that of the logarithm of the sum."""
        own = jnp.take_along_axis(mean, y[:, None], axis=1)[:, 0]
        return own - expected_log_sum(mean, _root(variance))

    def probabilities(self, mean: Latent, variance: Latent) -> Float[Array, "rows classes"]:
        return expected_softmax(mean, _root(variance))


__all__ = [
    "ClassLikelihood",
    "FunctionLikelihood",
    "GaussianLikelihood",
    "LogisticLikelihood",
    "PoissonLikelihood",
    "Predicted",
    "ProbitLikelihood",
    "SoftmaxLikelihood",
    "StudentTLikelihood",
    "gaussian_mean",
]
