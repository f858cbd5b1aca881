"""Classification as regression: classes become noisy logarithms of concentrations, and no iteration is needed.

A label seen once is one count on top of a small concentration; the Gamma variable behind it is matched by a log-normal
one, whose logarithm is the target of an ordinary Gaussian process with a noise of its own for every point. The softmax
of the latent functions then follows a Dirichlet distribution, nearly. Calibration is that of the iterative ways as a
rule, at the price of one factorisation for each class.

Reference: Milios et al., Dirichlet-based Gaussian processes for large-scale calibrated classification, 2018.
"""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.types import Array, Float, Scalar
from chainrule.kernels.data_checks import checked_points
from chainrule.kernels.gaussian_processes.classification import checked_examples
from chainrule.kernels.gaussian_processes.likelihoods import SoftmaxLikelihood
from chainrule.kernels.gaussian_processes.likelihoods_race import expected_softmax
from chainrule.kernels.gaussian_processes.stochastic import Marginals
from chainrule.kernels.kernel import Kernel, a_kernel
from chainrule.kernels.positive import Factored, factored
from chainrule.kernels.precision import in_double
from chainrule.probability.distributions.parameters import floating, positive


@final
class DirichletClassifier(eqx.Module):
    """Classes by regression; a smaller `concentration` trusts every label more.

    >>> from chainrule.kernels import RBF
    >>> found = DirichletClassifier(RBF(1.0)).fit([-2.0, -1.0, 1.0, 2.0], [0, 0, 1, 1])
    >>> found.predict([-1.5, 0.0]).round(2).tolist()
    [[0.95, 0.05], [0.5, 0.5]]
    """

    kernel: Kernel
    concentration: Scalar

    def __init__(self, kernel: Kernel, concentration: Any = 0.01) -> None:
        self.kernel = a_kernel("DirichletClassifier", kernel)
        self.concentration = positive("DirichletClassifier", "concentration", floating(concentration))

    def fit(self, x: Any, y: Any) -> "DirichletPosterior":
        """The posterior given examples of all classes, numbered from zero."""
        given = np.asarray(y)
        most = int(given.max(initial=1)) if np.issubdtype(given.dtype, np.integer) else 1
        likelihood = SoftmaxLikelihood(max(2, most + 1))
        rows, numbers = checked_examples("DirichletClassifier.fit", likelihood, x, y)
        counts = np.asarray(self.concentration, np.float64) + np.eye(likelihood.classes)[numbers]
        noise = np.log1p(1 / counts)
        targets = np.log(counts) - noise / 2
        # A mean of its own for each class: zero would say one count of every class where nothing was seen.
        middle = targets.mean(axis=0)
        weights, lowers = _conditioned(self.kernel, rows, (targets - middle[None]).T, noise.T)
        return DirichletPosterior(self.kernel, rows, middle, weights, lowers)


@final
class DirichletPosterior(eqx.Module):
    """One Gaussian process for each class."""

    kernel: Kernel
    x: Float[np.ndarray, "rows features"]
    middle: Float[np.ndarray, " classes"]
    weights: Float[np.ndarray, "classes rows"]
    lowers: Float[np.ndarray, "classes rows rows"]

    def latent(self, x: Any) -> Marginals:
        """Mean and variance of the logarithms of the concentrations at new points."""
        new = checked_points("latent", "x", x, self.x.shape[1])
        return Marginals(*_latent(self.kernel, self.x, self.middle, self.weights, self.lowers, new))

    def predict(self, x: Any) -> Float[np.ndarray, "rows classes"]:
        """The probability of every class, averaged over the latent functions."""
        return np.asarray(in_double(_shares)(*self.latent(x)))


@in_double
@eqx.filter_jit
def _conditioned(kernel: Kernel, x: Any, targets: Any, noise: Any) -> tuple[Any, Any]:
    gram = kernel.tile(x, x)

    def one(given: tuple[Array, Array]) -> tuple[Array, Array]:
        values, own = given
        found = factored(gram + jnp.diag(own), "K + noise")
        return found.solve(values), found.lower

    return jax.lax.map(one, (targets, noise))


@in_double
@eqx.filter_jit
def _latent(
    kernel: Kernel, seen: Array, middle: Array, weights: Array, lowers: Array, x: Array
) -> tuple[Array, Array]:
    across = kernel.tile(seen, x)
    left = jax.lax.map(
        lambda lower: jnp.square(Factored(lower, middle[0]).whiten(across)).sum(axis=0), lowers
    )
    variance = jnp.maximum(kernel.diagonal(x)[None] - left, 0.0)
    return (weights @ across + middle[:, None]).T, variance.T


@jax.jit
def _shares(mean: Array, variance: Array) -> Array:
    return expected_softmax(mean, jnp.sqrt(variance))


__all__ = ["DirichletClassifier", "DirichletPosterior"]
