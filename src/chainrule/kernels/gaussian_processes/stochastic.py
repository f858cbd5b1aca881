"""Gaussian processes by few inducing values and minibatches: any number of examples, any likelihood.

The process is summarised by its values u at M inducing inputs Z, whose posterior is a Gaussian q(u) that is learnt.
A batch of rows gives an unbiased estimate of the evidence lower bound `sum_i E log p(y_i | f_i) - KL(q(u) | p(u))`; a
step holds M x M and M x batch numbers, however many examples there are. u is whitened (`u = L v`, `L L' = K_ZZ`), so
that q(v) need not follow when the kernel changes. A natural-gradient step moves q(v) along the geometry of Gaussians:
for Gaussian noise and all rows one step of rate 1 is the exact optimum.

References: Hensman, Fusi and Lawrence, Gaussian processes for big data, 2013; Hensman, Matthews and Ghahramani,
Scalable variational Gaussian process classification, 2015; Salimbeni, Eleftheriadis and Hensman, Natural gradients in
practice, 2018; Khan and Lin, Conjugate-computation variational inference, 2017.
"""

from typing import Any, NamedTuple, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Scalar
from chainrule.kernels.data_checks import checked_points
from chainrule.kernels.gaussian_processes.likelihoods import FunctionLikelihood, Predicted
from chainrule.kernels.kernel import TILE, Kernel, Points, points
from chainrule.kernels.positive import factored
from chainrule.kernels.precision import in_double
from chainrule.probability.distributions.parameters import floating

INDUCING = 512
"""Inducing inputs unless told otherwise."""


class Marginals(NamedTuple):
    """Of the latent functions at some points, under q."""

    mean: Float[Array, "rows latents"]
    variance: Float[Array, "rows latents"]


@final
class StochasticGaussianProcess(eqx.Module):
    """A Gaussian process by a learnt Gaussian over its whitened values at inducing inputs.

    >>> from chainrule.kernels import RBF
    >>> from chainrule.kernels.gaussian_processes.likelihoods import GaussianLikelihood
    >>> x = jnp.linspace(0, 6, 50)
    >>> process = StochasticGaussianProcess(RBF(1.0), GaussianLikelihood(0.01), x[::5])
    >>> process = process.natural_step(x[:, None], jnp.sin(x), len(x), 1.0)
    >>> round(float(process.predict([1.5]).mean[0]), 2)
    1.0
    """

    kernel: Kernel
    likelihood: FunctionLikelihood
    inducing: Float[Array, "inducing features"]
    mean: Float[Array, "latents inducing"]
    """Of the whitened values, for each latent function."""
    factor: Float[Array, "latents inducing inducing"]
    """Lower factors of their covariances, logarithms on the diagonal."""

    def __init__(self, kernel: Kernel, likelihood: FunctionLikelihood, inducing: Any) -> None:
        self.kernel, self.likelihood = kernel, likelihood
        self.inducing = points("StochasticGaussianProcess", "inducing", floating(inducing))
        count, latents = len(self.inducing), likelihood.latents
        self.mean = jnp.zeros((latents, count), self.inducing.dtype)
        self.factor = jnp.zeros((latents, count, count), self.inducing.dtype)

    @property
    def lower(self) -> Float[Array, "latents inducing inducing"]:
        """The lower factors themselves."""
        return jax.vmap(lambda f: jnp.tril(f, -1) + jnp.diag(jnp.exp(jnp.diagonal(f))))(self.factor)

    def features(self, x: Points) -> Float[Array, "inducing rows"]:
        """`L^-1 k(Z, x)`: what each point has of every whitened value."""
        prior = self.kernel.tile(self.inducing, self.inducing)
        # Inducing values are those of the process plus noise at the edge of the precision: still a lower bound, and
        # never a singular matrix when two inducing inputs meet.
        edge = jnp.sqrt(jnp.finfo(prior.dtype).eps) * jnp.diagonal(prior).mean()
        found = factored(
            prior + edge * jnp.eye(len(prior), dtype=prior.dtype), "kernel of the inducing inputs"
        )
        return found.whiten(self.kernel.tile(self.inducing, x))

    def marginals(self, x: Points) -> Marginals:
        """Mean and variance of every latent function at every row."""
        return self._marginals(x, self.features(x))

    def _marginals(self, x: Points, seen: Array) -> Marginals:
        own = self.kernel.diagonal(x)
        left = own - jnp.square(seen).sum(axis=0)
        learnt = jax.vmap(lambda lower: jnp.square(lower.T @ seen).sum(axis=0))(self.lower)
        least = jnp.finfo(own.dtype).eps * own
        return Marginals((self.mean @ seen).T, jnp.maximum(left[None] + learnt, least[None]).T)

    def divergence(self) -> Scalar:
        """`KL(q(u) | p(u))`, in nats."""
        logs = jnp.diagonal(self.factor, axis1=1, axis2=2)
        squares = jnp.square(self.lower).sum() + jnp.square(self.mean).sum()
        return 0.5 * (squares - self.mean.size) - logs.sum()

    def bound(self, x: Points, y: Array, total: int | Array) -> Scalar:
        """The evidence lower bound of `total` examples, estimated from these rows; from all of them it is exact."""
        return self.bound_of(self.features(x), x, y, total)

    def bound_of(self, seen: Array, x: Points, y: Array, total: int | Array) -> Scalar:
        """The bound, where the features of the rows are known."""
        expected = self.likelihood.expected(*self._marginals(x, seen), y)
        return jnp.asarray(total, expected.dtype) * expected.mean() - self.divergence()

    def natural_step(
        self, x: Points, y: Array, total: int | Array, rate: float | Array, seen: Array | None = None
    ) -> Self:
        """The process after a natural-gradient step of q, its kernel, likelihood and inducing inputs as they are.

        Where the likelihood is not log-concave (Student's t) its negative curvatures count as zero, so that
        covariances stay positive. `seen` are the features of the rows, if they are known.
        """
        seen = self.features(x) if seen is None else seen
        mean, variance = self._marginals(x, seen)
        slopes, curvatures = jax.grad(lambda m, v: self.likelihood.expected(m, v, y).sum(), argnums=(0, 1))(
            mean, variance
        )
        scale = jnp.asarray(total, mean.dtype) / len(mean)
        weights = jnp.maximum(-2 * curvatures, 0.0)

        def step(m: Array, lower: Array, slope: Array, weight: Array) -> tuple[Array, Array]:
            # The new precision, in coordinates where the present covariance is the identity: near the optimum that
            # is the identity, too, so nothing is lost in single precision.
            across = lower.T @ seen
            prior = lower.T @ lower
            target = prior + scale * (across * weight[None]) @ across.T
            ahead = (1 - rate) * jnp.eye(len(m), dtype=m.dtype) + rate * target
            new = lower @ _inverse_root(ahead)
            return m + rate * new @ (new.T @ (scale * seen @ slope - m)), new

        means, lowers = jax.vmap(step)(self.mean, self.lower, slopes.T, weights.T)
        factors = jax.vmap(lambda f: jnp.tril(f, -1) + jnp.diag(jnp.log(jnp.diagonal(f))))(lowers)
        return eqx.tree_at(lambda p: (p.mean, p.factor), self, (means, factors))

    def latent(self, x: Any) -> Marginals:
        """Mean and variance of the latent functions at new points, in double precision and by tiles."""
        return Marginals(*_latent(self, checked_points("latent", "x", x, self.inducing.shape[1])))

    def predict(self, x: Any) -> Predicted:
        """Mean and variance of observations at new points; of classes, the probability of each."""
        return Predicted(*_predicted(self, checked_points("predict", "x", x, self.inducing.shape[1])))


def _inverse_root(matrix: Float[Array, "size size"]) -> Float[Array, "size size"]:
    """The lower triangular root R of the inverse, `R R' = matrix^-1`: Cholesky from the last row to the first."""
    upper = factored(matrix[::-1, ::-1], "precision").lower[::-1, ::-1]
    eye = jnp.eye(len(matrix), dtype=matrix.dtype)
    return jax.scipy.linalg.solve_triangular(upper, eye, lower=False).T


def _by_blocks(process: StochasticGaussianProcess, x: Points, of_rows: Any) -> Any:
    block = max(1, TILE // len(process.inducing))
    parts = [of_rows(process, x[i : i + block]) for i in range(0, max(len(x), 1), block)]
    return tuple(jnp.concatenate(column) for column in zip(*parts, strict=True))


@in_double
def _latent(process: StochasticGaussianProcess, x: Points) -> tuple[Array, ...]:
    found: tuple[Array, ...] = _by_blocks(process, x, _hidden)
    return found


@eqx.filter_jit
def _hidden(process: StochasticGaussianProcess, x: Points) -> Marginals:
    return process.marginals(x)


@in_double
def _predicted(process: StochasticGaussianProcess, x: Points) -> tuple[Array, ...]:
    found: tuple[Array, ...] = _by_blocks(process, x, _observed)
    return found


@eqx.filter_jit
def _observed(process: StochasticGaussianProcess, x: Points) -> Predicted:
    return process.likelihood.predictive(*process.marginals(x))


__all__ = ["INDUCING", "Marginals", "StochasticGaussianProcess"]
