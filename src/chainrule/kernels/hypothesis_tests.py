"""Two questions about samples, answered with a p-value: same distribution? independent?

Labels, or the order of one sample, are shuffled: under the hypothesis that changes nothing, so the statistic of the
data is one among many. The p-value `(1 + number of shuffles as large) / (1 + shuffles)` is exact for any kernel and
sample size.

References: Gretton et al., A kernel two-sample test, 2012; Gretton et al., A kernel statistical test of independence,
2008.
"""

import math
from typing import Any, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy import stats

from chainrule.core import random
from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Key
from chainrule.kernels.independence import (
    COUNT,
    Dependence,
    default_kernel,
    dependence,
    drawn_features,
    feature_dependence,
    paired,
)
from chainrule.kernels.kernel import Kernel
from chainrule.kernels.mean_embedding import (
    Estimate,
    linear_terms,
    mean_features,
    median_kernel,
    samples,
)
from chainrule.kernels.precision import in_double
from chainrule.kernels.trick import centred
from chainrule.probability.divergences.kernel_mean import PairMeans

MOST = 20_000
"""Points whose Gram matrix is made for a test."""


class Tested(NamedTuple):
    """The answer of a test."""

    statistic: float
    p_value: float
    """How often chance alone gives as large a statistic."""
    null: Float[np.ndarray, " shuffles"]
    """Statistics of shuffled data; empty where the p-value comes from a formula."""


def two_sample_test(
    x: Any,
    y: Any,
    kernel: Kernel | None = None,
    *,
    estimate: str = "unbiased",
    permutations: int = 1000,
    count: int = 1024,
    key: Key | None = None,
) -> Tested:
    """Whether two samples come from one distribution, by their squared maximum mean discrepancy.

    `linear` needs no shuffles: its terms are independent, and the p-value is that of a normal mean.

    >>> same = np.random.default_rng(0).normal(size=(2, 50))
    >>> two_sample_test(same[0], same[1]).p_value > 0.05, two_sample_test(same[0], same[1] + 2).p_value < 0.01
    (True, True)
    """
    permutations = whole("two_sample_test", "permutations", permutations)
    check_choice("two_sample_test", "estimate", estimate, get_args(Estimate))
    first, second = (
        np.asarray(one) for one in in_double(lambda a, b: samples("two_sample_test", a, b))(x, y)
    )
    if min(len(first), len(second)) < 2:
        raise ArgumentError("two_sample_test: each sample needs two points or more")
    if estimate in ("biased", "unbiased") and len(first) + len(second) > MOST:
        raise _too_many("two_sample_test", len(first) + len(second), 'estimate="features" or "linear"')
    if estimate == "linear":
        mean, error = _linear(kernel, first, second)
        return Tested(float(mean), float(stats.norm.sf(mean / error)), np.zeros(0))
    shuffles, features = _keys(key)
    found = _shuffled(kernel, first, second, shuffles, features, estimate, permutations, count)
    return _ranked(found)


def independence_test(
    x: Any,
    y: Any,
    kernel_x: Kernel | None = None,
    kernel_y: Kernel | None = None,
    *,
    estimate: str = "unbiased",
    method: str = "permutation",
    permutations: int = 1000,
    count: int = COUNT,
    key: Key | None = None,
) -> Tested:
    """Whether two variables, given as rows that belong together, are independent, by their HSIC.

    `gamma` is the approximation of Gretton et al. for the biased estimate: quick, and good for some hundred rows.
    `estimate="features"` takes `count` random features in place of each kernel, for any number of rows.

    >>> x = np.random.default_rng(0).normal(size=100)
    >>> independence_test(x, x**2).p_value < 0.01
    True
    """
    permutations = whole("independence_test", "permutations", permutations)
    check_choice("independence_test", "method", method, ("permutation", "gamma"))
    check_choice("independence_test", "estimate", estimate, get_args(Dependence))
    if estimate == "features" and method == "gamma":
        raise ArgumentError(
            'independence_test(method="gamma", estimate="features"): the approximation is that of the kernels',
            remedy='use method="permutation"',
        )
    if len(x) > MOST and estimate != "features":
        raise _too_many("independence_test", len(x), 'method="permutation", estimate="features"')
    if method == "gamma":
        statistic, shape, scale = _gamma(x, y, kernel_x, kernel_y)
        # Of a variable that never changes the distribution is zero alone, which is no gamma distribution.
        known = np.isfinite([float(shape), float(scale)]).all()
        p = float(stats.gamma.sf(statistic, float(shape), scale=float(scale))) if known else 1.0
        return Tested(float(statistic), p, np.zeros(0))
    return _ranked(_reordered(x, y, kernel_x, kernel_y, _keys(key), estimate, permutations, count))


def _ranked(found: np.ndarray) -> Tested:
    """The first is that of the data."""
    statistic, null = float(found[0]), found[1:]
    # Shuffles that repeat the data give the same statistic up to rounding, and count.
    as_large = (null >= statistic - 1e-12 * max(abs(statistic), 1e-300)).sum()
    return Tested(statistic, float((1 + as_large) / (1 + len(null))), null)


def _keys(key: Key | None) -> tuple[Key, Key]:
    first, second = jax.random.split(random.key(0, "shuffles") if key is None else key)
    return first, second


def _too_many(where: str, rows: int, remedy: str) -> ArgumentError:
    size = 8 * rows**2 / 2**30
    return ArgumentError(
        f"{where}: the Gram matrix of {rows} points needs {size:.1f} GiB; up to {MOST} points are compared so",
        remedy=f"use {remedy}",
    )


@in_double
def _linear(kernel: Kernel | None, x: Array, y: Array) -> Any:
    x, y = jnp.asarray(x), jnp.asarray(y)
    terms = linear_terms(kernel or median_kernel(x, y), x, y)
    return terms.mean(), jnp.maximum(terms.std(ddof=1) / math.sqrt(len(terms)), 1e-300)


@in_double
def _shuffled(
    kernel: Kernel | None,
    x: Array,
    y: Array,
    key: Key,
    features: Key,
    estimate: str,
    permutations: int,
    count: int,
) -> Any:
    """Statistics of the data, then of shuffled labels: all by one product of labels and Gram matrix."""
    x, y = jnp.asarray(x), jnp.asarray(y)
    kernel = kernel or median_kernel(x, y)
    n, m = len(x), len(y)
    order = jax.random.uniform(key, (permutations, n + m)).argsort(axis=1)
    labels = jnp.concatenate([(jnp.arange(n + m) < n)[None], order < n]).astype(x.dtype)
    if estimate == "features":
        rows = jnp.concatenate(mean_features(kernel, x, y, count, features))
        first = labels @ rows
        return jnp.square(first / n - (rows.sum(axis=0)[None] - first) / m).sum(axis=1)
    pooled = jnp.concatenate([x, y])
    matrix, diagonal = kernel.gram(pooled), kernel.diagonal(pooled)
    sums = labels @ matrix
    first, whole_sum = (sums * labels).sum(axis=1), matrix.sum()
    between = sums.sum(axis=1) - first
    own = labels @ diagonal
    means = PairMeans(
        first / n**2,
        (whole_sum - first - 2 * between) / m**2,
        between / (n * m),
        own / n,
        (diagonal.sum() - own) / m,
    )
    return means.biased if estimate == "biased" else means.unbiased((n, m))


@in_double
def _reordered(
    x: Any,
    y: Any,
    kernel_x: Kernel | None,
    kernel_y: Kernel | None,
    keys: tuple[Key, Key],
    estimate: str,
    permutations: int,
    count: int,
) -> Any:
    shuffles, features = keys
    first, second, kernels = _variables(x, y, kernel_x, kernel_y)
    orders = jax.random.uniform(shuffles, (permutations, len(first))).argsort(axis=1)
    orders = jnp.concatenate([jnp.arange(len(first))[None], orders])
    if estimate == "features":
        return feature_dependence(*drawn_features(kernels, first, second, count, features), orders)
    return dependence(kernels[0].gram(first), kernels[1].gram(second), estimate, orders)


@in_double
def _gamma(x: Any, y: Any, kernel_x: Kernel | None, kernel_y: Kernel | None) -> Any:
    """The biased estimate, and the gamma distribution with its mean and variance under independence."""
    x, y, kernels = _variables(x, y, kernel_x, kernel_y)
    first, second = kernels[0].gram(x), kernels[1].gram(y)
    n = len(first)
    if n < 6:
        raise ArgumentError(
            f"independence_test: {n} rows are too few for the gamma approximation; 6 are needed"
        )

    def spread(matrix: Array) -> Array:
        own = jnp.trace(matrix)
        return own / n - (matrix.sum() - own) / (n * (n - 1))

    squares = jnp.square(centred(first) * centred(second))
    mean = spread(first) * spread(second) / n
    apart = (squares.sum() - jnp.trace(squares)) / (n * (n - 1))
    variance = 2 * (n - 4) * (n - 5) / (n * (n - 1) * (n - 2) * (n - 3)) * apart
    statistic = dependence(first, second, "biased", jnp.arange(n)[None])[0]
    return statistic, mean**2 / variance, variance / mean


def _variables(
    x: Any, y: Any, kernel_x: Kernel | None, kernel_y: Kernel | None
) -> tuple[Array, Array, tuple[Kernel, Kernel]]:
    first, second = paired("independence_test", x, y)
    return first, second, (kernel_x or default_kernel(first), kernel_y or default_kernel(second))


__all__ = ["Tested", "independence_test", "two_sample_test"]
