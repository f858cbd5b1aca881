"""Every distance between two distributions side by side, each with its convention and whether it is a metric."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.registry import Registry
from chainrule.core.types import Array
from chainrule.probability.distributions.base import Distribution
from chainrule.probability.divergences import vectors
from chainrule.probability.divergences.probabilities import log_base, pair


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
    convention: str
    """The formula, and what happens where a probability is zero."""


distances: Registry[DistanceEntry] = Registry("distance")

for _entry in (
    DistanceEntry("L1", lambda p, q: vectors.lp(p, q, 1.0), True, True, False, "sum |p - q|"),
    DistanceEntry("L2", vectors.lp, True, True, False, "sqrt(sum (p - q)²)"),
    DistanceEntry("total variation", vectors.total_variation, True, True, False, "sum |p - q| / 2"),
    DistanceEntry("Hellinger", vectors.hellinger, True, True, False, "sqrt(1 - sum sqrt(p q))"),
    DistanceEntry("Wasserstein-1", vectors.wasserstein, True, True, False, "outcomes at 0, 1, 2, ..."),
    DistanceEntry(
        "KL", vectors.kl, False, False, True, "sum p log(p/q); 0 log 0 = 0; infinite where q = 0 < p"
    ),
    DistanceEntry(
        "cross-entropy", vectors.cross_entropy, False, False, True, "-sum p log q; infinite where q = 0 < p"
    ),
    DistanceEntry(
        "Jensen-Shannon",
        vectors.jensen_shannon,
        False,
        True,
        True,
        "mean KL to (p + q)/2; its root is a metric",
    ),
    DistanceEntry("Jeffreys", vectors.jeffreys, False, True, True, "KL(p, q) + KL(q, p)"),
    DistanceEntry(
        "chi-square",
        vectors.chi_square,
        False,
        False,
        False,
        "sum (p - q)²/q (Pearson); infinite where q = 0 < p",
    ),
    DistanceEntry("Bhattacharyya", vectors.bhattacharyya, False, True, False, "-log sum sqrt(p q), in nats"),
):
    distances.add(_entry.name, _entry)


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
    convention: str
    """The formula, and what happens where a probability is zero."""

    def __str__(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        kind = "metric" if self.is_metric else "no metric"
        return f"{self.name}: {self.forward:.6g}, back {self.backward:.6g}{unit} ({self.convention}; {kind})"


def compare(
    p: Any, q: Any, *, base: float = math.e, unit: str | None = None, normalize: bool = False
) -> list[Compared]:
    """Every distance between two distributions of finitely many outcomes, the convention, and whether it is a metric.

    >>> print(compare([0.5, 0.5], [0.9, 0.1])[2])
    total variation: 0.4, back 0.4 (sum |p - q| / 2; metric)
    """
    in_bits = log_base(base, unit) < 1
    if isinstance(p, Distribution) and isinstance(q, Distribution):
        p, q = _probabilities(p, q)
    first, second = pair(p, q, normalize)
    if first.ndim != 1:
        raise ArgumentError(
            f"compare(p): needs one distribution on each side, not an array of shape {first.shape}"
        )
    found = []
    for name in distances:
        one = distances[name]
        options = {"base": 2.0 if in_bits else math.e} if one.in_bits else {}
        there, back = (float(one.function(*two, **options)) for two in ((first, second), (second, first)))
        known = ("bits" if in_bits else "nats") if one.in_bits else ""
        found.append(Compared(name, there, back, known, one.is_metric, one.convention))
    return found


def _probabilities(p: Distribution, q: Distribution) -> tuple[Array, Array]:
    """The probabilities of 0, 1, 2, ... under both."""
    listed = [atoms for atoms in (p.atoms(), q.atoms()) if atoms is not None]
    whole = all(
        bool(((one := np.asarray(atoms.points)) >= 0).all() and (one % 1 == 0).all()) for atoms in listed
    )
    if (
        len(listed) < 2
        or not whole
        or (p.event_shape, q.event_shape, p.batch_shape, q.batch_shape) != ((),) * 4
    ):
        raise ArgumentError(
            f"compare: {type(p).__name__} and {type(q).__name__} are not both distributions of 0, 1, ..., n",
            remedy="two densities, or two samples: probability.divergences.profile",
        )
    outcomes = np.arange(max(float(atoms.points.max()) for atoms in listed) + 1)
    return jnp.exp(p.log_prob(outcomes)), jnp.exp(q.log_prob(outcomes))


__all__ = ["Compared", "DistanceEntry", "compare", "distances"]
