"""Dependence of two variables: the Hilbert-Schmidt independence criterion (HSIC).

It is the squared distance between the mean feature of pairs and that of independent pairs, so that for kernels like
RBF it is zero for independent variables alone. Two estimates: biased, never negative, and unbiased.

References: Gretton, Bousquet, Smola and Schölkopf, Measuring statistical dependence with Hilbert-Schmidt norms, 2005;
Song et al., Feature selection via dependence maximization, JMLR 13, 2012.
"""

from typing import Any, Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Float, Int, Scalar
from chainrule.kernels.functions import RBF
from chainrule.kernels.kernel import Kernel, points
from chainrule.kernels.mean_embedding import median_kernel
from chainrule.kernels.trick import centred

Dependence = Literal["biased", "unbiased"]


def hsic(
    x: Any,
    y: Any,
    kernel_x: Kernel | None = None,
    kernel_y: Kernel | None = None,
    estimate: str = "biased",
) -> Scalar:
    """How much two variables depend on each other; rows belong together. It can be differentiated and compiled.

    Without kernels they are RBF of the median distance of each variable.

    >>> x = jnp.linspace(-1, 1, 50)
    >>> bool(hsic(x, x**2, estimate="unbiased") > 0.01)
    True
    """
    first, second = points("hsic", "x", x), points("hsic", "y", y)
    if len(first) != len(second):
        raise ArgumentError(f"hsic: x has {len(first)} rows and y has {len(second)}; rows belong together")
    kernels = (kernel_x or default_kernel(first), kernel_y or default_kernel(second))
    return dependence(
        kernels[0].gram(first), kernels[1].gram(second), estimate, jnp.arange(len(first))[None]
    )[0]


def default_kernel(x: Float[Array, "rows features"]) -> RBF:
    """RBF of the median distance."""
    return median_kernel(x[::2], x[1::2]) if len(x) > 1 else RBF(1.0)


def dependence(
    first: Float[Array, "rows rows"],
    second: Float[Array, "rows rows"],
    estimate: str,
    orders: Int[Array, "orders rows"],
) -> Float[Array, " orders"]:
    """HSIC of two Gram matrices for several orders of the second one's rows."""
    check_choice("hsic", "estimate", estimate, get_args(Dependence))
    n = len(first)
    if n < 4 and estimate == "unbiased":
        raise ArgumentError(
            f"hsic: the unbiased estimate needs 4 rows, not {n}", remedy='use estimate="biased"'
        )
    return _dependence(first, second, estimate == "unbiased", orders)


@eqx.filter_jit
def _dependence(first: Array, second: Array, unbiased: bool, orders: Array) -> Array:
    n = len(first)
    if not unbiased:
        middle = centred(first)
        return jax.lax.map(lambda p: (middle * second[p][:, p]).mean(), orders)
    apart = 1 - jnp.eye(n, dtype=first.dtype)
    a, b = first * apart, second * apart
    rows_a, rows_b = a.sum(axis=1), b.sum(axis=1)
    sums = rows_a.sum() * rows_b.sum() / ((n - 1) * (n - 2))

    def one(p: Array) -> Array:
        together = (a * b[p][:, p]).sum()
        return (together + sums - 2 / (n - 2) * (rows_a @ rows_b[p])) / (n * (n - 3))

    return jax.lax.map(one, orders)


__all__ = ["Dependence", "default_kernel", "dependence", "hsic"]
