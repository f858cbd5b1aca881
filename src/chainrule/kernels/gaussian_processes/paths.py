"""Functions drawn from a Gaussian process that can be evaluated anywhere, at a cost that does not grow with the past.

Random features draw a function before anything is seen; what the data say is added to it afterwards (Matheron's rule):
`f(x) + k(x, X) C^-1 (t - f(X) - noise)` is a draw given the data, where f is one without. Features stand for the kernel
approximately, the correction is exact: near the data draws are right, far away they have the features' error.

Reference: Wilson et al., Efficiently sampling functions from Gaussian process posteriors, 2020, arXiv:2002.09309.
"""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Key
from chainrule.kernels.approximation import fourier_features
from chainrule.kernels.data_checks import checked_points
from chainrule.kernels.features import KernelFeatures
from chainrule.kernels.gaussian_processes.posterior import GaussianProcessPosterior
from chainrule.kernels.gaussian_processes.process import GaussianProcess
from chainrule.kernels.host import Lower
from chainrule.kernels.precision import widened

FEATURES = 2048
"""Random features of a draw unless told otherwise."""
_ROWS = 2**22


@final
class Paths(eqx.Module):
    """Functions that were drawn together: called with points, they give a row of values for each function.

    >>> from chainrule.kernels import RBF
    >>> drawn = draw_paths(GaussianProcess(RBF(1.0)), jax.random.key(0), n=3, size=1, features=64)
    >>> drawn(np.linspace(0, 1, 100_000)).shape
    (3, 100000)
    """

    process: GaussianProcess
    features: KernelFeatures
    coefficients: Float[np.ndarray, "features n"]
    points: Float[np.ndarray, "rows size"] | None
    corrections: Float[np.ndarray, "rows n"] | None
    """Weights of the kernels with the points that were seen."""
    size: int = eqx.field(static=True)

    def __call__(self, x: Any) -> Float[np.ndarray, "n new"]:
        """The values of every function at these points."""
        new = checked_points("Paths", "x", x, self.size)
        block = max(1, _ROWS // max(len(self.coefficients), 1 if self.points is None else len(self.points)))
        with jax.enable_x64(True):
            wide = widened(self)
            parts = [
                np.asarray(_values(wide, jnp.asarray(new[i : i + block]))) for i in range(0, len(new), block)
            ]
        return np.concatenate(parts, axis=1)


@eqx.filter_jit
def _values(paths: Paths, x: Array) -> Array:
    found = paths.process.mean_of(x, 1) + paths.features(x) @ paths.coefficients
    if paths.points is not None and paths.corrections is not None:
        between = paths.process.kernel.tile(x, jnp.asarray(paths.points))
        found = found + between @ jnp.asarray(paths.corrections)
    return found.T


def draw_paths(
    source: GaussianProcess | GaussianProcessPosterior,
    key: Key,
    n: int = 1,
    *,
    size: int | None = None,
    features: int = FEATURES,
) -> Paths:
    """Functions drawn from a process (of points with `size` coordinates), or given the data of a posterior."""
    count, columns = whole("draw_paths", "n", n), whole("draw_paths", "features", features, least=2)
    posterior = source if isinstance(source, GaussianProcessPosterior) else None
    process = source.process if isinstance(source, GaussianProcessPosterior) else source
    if posterior is not None:
        size = posterior.x.shape[1]
        if posterior.y.ndim > 1 and posterior.y.shape[1] > 1:
            raise ArgumentError(
                "draw_paths: functions of one output are drawn", remedy="fit the outputs one by one"
            )
    if size is None:
        raise ArgumentError("draw_paths: how many coordinates points have is not known", remedy="give size=")
    for_features, for_weights, for_noise = jax.random.split(key, 3)
    with jax.enable_x64(True):
        wide = widened(process)
        found = fourier_features(wide.kernel, size, columns, for_features)
        weights = jax.random.normal(for_weights, (found.count, count), jnp.float64)
        points = corrections = None
        if posterior is not None:
            points = np.asarray(posterior.x)
            noise = jax.random.normal(for_noise, (len(points), count), jnp.float64)
            noise = jnp.sqrt(jnp.broadcast_to(wide.noise, (len(points),)))[:, None] * noise
            drawn = wide.mean_of(jnp.asarray(points), 1) + found(jnp.asarray(points)) @ weights + noise
            missed = np.asarray(posterior.y).reshape(-1, 1) - np.asarray(drawn)
            lower = posterior.factor
            corrections = lower.solve(missed) if isinstance(lower, Lower) else np.asarray(lower.solve(missed))
        kept = jax.tree.map(lambda a: np.asarray(a) if isinstance(a, jax.Array) else a, (process, found))
        return Paths(kept[0], kept[1], np.asarray(weights), points, corrections, size)


__all__ = ["FEATURES", "Paths", "draw_paths"]
