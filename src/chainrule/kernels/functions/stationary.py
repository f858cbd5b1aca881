"""Kernels of the distance alone: RBF, Matérn, rational quadratic, with one scale or one for every coordinate (ARD).

Reference: Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, chapter 4.
"""

import abc
import math
from typing import Any, final

import equinox as eqx
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Scalar
from chainrule.kernels.distances import pairwise_squares, root
from chainrule.kernels.kernel import Kernel, Points
from chainrule.probability.distributions.parameters import exactly_one, floating, positive

Scales = Float[Array, " #scales"] | Scalar
"""One number, or one for every coordinate."""


def log_scales(where: str, name: str, values: Any) -> Scales:
    """Logarithms of positive scales: of one, or of one for every coordinate."""
    scales = positive(where, name, floating(values))
    if scales.ndim > 1:
        raise ArgumentError(f"{where}({name}): one scale or one for each column, not shape {scales.shape}")
    return jnp.log(scales)


class Stationary(Kernel):
    """A kernel of `|x - y| / scale`, with the value one at distance zero."""

    log_scale: eqx.AbstractVar[Scales]

    @property
    def scale(self) -> Scales:
        """The length over which values stay similar; of every coordinate if it was given so."""
        return jnp.exp(self.log_scale)

    @abc.abstractmethod
    def of_squares(self, squares: Array) -> Array:
        """The kernel by squared distances in units of the scale."""

    def tile(self, x: Points, y: Float[Array, "columns features"]) -> Float[Array, "rows columns"]:
        scale = self.scale
        if scale.ndim and scale.shape[0] not in (1, x.shape[1]):
            raise ArgumentError(
                f"{type(self).__name__}: {scale.shape[0]} scales for points of {x.shape[1]} features",
                remedy="give one scale, or one for every feature",
            )
        scale = jnp.broadcast_to(scale, (1, x.shape[1]))
        return self.of_squares(pairwise_squares(x / scale, y / scale))

    def diagonal(self, x: Points) -> Float[Array, " rows"]:
        return jnp.ones(len(x), jnp.result_type(x, self.log_scale))


@final
class RBF(Stationary):
    """`exp(-|x - y|² / (2 scale²))`, also called Gaussian or squared exponential; `gamma` is 1 / (2 scale²).

    >>> round(float(RBF(gamma=0.5)([0.3, -0.7], [-0.2, 0.4])), 6)
    0.481909
    """

    log_scale: Scales

    def __init__(self, scale: Any = None, *, gamma: Any = None) -> None:
        if scale is None and gamma is None:
            scale = 1.0
        if exactly_one("RBF", scale=scale, gamma=gamma) == "gamma":
            self.log_scale = -0.5 * (math.log(2.0) + log_scales("RBF", "gamma", gamma))
        else:
            self.log_scale = log_scales("RBF", "scale", scale)

    @property
    def gamma(self) -> Scales:
        """The factor of the squared distance."""
        return 0.5 * jnp.exp(-2 * self.log_scale)

    def of_squares(self, squares: Array) -> Array:
        return jnp.exp(-0.5 * squares)


@final
class Matern(Stationary):
    """Matérn with nu = 1/2, 3/2 or 5/2: paths with 0, 1 or 2 derivatives.

    >>> float(Matern(nu=0.5, scale=2.0)(0.0, 2.0)) == float(OrnsteinUhlenbeck(2.0)(0.0, 2.0))
    True
    """

    log_scale: Scales
    nu: float = eqx.field(static=True)

    def __init__(self, nu: float = 2.5, scale: Any = 1.0) -> None:
        if nu not in (0.5, 1.5, 2.5):
            raise ArgumentError(
                f"Matern(nu={nu}): nu must be 0.5, 1.5 or 2.5", remedy="for smooth paths: RBF"
            )
        self.nu = nu
        self.log_scale = log_scales("Matern", "scale", scale)

    def of_squares(self, squares: Array) -> Array:
        far = math.sqrt(2 * self.nu) * root(squares)
        if self.nu == 0.5:
            return jnp.exp(-far)
        if self.nu == 1.5:
            return (1 + far) * jnp.exp(-far)
        # The square is written without the root, so that the second derivative at distance zero is right.
        return (1 + far + (2 * self.nu / 3) * squares) * jnp.exp(-far)


@final
class OrnsteinUhlenbeck(Stationary):
    """`exp(-|x - y| / scale)`: continuous paths without derivatives (Matérn 1/2)."""

    log_scale: Scales

    def __init__(self, scale: Any = 1.0) -> None:
        self.log_scale = log_scales("OrnsteinUhlenbeck", "scale", scale)

    def of_squares(self, squares: Array) -> Array:
        return jnp.exp(-root(squares))


@final
class RationalQuadratic(Stationary):
    """`(1 + |x - y|² / (2 alpha scale²))^-alpha`: a mixture of RBF kernels of many scales."""

    log_scale: Scales
    log_alpha: Scalar

    def __init__(self, scale: Any = 1.0, alpha: Any = 1.0) -> None:
        self.log_scale = log_scales("RationalQuadratic", "scale", scale)
        self.log_alpha = jnp.log(positive("RationalQuadratic", "alpha", floating(alpha)))

    @property
    def alpha(self) -> Scalar:
        """How alike the scales of the mixture are; RBF as it grows."""
        return jnp.exp(self.log_alpha)

    def of_squares(self, squares: Array) -> Array:
        return jnp.exp(-self.alpha * jnp.log1p(squares / (2 * self.alpha)))


__all__ = ["RBF", "Matern", "OrnsteinUhlenbeck", "RationalQuadratic", "Stationary", "log_scales"]
