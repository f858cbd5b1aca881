"""Dependence of two variables: the Hilbert-Schmidt independence criterion (HSIC).

It is the squared distance between the mean feature of pairs and that of independent pairs, so that for kernels like
RBF it is zero for independent variables alone. Three estimates: biased, never negative; unbiased; and the biased one of
random features in place of the kernels, in time and memory that grow with the number of rows and not with its square.

References: Gretton, Bousquet, Smola and Schölkopf, Measuring statistical dependence with Hilbert-Schmidt norms, 2005;
Song et al., Feature selection via dependence maximization, JMLR 13, 2012; Zhang, Filippi, Gretton and Sejdinovic,
Large-scale kernel methods for independence testing, 2018 (features).
"""

from typing import Any, Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core import random
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Float, Int, Key, Scalar
from chainrule.kernels.approximation import feature_map
from chainrule.kernels.functions import RBF
from chainrule.kernels.kernel import Kernel, points
from chainrule.kernels.mean_embedding import median_kernel
from chainrule.kernels.trick import centred

Dependence = Literal["biased", "unbiased", "features"]
COUNT = 256
"""Random features of each variable unless told otherwise."""


def hsic(
    x: Any,
    y: Any,
    kernel_x: Kernel | None = None,
    kernel_y: Kernel | None = None,
    estimate: str = "biased",
    *,
    count: int = COUNT,
    key: Key | None = None,
) -> Scalar:
    """How much two variables depend on each other; rows belong together. It can be differentiated and compiled.

    Without kernels they are RBF of the median distance of each variable. `features` takes `count` random features in
    place of each kernel, which `key` draws.

    >>> x = jnp.linspace(-1, 1, 50)
    >>> bool(hsic(x, x**2, estimate="unbiased") > 0.01)
    True
    """
    check_choice("hsic", "estimate", estimate, get_args(Dependence))
    first, second = paired("hsic", x, y)
    kernels = (kernel_x or default_kernel(first), kernel_y or default_kernel(second))
    in_order = jnp.arange(len(first))[None]
    if estimate == "features":
        return feature_dependence(*drawn_features(kernels, first, second, count, key), in_order)[0]
    return dependence(kernels[0].gram(first), kernels[1].gram(second), estimate, in_order)[0]


def paired(where: str, x: Any, y: Any) -> tuple[Array, Array]:
    """Two variables as points, a row of one for each row of the other."""
    first, second = points(where, "x", x), points(where, "y", y)
    if len(first) != len(second):
        raise ArgumentError(f"{where}: x has {len(first)} rows and y has {len(second)}; rows belong together")
    return first, second


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
    n = len(first)
    if n < 4 and estimate == "unbiased":
        raise ArgumentError(
            f"hsic: the unbiased estimate needs 4 rows, not {n}", remedy='use estimate="biased"'
        )
    return _dependence(first, second, estimate == "unbiased", orders)


def drawn_features(
    kernels: tuple[Kernel, Kernel], x: Array, y: Array, count: int, key: Key | None
) -> tuple[Float[Array, "rows count"], Float[Array, "rows others"]]:
    """Random features of both variables, less their means."""
    first, second = jax.random.split(random.key(0, "features") if key is None else key)
    found = (
        jnp.asarray(feature_map(kernel, rows, "rff", count, drawn)(rows))
        for kernel, rows, drawn in zip(kernels, (x, y), (first, second), strict=True)
    )
    one, other = (psi - psi.mean(axis=0, keepdims=True) for psi in found)
    return one, other


@eqx.filter_jit
def feature_dependence(
    first: Float[Array, "rows features"],
    second: Float[Array, "rows others"],
    orders: Int[Array, "orders rows"],
) -> Float[Array, " orders"]:
    """HSIC by centred features, the squared norm of their covariance, for several orders of the second one's rows."""
    return jax.lax.map(lambda p: jnp.square(first.T @ second[p] / len(first)).sum(), orders)


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


__all__ = [
    "COUNT",
    "Dependence",
    "default_kernel",
    "dependence",
    "drawn_features",
    "feature_dependence",
    "hsic",
    "paired",
]
