"""Divergences and distances between discrete distributions, two of them with a witness.

Every function takes probabilities along the last axis (any leading axes), checks that they are some, and can be
differentiated and compiled. Information is measured in nats (`base=e`) or bits (`base=2`). Two come with a witness: the
event on which two distributions differ most, and the function whose means differ by the Wasserstein distance.
`compare` computes all of them and says which are metrics.

Reference: Cover and Thomas, Elements of Information Theory, 2nd edition, 2006, chapters 2 and 11.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import rel_entr
from jaxtyping import Bool

from chainrule.core.errors import ArgumentError
from chainrule.core.registry import Registry
from chainrule.core.types import Array, Float

_TOLERANCE = 1e-6

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
    p, q = _pair(p, q, normalize)
    return jnp.linalg.norm(p - q, ord=order, axis=-1)


def total_variation(p: Any, q: Any, *, normalize: bool = False) -> Value:
    """Half the sum of absolute differences: the most that the probabilities of one event can differ.

    >>> round(float(total_variation([0.5, 0.5], [0.9, 0.1])), 4)
    0.4
    """
    p, q = _pair(p, q, normalize)
    return jnp.abs(p - q).sum(axis=-1) / 2


def most_telling_event(p: Any, q: Any, *, normalize: bool = False) -> Bool[Array, "*batch outcomes"]:
    """The event `p >= q`, on which the two differ by their total variation: `p(A) - q(A)`.

    >>> most_telling_event([0.5, 0.5], [0.9, 0.1]).tolist()
    [False, True]
    """
    p, q = _pair(p, q, normalize)
    return p >= q


def kl(p: Any, q: Any, *, base: float = math.e, normalize: bool = False) -> Value:
    """`sum p log(p / q)`: jointly convex, zero only for equal distributions, infinite where p > 0 = q.

    >>> round(float(kl([0.5, 0.5], [0.9, 0.1])), 4), float(kl([0.5, 0.5], [1.0, 0.0]))
    (0.5108, inf)
    """
    unit = _unit(base)
    p, q = _pair(p, q, normalize)
    return rel_entr(p, q).sum(axis=-1) / unit


def kl_from_logits(a: Any, b: Any, *, base: float = math.e) -> Value:
    """`kl(softmax(a), softmax(b))` without ever leaving the logarithms: finite for any finite logits.

    >>> float(kl_from_logits([0.0, -2000.0], [-2000.0, 0.0]))
    2000.0
    """
    unit = _unit(base)
    log_p, log_q = (jax.nn.log_softmax(_floating(x), axis=-1) for x in (a, b))
    return (jnp.exp(log_p) * (log_p - log_q)).sum(axis=-1) / unit


def entropy(p: Any, *, base: float = math.e, normalize: bool = False) -> Value:
    """`-sum p log p`, with 0 log 0 = 0.

    >>> float(entropy([0.5, 0.5, 0.0], base=2))
    1.0
    """
    unit = _unit(base)
    p = _checked("p", p, normalize)
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
    unit = _unit(base)
    p, q = _pair(p, q, normalize)
    middle = (p + q) / 2
    return (rel_entr(p, middle) + rel_entr(q, middle)).sum(axis=-1) / (2 * unit)


def jeffreys(p: Any, q: Any, *, base: float = math.e, normalize: bool = False) -> Value:
    """`kl(p, q) + kl(q, p)`: symmetric, yet no metric."""
    unit = _unit(base)
    p, q = _pair(p, q, normalize)
    return (rel_entr(p, q) + rel_entr(q, p)).sum(axis=-1) / unit


def hellinger(p: Any, q: Any, *, normalize: bool = False) -> Value:
    """`sqrt(1/2 sum (sqrt p - sqrt q)²)`, between 0 and 1.

    >>> float(hellinger([1.0, 0.0], [0.0, 1.0]))
    1.0
    """
    p, q = _pair(p, q, normalize)
    return jnp.linalg.norm(jnp.sqrt(p) - jnp.sqrt(q), axis=-1) / math.sqrt(2)


def chi_square(p: Any, q: Any, *, normalize: bool = False) -> Value:
    """`sum (p - q)² / q` (Pearson); infinite where p > 0 = q.

    >>> round(float(chi_square([0.5, 0.5], [0.9, 0.1])), 4)
    1.7778
    """
    p, q = _pair(p, q, normalize)
    safe = jnp.where(q > 0, q, 1.0)
    terms = jnp.where(q > 0, jnp.square(p - q) / safe, jnp.where(p > 0, jnp.inf, 0.0))
    return terms.sum(axis=-1)


def wasserstein(p: Any, q: Any, at: Any = None, *, normalize: bool = False) -> Value:
    """Least cost of moving p to q along a line, mass times distance; outcomes lie at `at` (default 0, 1, 2, ...).

    >>> float(wasserstein([1.0, 0.0, 0.0], [0.0, 0.0, 1.0]))
    2.0
    """
    p, q = _pair(p, q, normalize)
    ahead = jnp.cumsum(p - q, axis=-1)[..., :-1]
    return (jnp.abs(ahead) * _gaps(at, p)).sum(axis=-1)


def potential(p: Any, q: Any, at: Any = None, *, normalize: bool = False) -> Probabilities:
    """A function of slope at most one whose means under p and q differ by the Wasserstein distance.

    >>> p, q = jnp.array([1.0, 0.0, 0.0]), jnp.array([0.0, 0.0, 1.0])
    >>> float(potential(p, q) @ (p - q))
    2.0
    """
    p, q = _pair(p, q, normalize)
    ahead = jnp.cumsum(p - q, axis=-1)[..., :-1]
    steps = -jnp.sign(ahead) * _gaps(at, p)
    return jnp.concatenate([jnp.zeros_like(p[..., :1]), jnp.cumsum(steps, axis=-1)], axis=-1)


# ---------------------------------------------------------------------- all of them


@final
@dataclass(frozen=True)
class DistanceEntry:
    """What is known about a distance."""

    name: str
    function: Callable[..., Array]
    is_metric: bool
    is_symmetric: bool
    in_bits: bool
    """Whether `base` changes it."""


distances: Registry[DistanceEntry] = Registry("distance")

for _name, _function, _is_metric, _is_symmetric, _in_bits in (
    ("L1", lambda p, q: lp(p, q, 1.0), True, True, False),
    ("L2", lp, True, True, False),
    ("total variation", total_variation, True, True, False),
    ("Hellinger", hellinger, True, True, False),
    ("Wasserstein-1", wasserstein, True, True, False),
    ("KL", kl, False, False, True),
    ("cross-entropy", cross_entropy, False, False, True),
    ("Jensen-Shannon", jensen_shannon, False, True, True),
    ("Jeffreys", jeffreys, False, True, True),
    ("chi-square", chi_square, False, False, False),
):
    distances.add(_name, DistanceEntry(_name, _function, _is_metric, _is_symmetric, _in_bits))


@final
@dataclass(frozen=True)
class Compared:
    """One distance between two distributions, in both directions."""

    name: str
    forward: float
    """From p to q."""
    backward: float
    """From q to p."""
    unit: str
    is_metric: bool


def compare(p: Any, q: Any, *, base: float = math.e, normalize: bool = False) -> list[Compared]:
    """Every distance between two distributions, and whether it is a metric.

    >>> [(one.name, one.is_metric) for one in compare([0.5, 0.5], [0.9, 0.1]) if one.name in ("L2", "KL")]
    [('L2', True), ('KL', False)]
    """
    _unit(base)
    first, second = _pair(p, q, normalize)
    if first.ndim != 1:
        raise ArgumentError(
            f"compare(p): needs one distribution on each side, not an array of shape {first.shape}"
        )
    found = []
    for name in distances:
        one = distances[name]
        options = {"base": base} if one.in_bits else {}
        there, back = (float(one.function(*pair, **options)) for pair in ((first, second), (second, first)))
        unit = ("bits" if base == 2 else "nats") if one.in_bits else ""
        found.append(Compared(name, there, back, unit, one.is_metric))
    return found


# ---------------------------------------------------------------------- checks


def _pair(p: Any, q: Any, normalize: bool) -> tuple[Array, Array]:
    p, q = _checked("p", p, normalize), _checked("q", q, normalize)
    if p.shape[-1] != q.shape[-1]:
        raise ArgumentError(f"p has {p.shape[-1]} outcomes and q has {q.shape[-1]}: they must have the same")
    dtype = jnp.promote_types(p.dtype, q.dtype)
    shape = jnp.broadcast_shapes(p.shape, q.shape)
    return jnp.broadcast_to(p, shape).astype(dtype), jnp.broadcast_to(q, shape).astype(dtype)


def _checked(name: str, values: Any, normalize: bool) -> Array:
    """Probabilities as an array; inside a compiled function the checks run with it."""
    array = _floating(values)
    if array.ndim == 0 or array.shape[-1] == 0:
        raise ArgumentError(f"{name}: probabilities need an axis of outcomes, not shape {array.shape}")
    total = array.sum(axis=-1, keepdims=True)
    if isinstance(array, jax.core.Tracer):
        array = eqx.error_if(
            array, ~(array >= 0), f"{name} has a probability that is negative or not a number"
        )
        if normalize:
            return array / total
        return eqx.error_if(array, jnp.abs(total - 1) > _TOLERANCE, f"{name} does not sum to one")
    exact = np.asarray(array, dtype=np.float64)
    if not (exact >= 0).all():
        worst = np.nanmin(exact) if not np.isnan(exact).any() else math.nan
        raise ArgumentError(f"{name} holds {worst:.6g}: a probability is not negative")
    sums = exact.sum(axis=-1)
    if normalize:
        if not (np.isfinite(sums) & (sums > 0)).all():
            raise ArgumentError(f"{name}: weights that sum to {sums.min():.6g} cannot be normalised")
        return array / total
    off = np.abs(sums - 1).max(initial=0.0)
    if not off <= _TOLERANCE:
        at = sums.ravel()[np.abs(sums.ravel() - 1).argmax()]
        raise ArgumentError(
            f"{name} sums to {at:.8g} instead of 1", remedy="pass normalize=True to divide by the sum"
        )
    return array


def _floating(values: Any) -> Array:
    array = jnp.asarray(values)
    return array if jnp.issubdtype(array.dtype, jnp.floating) else array.astype(jnp.result_type(float))


def _unit(base: float) -> float:
    if base not in (math.e, 2):
        raise ArgumentError(f"base={base}: information is measured in nats (base=math.e) or bits (base=2)")
    return math.log(base)


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
    "Compared",
    "DistanceEntry",
    "chi_square",
    "compare",
    "cross_entropy",
    "distances",
    "entropy",
    "hellinger",
    "jeffreys",
    "jensen_shannon",
    "kl",
    "kl_from_logits",
    "lp",
    "most_telling_event",
    "potential",
    "total_variation",
    "wasserstein",
]
