"""Divergences between two distributions, or between two arrays of probabilities: one function each, for either.

Arrays hold probabilities along the last axis (see `vectors`). Distributions are compared in closed form where there is
one, else by enumeration, quadrature or draws (see `points`); through logits (`Categorical(logits=...)`) everything
stays in logarithms, gradients included. Values are in nats, or with `base=2` or `unit="bits"` in bits.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.probability.distributions.base import Distribution
from chainrule.probability.distributions.multivariate_normal import MultivariateNormal
from chainrule.probability.distributions.normal import Normal
from chainrule.probability.divergences import vectors
from chainrule.probability.divergences.f_divergences import f_divergences
from chainrule.probability.divergences.points import integral, points_of, weighted_sum
from chainrule.probability.divergences.probabilities import check_convention, log_base
from chainrule.probability.gaussian import distances as gaussian
from chainrule.probability.kullback_leibler import kl_of_distributions

Value: TypeAlias = Float[Array, "*batch"]
SAMPLES = 10_000


def kl(
    p: Any,
    q: Any,
    *,
    base: float = math.e,
    unit: str | None = None,
    normalize: bool = False,
    key: Key | None = None,
    samples: int = SAMPLES,
) -> Value:
    """`E_p log(p / q)`: jointly convex, zero only for equal distributions, infinite where p > 0 = q.

    It is how much longer messages from p are, on average, in the code made for q than in their own (`unit="bits"`).
    Distributions without a closed form or finitely many points are compared by `samples` draws from `key`, or from
    `jax.random.key(0)`, with a warning; `estimate_kl` returns the standard error as well.

    >>> round(float(kl([0.5, 0.5], [0.9, 0.1])), 4), float(kl([0.5, 0.5], [1.0, 0.0]))
    (0.5108, inf)
    """
    scale = log_base(base, unit)
    if _distributions("kl", p, q):
        return kl_of_distributions(p, q, key=key, samples=samples) / scale
    return vectors.kl(p, q, normalize=normalize) / scale


def cross_entropy(
    p: Any,
    q: Any,
    *,
    base: float = math.e,
    unit: str | None = None,
    normalize: bool = False,
    key: Key | None = None,
    samples: int = SAMPLES,
) -> Value:
    """`-E_p log q = kl(p, q) + entropy(p)`: the mean code length of p with the code made for q.

    One-hot targets come first.

    >>> round(float(cross_entropy([0.5, 0.5], [0.9, 0.1])), 6)
    1.203973
    """
    scale = log_base(base, unit)
    if _distributions("cross_entropy", p, q):
        return (kl_of_distributions(p, q, key=key, samples=samples) + p.entropy()) / scale
    return vectors.cross_entropy(p, q, normalize=normalize) / scale


def jeffreys(
    p: Any,
    q: Any,
    *,
    base: float = math.e,
    unit: str | None = None,
    normalize: bool = False,
    key: Key | None = None,
    samples: int = SAMPLES,
) -> Value:
    """`kl(p, q) + kl(q, p)`: symmetric, yet no metric. Its half is not the Jensen-Shannon divergence.

    >>> round(float(jeffreys([0.5, 0.5], [0.9, 0.1])), 4)
    0.8789
    """
    scale = log_base(base, unit)
    if _distributions("jeffreys", p, q):
        there, back = (kl_of_distributions(*two, key=key, samples=samples) for two in ((p, q), (q, p)))
        return (there + back) / scale
    return vectors.jeffreys(p, q, normalize=normalize) / scale


def js(
    p: Any,
    q: Any,
    *,
    base: float = math.e,
    unit: str | None = None,
    normalize: bool = False,
    key: Key | None = None,
    samples: int = SAMPLES,
) -> Value:
    """Jensen-Shannon: mean divergence from the mixture, `(kl(p, m) + kl(q, m)) / 2`; its square root is a metric.

    >>> round(float(js([1.0, 0.0], [0.0, 1.0], unit="bits")), 6)
    1.0
    """
    scale = log_base(base, unit)
    if _distributions("js", p, q):
        return integral("js", f_divergences["Jensen-Shannon"].term, p, q, key, samples) / scale
    return vectors.jensen_shannon(p, q, normalize=normalize) / scale


def tv(
    p: Any,
    q: Any,
    *,
    convention: str = "half",
    normalize: bool = False,
    key: Key | None = None,
    samples: int = SAMPLES,
) -> Value:
    """Total variation, half the integral of |p - q|: the most that the probabilities of one event can differ.

    Some texts leave out the half: `convention="full"`.

    >>> round(float(tv([0.5, 0.5], [0.9, 0.1])), 4)
    0.4
    """
    if _distributions("tv", p, q):
        check_convention("tv", convention)
        found = integral("tv", f_divergences["total variation"].term, p, q, key, samples)
        return found if convention == "half" else 2 * found
    return vectors.total_variation(p, q, convention=convention, normalize=normalize)


def hellinger(
    p: Any,
    q: Any,
    *,
    convention: str = "half",
    normalize: bool = False,
    key: Key | None = None,
    samples: int = SAMPLES,
) -> Value:
    """Root of half the integral of `(sqrt p - sqrt q)²`, between 0 and 1.

    Some texts leave out the half: `convention="full"`.

    >>> float(hellinger([1.0, 0.0], [0.0, 1.0]))
    1.0
    """
    if not _distributions("hellinger", p, q):
        return vectors.hellinger(p, q, convention=convention, normalize=normalize)
    check_convention("hellinger", convention)
    found = _normals(gaussian.hellinger, p, q)
    if found is None:
        square = integral("hellinger", f_divergences["squared Hellinger"].term, p, q, key, samples)
        positive = square > 0
        found = jnp.where(positive, jnp.sqrt(jnp.where(positive, square, 1.0)), 0.0)
    return found if convention == "half" else math.sqrt(2) * found


def chi2(p: Any, q: Any, *, normalize: bool = False, key: Key | None = None, samples: int = SAMPLES) -> Value:
    """Pearson's chi-square, the integral of `(p - q)² / q`; infinite where p > 0 = q.

    >>> round(float(chi2([0.5, 0.5], [0.9, 0.1])), 4)
    1.7778
    """
    if not _distributions("chi2", p, q):
        return vectors.chi_square(p, q, normalize=normalize)
    found = _normals(gaussian.chi_square, p, q)
    if found is None:
        return integral("chi2", f_divergences["Pearson chi-square"].term, p, q, key, samples)
    return found


def bhattacharyya(
    p: Any, q: Any, *, normalize: bool = False, key: Key | None = None, samples: int = SAMPLES
) -> Value:
    """`-log` of the integral of `sqrt(p q)`: infinite where the two have nothing in common; no metric.

    >>> round(float(bhattacharyya([0.5, 0.5], [0.9, 0.1])), 4)
    0.1116
    """
    if not _distributions("bhattacharyya", p, q):
        return vectors.bhattacharyya(p, q, normalize=normalize)
    return renyi(p, q, 0.5, key=key, samples=samples) / 2


def renyi(
    p: Any,
    q: Any,
    alpha: float,
    *,
    base: float = math.e,
    unit: str | None = None,
    normalize: bool = False,
    key: Key | None = None,
    samples: int = SAMPLES,
) -> Value:
    """Rényi's divergence of order alpha, `log(E_q[(p / q)^alpha]) / (alpha - 1)`; order 1 is KL.

    >>> [round(float(renyi([0.5, 0.5], [0.9, 0.1], alpha)), 4) for alpha in (0.5, 1.0, 2.0, math.inf)]
    [0.2231, 0.5108, 1.0217, 1.6094]
    """
    scale = log_base(base, unit)
    if not _distributions("renyi", p, q):
        return vectors.renyi(p, q, alpha, normalize=normalize) / scale
    if not alpha >= 0:
        raise ArgumentError(f"renyi(alpha={alpha}): the order must not be negative")
    if alpha == 1:
        return kl_of_distributions(p, q, key=key, samples=samples) / scale
    if 0 < alpha < math.inf:
        found = _normals(functools.partial(gaussian.renyi, alpha=alpha), p, q)
        if found is not None:
            return found / scale
    points = points_of("renyi", p, q, key, samples)
    # In logarithms, so that nothing overflows; summed as it is too, which warns of draws and of what does not settle.
    weighted_sum("renyi", p, q, points, jnp.exp(alpha * points.log_p + (1 - alpha) * points.log_q))
    log_weights = jnp.log(points.weights)
    return vectors.renyi_of_logs(points.log_p, points.log_q, alpha, 0, log_weights) / scale


def lp(p: Any, q: Any, order: float = 2.0, *, normalize: bool = False) -> Value:
    """`(sum |p - q|^order)^(1/order)` of probabilities; a metric. An infinite order gives the largest difference.

    >>> round(float(lp([0.5, 0.5], [0.9, 0.1])), 4)
    0.5657
    """
    if not _distributions("lp", p, q):
        return vectors.lp(p, q, order, normalize=normalize)
    if not (p.support.is_discrete and q.support.is_discrete) or p.atoms() is None or q.atoms() is None:
        raise ArgumentError(
            f"lp: {type(p).__name__} and {type(q).__name__} do not both have finitely many outcomes",
            remedy="tv and hellinger are metrics between densities",
        )
    if order < 1:
        raise ArgumentError(
            f"lp(order={order}): below 1 the triangle inequality fails", remedy="use order >= 1"
        )
    points = points_of("lp", p, q, None, 2)
    apart = jnp.abs(jnp.exp(points.log_p) - jnp.exp(points.log_q))
    if math.isinf(order):
        return apart.max(axis=0)
    total = (points.weights * apart**order).sum(axis=0)
    return jnp.where(total > 0, jnp.where(total > 0, total, 1.0) ** (1 / order), 0.0)


def _distributions(where: str, p: Any, q: Any) -> bool:
    """Whether both are distributions; one of them alone is an error."""
    kinds = [isinstance(one, Distribution) for one in (p, q)]
    if kinds[0] != kinds[1]:
        raise ArgumentError(
            f"{where}({'p' if kinds[1] else 'q'}): a distribution cannot be compared with an array",
            remedy="make a distribution of the array: Categorical(probs)",
        )
    return kinds[0]


def _normals(form: Callable[..., Array], p: Distribution, q: Distribution) -> Value | None:
    """A closed form for regular normals, one pair of the batch at a time; nothing for other distributions."""
    moments = []
    for one in (p, q):
        if isinstance(one, Normal):
            moments += [one.mean[..., None], one.variance[..., None, None]]
        elif isinstance(one, MultivariateNormal) and not one.structure.is_singular:
            moments += [one.mean, one.covariance]
        else:
            return None
    if p.event_shape != q.event_shape:
        return None
    batch = np.broadcast_shapes(p.batch_shape, q.batch_shape)
    ranks = (1, 2, 1, 2)
    flat = [
        jnp.broadcast_to(one, (*batch, *one.shape[one.ndim - rank :])).reshape(
            -1, *one.shape[one.ndim - rank :]
        )
        for one, rank in zip(moments, ranks, strict=True)
    ]
    return jax.vmap(form)(*flat).reshape(batch)


__all__ = [
    "bhattacharyya",
    "chi2",
    "cross_entropy",
    "hellinger",
    "jeffreys",
    "js",
    "kl",
    "lp",
    "renyi",
    "tv",
]
