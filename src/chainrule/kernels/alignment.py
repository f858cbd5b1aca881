"""Alignment losses: how far apart the features of two batches are, as a term of a loss.

Both are *squared* distances of mean features, differentiable and compiled with whatever surrounds them. `mmd_alignment`
is the squared maximum mean discrepancy under a sum of Gaussian kernels of several widths, `coral_alignment` that of
covariances, which is the one of the kernel (x·y)² on centred features. A regulariser by the distance itself is another
problem than one by its square; these are the squares.

References: Long, Cao, Wang and Jordan, Learning transferable features with deep adaptation networks, 2015; Sun and
Saenko, Deep CORAL, 2016.
"""

import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Scalar
from chainrule.kernels.mean_embedding import FACTORS, multi_scale, samples, squared_mmd


def mmd_alignment(
    x: Float[Array, "batch features"],
    y: Float[Array, "others features"],
    factors: tuple[float, ...] = FACTORS,
    estimate: str = "unbiased",
) -> Scalar:
    """The squared maximum mean discrepancy under a mean of RBF kernels, whose scales are these multiples of the median.

    The median distance is that of the two batches and is not differentiated. The default estimate may be negative; the
    biased one holds points of a domain apart less than it pulls the domains together, so that small batches shrink.

    >>> x = jnp.arange(6.0).reshape(3, 2)
    >>> float(mmd_alignment(x, x, estimate="biased")), bool(mmd_alignment(x, x + 9) > 0.5)
    (0.0, True)
    """
    return squared_mmd(x, y, multi_scale(x, y, factors), estimate) / len(factors)


def coral_alignment(x: Float[Array, "batch features"], y: Float[Array, "others features"]) -> Scalar:
    """The squared distance of the covariances of two batches, `|C_x - C_y|² / (4 d²)` for d features.

    >>> x = jnp.array([[0.0], [2.0]])
    >>> float(coral_alignment(x, 2 * x)), float(coral_alignment(x, x + 5))
    (9.0, 0.0)
    """
    first, second = samples("coral_alignment", x, y)
    for name, batch in (("x", first), ("y", second)):
        if len(batch) < 2:
            raise ArgumentError(f"coral_alignment({name}): a covariance needs two rows or more")
    difference = covariance(first) - covariance(second)
    return jnp.square(difference).sum() / (4 * first.shape[1] ** 2)


def covariance(x: Float[Array, "batch features"]) -> Float[Array, "features features"]:
    """The unbiased covariance of the features of a batch.

    >>> covariance(jnp.array([[0.0], [2.0]])).tolist()
    [[2.0]]
    """
    apart = x - x.mean(axis=0, keepdims=True)
    return apart.T @ apart / (len(x) - 1)


__all__ = ["coral_alignment", "covariance", "mmd_alignment"]
