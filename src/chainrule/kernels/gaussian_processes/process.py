"""Gaussian processes: a mean and a kernel say how functions are distributed; data leave the ones that fit.

Values of the function at any points are jointly Gaussian. What is observed is the function under independent Gaussian
noise, whose *variance* is given: one number, or one for every training point.

Reference: Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, chapter 2.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.kernels import host
from chainrule.kernels.data_checks import (
    checked_points,
    checked_targets,
    refuse_contradictions,
    warn_of_columns,
)
from chainrule.kernels.functions import RBF, Brownian, OrnsteinUhlenbeck
from chainrule.kernels.kernel import Kernel, a_kernel
from chainrule.kernels.precision import traced, widened
from chainrule.probability.distributions.parameters import floating, require

if TYPE_CHECKING:
    from chainrule.kernels.gaussian_processes.posterior import GaussianProcessPosterior

MeanFunction = Callable[[Array], Array]
"""From points to a value for each, or to a row of values where there are several outputs."""


@final
class GaussianProcess(eqx.Module):
    """A distribution over functions, observed under noise of this variance.

    >>> process = GaussianProcess(RBF(1.0), noise=0.1)
    >>> posterior = process.fit([0.0, 1.0, 2.0], [0.0, 1.0, 0.0])
    >>> mean, variance = posterior.predict([0.5])
    >>> mean.round(6).tolist(), variance.round(6).tolist()
    ([0.574548], [0.182395])
    >>> round(posterior.log_marginal_likelihood, 6)
    -3.493578
    """

    kernel: Kernel
    noise: Float[Array, " #rows"] | Float[Array, ""]
    """The variance of the noise; of one number, or of every training point."""
    mean: MeanFunction | None = None
    """Of the function before anything is seen; zero unless given."""

    def __init__(self, kernel: Any, noise: Any = 0.0, mean: MeanFunction | float | None = None) -> None:
        self.kernel = a_kernel("GaussianProcess", kernel)
        self.noise = require(
            "GaussianProcess", "noise", floating(noise), lambda v: (v >= 0) & (v < np.inf), "be at least 0"
        )
        if self.noise.ndim > 1:
            raise ArgumentError(
                f"GaussianProcess(noise): one variance, or one for every point, not shape {self.noise.shape}"
            )
        self.mean = mean if mean is None or callable(mean) else ConstantMean(mean)

    def mean_of(self, x: Float[Array, "rows features"], outputs: int) -> Float[Array, "rows outputs"]:
        """The mean of every output before anything is seen."""
        if self.mean is None:
            return jnp.zeros((len(x), outputs), x.dtype)
        found = jnp.asarray(self.mean(x))
        found = found[:, None] if found.ndim == 1 else found
        if found.shape not in ((len(x), 1), (len(x), outputs)):
            raise ArgumentError(
                f"GaussianProcess(mean): {found.shape} for {len(x)} points; a value for each is needed"
            )
        return jnp.broadcast_to(found, (len(x), outputs))

    def fit(self, x: Any, y: Any, *, warn: bool = True) -> "GaussianProcessPosterior":
        """What is known of the function once `y` was observed at `x`; several outputs are columns of `y`.

        Unless told not to `warn`, columns that teach badly are named. All is computed in double precision; inside
        compiled code, in the precision of the arguments.
        """
        from chainrule.kernels.gaussian_processes.posterior import condition, condition_traced

        if traced(self, x, y):
            return condition_traced(self, x, y)
        points = checked_points("GaussianProcess.fit", "x", x)
        targets = checked_targets("GaussianProcess.fit", "y", y, len(points))
        host.check_size("GaussianProcess.fit", len(points))
        noise = np.asarray(self.noise)
        if noise.ndim and len(noise) not in (1, len(points)):
            raise ArgumentError(
                f"GaussianProcess(noise): {len(noise)} variances for {len(points)} points",
                remedy="give one, or one for every point",
            )
        if not noise.any():
            refuse_contradictions("GaussianProcess.fit", points, targets)
        if warn:
            warn_of_columns("GaussianProcess.fit", points, scales=most_scales(self.kernel))
        return condition(self, points, targets)

    def sample(self, key: Key, x: Any, n: int = 1) -> Float[np.ndarray, "n rows"]:
        """Functions drawn before anything is seen, by their values at these points.

        >>> brownian_motion().sample(jax.random.key(0), [0.0, 0.5, 1.0], 4).shape
        (4, 3)
        """
        points = checked_points("GaussianProcess.sample", "x", x)
        host.check_size("GaussianProcess.sample", len(points))
        count = whole("GaussianProcess.sample", "n", n)
        with jax.enable_x64(True):
            process = widened(self)
            lower = host.factor(lambda: host.lower_gram(process.kernel, points))
            noise = np.asarray(jax.random.normal(key, (len(points), count), jnp.float64))
            mean = np.asarray(process.mean_of(jnp.asarray(points), 1))
            return (mean + np.tril(lower.matrix) @ noise).T


@final
class ConstantMean(eqx.Module):
    """The same value everywhere."""

    value: Float[Array, ""]

    def __init__(self, value: float) -> None:
        self.value = floating(value)

    def __call__(self, x: Float[Array, "rows features"]) -> Float[Array, " rows"]:
        """The value for every point."""
        return jnp.full(len(x), self.value, x.dtype)


def most_scales(kernel: Kernel) -> int:
    """The most entries that a parameter of a kernel has: one, or as many as columns where each has its scale."""
    arrays = jax.tree.leaves(eqx.filter(kernel, eqx.is_inexact_array))
    return max((leaf.size for leaf in arrays if leaf.ndim == 1), default=1)


def brownian_motion() -> GaussianProcess:
    """Brownian motion from zero: variance grows as the time, increments are independent; paths have no derivative."""
    return GaussianProcess(Brownian())


def smooth_functions(scale: Any = 1.0) -> GaussianProcess:
    """Functions with all derivatives, of variance one, that change over this length."""
    return GaussianProcess(RBF(scale))


def ornstein_uhlenbeck(scale: Any = 1.0) -> GaussianProcess:
    """Brownian motion that is drawn back to zero: variance one, forgotten over this length."""
    return GaussianProcess(OrnsteinUhlenbeck(scale))


__all__ = [
    "ConstantMean",
    "GaussianProcess",
    "MeanFunction",
    "brownian_motion",
    "most_scales",
    "ornstein_uhlenbeck",
    "smooth_functions",
]
