"""Divergences and distances between probability vectors, two of them with a witness.

Every function takes probabilities along the last axis (any leading axes), checks that they are some, and can be
differentiated and compiled. Information is measured in nats (`base=e`) or bits (`base=2`). Two come with a witness: the
event on which two distributions differ most, and the function whose means differ by the Wasserstein distance.

Reference: Cover and Thomas, Elements of Information Theory, 2nd edition, 2006, chapters 2 and 11.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import rel_entr
from jaxtyping import Bool

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float
from chainrule.probability.distributions.parameters import floating, probabilities
from chainrule.probability.divergences.probabilities import (
    check_convention,
    log_base,
    pair,
)

Probabilities = Float[Array, "*batch outcomes"]
Value = Float[Array, "*batch"]


def lp(p: Any, q: Any, order: float = 2.0, *, normalize: bool = False) -> Value:
    """`(sum |p - q|^order)^(1/order)`, a metric for orders of at least one; infinity gives the largest difference.

    >>> round(float(lp([0.5, 0.5], [0.9, 0.1])), 4)
    0.5657
    """
    if order < 1:
        raise ArgumentError(
            f"lp(order={order}): below 1 the triangle inequality fails", remedy="use order >= 1"
        )
    p, q = pair(p, q, normalize)
    apart = jnp.abs(p - q)
    return apart.max(axis=-1) if math.isinf(order) else _power((apart**order).sum(axis=-1), 1 / order)


def total_variation(p: Any, q: Any, *, convention: str = "half", normalize: bool = False) -> Value:
    """Half the sum of absolute differences: the most that the probabilities of one event can differ.

    Some texts leave out the half: `convention="full"`.

    >>> round(float(total_variation([0.5, 0.5], [0.9, 0.1])), 4)
    0.4
    """
    check_convention("total_variation", convention)
    p, q = pair(p, q, normalize)
    return jnp.abs(p - q).sum(axis=-1) / (2 if convention == "half" else 1)


def most_telling_event(p: Any, q: Any, *, normalize: bool = False) -> Bool[Array, "*batch outcomes"]:
    """The event `p >= q`, on which the two differ by their total variation: `p(A) - q(A)`.

    >>> most_telling_event([0.5, 0.5], [0.9, 0.1]).tolist()
    [False, True]
    """
    p, q = pair(p, q, normalize)
    return p >= q


def kl(p: Any, q: Any, *, base: float = math.e, normalize: bool = False) -> Value:
    """`sum p log(p / q)`: jointly convex, zero only for equal distributions, infinite where p > 0 = q.

    >>> round(float(kl([0.5, 0.5], [0.9, 0.1])), 4), float(kl([0.5, 0.5], [1.0, 0.0]))
    (0.5108, inf)
    """
    unit = log_base(base)
    p, q = pair(p, q, normalize)
    return rel_entr(p, q).sum(axis=-1) / unit


def kl_from_logits(a: Any, b: Any, *, base: float = math.e) -> Value:
    """`kl(softmax(a), softmax(b))` without ever leaving the logarithms: finite for any finite logits.

    >>> float(kl_from_logits([0.0, -2000.0], [-2000.0, 0.0]))
    2000.0
    """
    unit = log_base(base)
    log_p, log_q = (jax.nn.log_softmax(floating(x), axis=-1) for x in (a, b))
    return (jnp.exp(log_p) * (log_p - log_q)).sum(axis=-1) / unit


def entropy(p: Any, *, base: float = math.e, normalize: bool = False) -> Value:
    """`-sum p log p`, with 0 log 0 = 0.

    >>> float(entropy([0.5, 0.5, 0.0], base=2))
    1.0
    """
    unit = log_base(base)
    p = probabilities("p", p, normalize)
    return -rel_entr(p, jnp.ones_like(p)).sum(axis=-1) / unit


def cross_entropy(p: Any, q: Any, *, base: float = math.e, normalize: bool = False) -> Value:
    """`-sum p log q = kl(p, q) + entropy(p)`: the mean code length of p with the code made for q.

    >>> round(float(cross_entropy([0.5, 0.5], [0.9, 0.1])), 6)
    1.203973
    """
    return kl(p, q, base=base, normalize=normalize) + entropy(p, base=base, normalize=normalize)


def jensen_shannon(p: Any, q: Any, *, base: float = math.e, normalize: bool = False) -> Value:
    """Mean divergence from the mixture, `(kl(p, m) + kl(q, m)) / 2`; its square root is a metric.

    >>> round(float(jensen_shannon([1.0, 0.0], [0.0, 1.0], base=2)), 6)
    1.0
    """
    unit = log_base(base)
    p, q = pair(p, q, normalize)
    middle = (p + q) / 2
    return (rel_entr(p, middle) + rel_entr(q, middle)).sum(axis=-1) / (2 * unit)


def jeffreys(p: Any, q: Any, *, base: float = math.e, normalize: bool = False) -> Value:
    """`kl(p, q) + kl(q, p)`: symmetric, yet no metric."""
    unit = log_base(base)
    p, q = pair(p, q, normalize)
    return (rel_entr(p, q) + rel_entr(q, p)).sum(axis=-1) / unit


def hellinger(p: Any, q: Any, *, convention: str = "half", normalize: bool = False) -> Value:
    """`sqrt(1/2 sum (sqrt p - sqrt q)²)`, between 0 and 1.

    Some texts leave out the half: `convention="full"`.

    >>> float(hellinger([1.0, 0.0], [0.0, 1.0]))
    1.0
    """
    check_convention("hellinger", convention)
    p, q = pair(p, q, normalize)
    square = jnp.square(_power(p, 0.5) - _power(q, 0.5)).sum(axis=-1)
    return _power(square / 2 if convention == "half" else square, 0.5)


def bhattacharyya(p: Any, q: Any, *, normalize: bool = False) -> Value:
    """`-log sum sqrt(p q)`: infinite where the two have no outcome in common; no metric.

    >>> round(float(bhattacharyya([0.5, 0.5], [0.9, 0.1])), 4)
    0.1116
    """
    p, q = pair(p, q, normalize)
    return -_log((_power(p, 0.5) * _power(q, 0.5)).sum(axis=-1))


def renyi(p: Any, q: Any, alpha: float, *, base: float = math.e, normalize: bool = False) -> Value:
    """Rényi's divergence of order alpha, `log(sum p^alpha q^(1 - alpha)) / (alpha - 1)`; order 1 is KL.

    Order 0 is minus the logarithm of what q gives to the support of p, order infinity that of the largest ratio p/q.

    >>> [round(float(renyi([0.5, 0.5], [0.9, 0.1], alpha)), 4) for alpha in (0.5, 1.0, 2.0, math.inf)]
    [0.2231, 0.5108, 1.0217, 1.6094]
    """
    if not alpha >= 0:
        raise ArgumentError(f"renyi(alpha={alpha}): the order must not be negative")
    if alpha == 1:
        return kl(p, q, base=base, normalize=normalize)
    unit = log_base(base)
    p, q = pair(p, q, normalize)
    return renyi_of_logs(_log(p), _log(q), alpha, axis=-1) / unit


def renyi_of_logs(log_p: Array, log_q: Array, alpha: float, axis: int, log_weights: Any = 0.0) -> Array:
    """Rényi's divergence of an order other than 1 from log-densities at points of these weights, in nats."""
    possible = log_p > -jnp.inf
    first = jnp.where(possible, log_p, 0.0)
    second = jnp.where(possible, log_q, 0.0)
    if math.isinf(alpha):
        return jnp.where(possible, first - second, -jnp.inf).max(axis=axis)
    # Where q is zero, the power 1 - alpha is zero below order 1 and infinite above.
    none = second == -jnp.inf
    powers = alpha * first + (1 - alpha) * jnp.where(none, 0.0, second)
    powers = jnp.where(none, jnp.inf if alpha > 1 else -jnp.inf, powers)
    terms = jnp.where(possible, powers, -jnp.inf) + log_weights
    return jax.scipy.special.logsumexp(terms, axis=axis) / (alpha - 1)


def chi_square(p: Any, q: Any, *, normalize: bool = False) -> Value:
    """`sum (p - q)² / q` (Pearson); infinite where p > 0 = q.

    >>> round(float(chi_square([0.5, 0.5], [0.9, 0.1])), 4)
    1.7778
    """
    p, q = pair(p, q, normalize)
    safe = jnp.where(q > 0, q, 1.0)
    terms = jnp.where(q > 0, jnp.square(p - q) / safe, jnp.where(p > 0, jnp.inf, 0.0))
    return terms.sum(axis=-1)


def wasserstein(p: Any, q: Any, at: Any = None, *, normalize: bool = False) -> Value:
    """Least cost of moving p to q along a line, mass times distance; outcomes lie at `at` (default 0, 1, 2, ...).

    >>> float(wasserstein([1.0, 0.0, 0.0], [0.0, 0.0, 1.0]))
    2.0
    """
    p, q = pair(p, q, normalize)
    ahead = jnp.cumsum(p - q, axis=-1)[..., :-1]
    return (jnp.abs(ahead) * _gaps(at, p)).sum(axis=-1)


def potential(p: Any, q: Any, at: Any = None, *, normalize: bool = False) -> Probabilities:
    """A function of slope at most one whose means under p and q differ by the Wasserstein distance.

    >>> p, q = jnp.array([1.0, 0.0, 0.0]), jnp.array([0.0, 0.0, 1.0])
    >>> float(potential(p, q) @ (p - q))
    2.0
    """
    p, q = pair(p, q, normalize)
    ahead = jnp.cumsum(p - q, axis=-1)[..., :-1]
    steps = -jnp.sign(ahead) * _gaps(at, p)
    return jnp.concatenate([jnp.zeros_like(p[..., :1]), jnp.cumsum(steps, axis=-1)], axis=-1)


def _power(x: Array, exponent: float) -> Array:
    """A power below one with slope zero instead of infinity at zero, where distances have their minimum."""
    positive = x > 0
    return jnp.where(positive, jnp.where(positive, x, 1.0) ** exponent, 0.0)


def _log(p: Array) -> Array:
    possible = p > 0
    return jnp.where(possible, jnp.log(jnp.where(possible, p, 1.0)), -jnp.inf)


def _gaps(at: Any, like: Array) -> Array:
    count = like.shape[-1]
    points = np.arange(count, dtype=float) if at is None else np.asarray(at, dtype=float)
    if points.shape != (count,) or not (np.diff(points) > 0).all() or not np.isfinite(points).all():
        raise ArgumentError(
            f"wasserstein(at={at}): needs {count} positions in increasing order, one for each outcome"
        )
    gaps = jnp.asarray(np.diff(points), like.dtype)
    return gaps.reshape((1,) * (like.ndim - 1) + gaps.shape)


__all__ = [
    "bhattacharyya",
    "chi_square",
    "cross_entropy",
    "entropy",
    "hellinger",
    "jeffreys",
    "jensen_shannon",
    "kl",
    "kl_from_logits",
    "lp",
    "most_telling_event",
    "potential",
    "renyi",
    "renyi_of_logs",
    "total_variation",
    "wasserstein",
]
