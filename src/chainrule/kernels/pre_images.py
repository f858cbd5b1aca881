"""Pre-images: points of the data's own space whose features come close to given coordinates.

Not every point of feature space is the image of one, so the nearest is searched for by descent, which needs nothing but
a differentiable kernel, or learnt as a function of the coordinates by ridge regression from the training points.

References: Mika et al., Kernel PCA and de-noising in feature spaces, 1999; Bakır, Weston and Schölkopf, Learning to
find pre-images, 2004.
"""

import abc
from dataclasses import dataclass
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from chainrule.core.types import Array
from chainrule.kernels.functions import RBF
from chainrule.kernels.kernel import TILE
from chainrule.kernels.precision import in_double
from chainrule.kernels.regression import FittedRidge, KernelRidge, search_ridge
from chainrule.probability.divergences import median_distance

_NEAREST = 1000
"""Coordinates whose distances are compared for the median."""
_RIDGES = np.logspace(-5, 1, 13)
"""Ridges that are tried. Smaller ones would ask for more digits than single precision has."""


class Projection(eqx.Module):
    """From points to coordinates along axes in feature space."""

    @abc.abstractmethod
    def __call__(self, x: Float[Array, "new features"]) -> Float[Array, "new components"]:
        """Coordinates along the axes."""

    @abc.abstractmethod
    def gap(self, x: Float[Array, "new features"], z: Float[Array, "new components"]) -> Float[Array, " new"]:
        """How far the features of x are from the point with coordinates z: squared, up to a constant."""


def in_parts(projection: Projection, x: Float[Array, "new features"]) -> Float[Array, "new components"]:
    """Coordinates of many points, some at a time."""
    return _in_parts(projection, x)


@eqx.filter_jit
def _in_parts(projection: Projection, x: Array) -> Array:
    width = max((leaf.shape[0] for leaf in jax.tree.leaves(projection) if leaf.ndim), default=1)
    return jax.lax.map(lambda row: projection(row[None])[0], x, batch_size=max(1, TILE // max(width, 1)))


@in_double
def descended(projection: Projection, z: Any, points: Any, codes: Any, steps: int) -> Any:
    """Descent for each row of z, from the training point with the nearest coordinates."""
    return descend(projection, jnp.asarray(z), jnp.asarray(points), jnp.asarray(codes), steps)


@eqx.filter_jit
def descend(
    projection: Projection,
    z: Float[Array, "new components"],
    points: Float[Array, "rows features"],
    codes: Float[Array, "rows components"],
    steps: int,
) -> Float[Array, "new features"]:
    """The same inside compiled code. A step that would go up is not taken, and the next one is shorter."""
    apart = jnp.square(z).sum(axis=1)[:, None] + jnp.square(codes).sum(axis=1)[None, :] - 2 * z @ codes.T
    start = points[apart.argmin(axis=1)]
    total = jax.value_and_grad(lambda x: projection.gap(x, z).sum())

    def step(_: Array | int, state: tuple[Array, ...]) -> tuple[Array, ...]:
        x, value, slope, length = state
        tried = x - length[:, None] * slope
        found = projection.gap(tried, z)
        better = found < value
        x, value = jnp.where(better[:, None], tried, x), jnp.where(better, found, value)
        return x, value, total(x)[1], length * jnp.where(better, 1.5, 0.3)

    slope = total(start)[1]
    spread = jnp.sqrt(points.var(axis=0).sum())
    length = spread / jnp.maximum(jnp.sqrt(jnp.square(slope).sum(axis=1)), 1e-12)
    state = (start, projection.gap(start, z), slope, length)
    found: Array = jax.lax.fori_loop(0, steps, step, state)[0]
    return found


@final
@dataclass(frozen=True)
class LearntMap:
    """Points as a function of coordinates."""

    fitted: FittedRidge
    mean: Float[np.ndarray, " features"]
    """The middle of the points, around which they are regressed."""
    scale: float
    """Of the RBF kernel of coordinates."""

    def __call__(self, z: Any) -> Float[np.ndarray, "new features"]:
        """The points of these coordinates."""
        found: np.ndarray = self.fitted.predict(z) + self.mean[None, :]
        return found


def learnt(
    points: Float[np.ndarray, "rows features"],
    codes: Float[np.ndarray, "rows components"],
    ridge: float | None = None,
) -> LearntMap:
    """Points as a function of coordinates, by kernel ridge regression around their mean."""
    scale, mean = code_scale(codes), points.mean(axis=0)
    if ridge is None:
        ridge = search_ridge(RBF(scale), codes, points - mean[None, :], ridges=_RIDGES).best
    fitted = KernelRidge(RBF(scale), ridge).fit(codes, points - mean[None, :])
    assert isinstance(fitted, FittedRidge)
    return LearntMap(fitted, mean, scale)


def code_scale(codes: Float[np.ndarray, "rows components"]) -> float:
    """The median distance of coordinates, of a thousand of them at most."""
    some = codes[np.linspace(0, len(codes) - 1, min(len(codes), _NEAREST)).astype(int)]
    with jax.enable_x64(True):
        return float(median_distance(some[::2], some[1::2]))


__all__ = ["LearntMap", "Projection", "code_scale", "descend", "descended", "in_parts", "learnt"]
