"""Dual activations: mean products of a function, and of its derivative, at two Gaussian numbers.

For `(u, v)` of mean zero with variances a, b and covariance k, a dual activation gives `E[s(u) s(v)]` and
`E[s'(u) s'(v)]`. The second is the derivative of the first in k (Price's theorem), which the tests use as a second
route. All that a layer of infinite width does to its inputs is in these two numbers.

References: Cho and Saul, Kernel methods for deep learning, 2009; Daniely, Frostig and Singer, Toward deeper
understanding of neural networks, 2016.
"""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.types import Array


class DualActivation(eqx.Module):
    """A function of one unit whose mean products are known."""

    @abc.abstractmethod
    def value(self, x: Array) -> Array:
        """The function itself, entry by entry."""

    @abc.abstractmethod
    def dual(self, a: Array, k: Array, b: Array) -> tuple[Array, Array]:
        """`E[s(u) s(v)]` and `E[s'(u) s'(v)]` by the variances a and b and the covariance k, which broadcast."""

    def second_moment(self, variance: Array) -> Array:
        """`E[s(u)²]`."""
        return self.dual(variance, variance, variance)[0]


def correlation(a: Array, k: Array, b: Array) -> tuple[Array, Array]:
    """`k / sqrt(a b)` inside of [-1, 1], and `sqrt(a b)`; where a variance is zero, both are zero.

    An angle next to zero has half the digits of its cosine, so correlations that are one up to rounding are one.
    """
    squares = a * b
    known = squares > 0
    scale = jnp.sqrt(jnp.where(known, squares, 1.0))
    found = jnp.where(known, k / scale, 0.0)
    rounding = 16 * jnp.finfo(found.dtype).eps
    edge = jnp.where(1 - jnp.abs(found) < rounding, jnp.sign(found) - found, 0.0)
    return found + jax.lax.stop_gradient(edge), jnp.where(known, scale, 0.0)


__all__ = ["DualActivation", "correlation"]
