"""Two codewords for one number: what always taking the shorter one wastes.

To send x with a mixture of codes, a sender may pick any code that fits. Picking the shortest pays for a choice that the
receiver does not need: the density it codes with integrates to less than one. Picking at random by the posterior costs
more at first, but the random choice can itself carry a message, whose bits come back; nothing is wasted then.

Reference: Frey and Hinton, Efficient stochastic source coding and an application to a Bayesian network source model,
Computer Journal, 1997.
"""

import itertools
import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy.integrate import quad
from scipy.special import logsumexp, ndtr

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.information.tables import table
from chainrule.information.units import scale, takes_base


@final
@dataclass(frozen=True, eq=False)
class CodewordChoice:
    """A number x sent by one of two normal codes, always the shorter one: a density that is not one."""

    unit: str
    x: np.ndarray
    """Points of a grid."""
    density: np.ndarray
    """The mixture sum_k w_k N_k(x), which bits back codes with."""
    used: np.ndarray
    """max_k w_k N_k(x), which the shorter codeword codes with; it integrates to less than one."""
    waste: np.ndarray
    """Extra length at x, log(density / used): one bit where both codewords are equally long."""
    mass: float
    """The integral of `used`."""
    mean_waste: float
    """The mean of `waste` under the mixture."""
    crossing: float
    """Where the codewords are equally long; not a number where they never are."""

    def __str__(self) -> str:
        wasted = f"{self.mean_waste:.6f} {self.unit}"
        return f"the shorter codeword uses {self.mass:.6f} of the probability and wastes {wasted}"


@takes_base
def codeword_choice(
    means: Any = (-1.0, 1.0),
    sd: float = 1.0,
    weights: Any = (0.5, 0.5),
    points: int = 4001,
    unit: str = "bits",
) -> CodewordChoice:
    """What is lost by always taking the shorter of two codewords N(means[k], sd²) with probabilities `weights`.

    >>> print(codeword_choice())
    the shorter codeword uses 0.841345 of the probability and wastes 0.273658 bits
    """
    where = "codeword_choice"
    factor = scale(unit, where)
    points = whole(where, "points", points, least=2)
    try:
        first, second = (float(mean) for mean in means)
    except (TypeError, ValueError):
        raise ArgumentError(
            f"{where}(means={means}): two numbers, the mean of each codeword",
            remedy="for example means=(-1, 1)",
        ) from None
    share = table(where, "weights", weights, 1)
    if len(share) != 2:
        raise ArgumentError(
            f"{where}(weights={weights}): {len(share)} weights of two codewords",
            remedy="give two that sum to 1, for example weights=(0.5, 0.5)",
        )
    if not 0 < sd < math.inf or not math.isfinite(first) or not math.isfinite(second) or (share == 0).any():
        raise ArgumentError(
            f"{where}(means={means}, sd={sd}): finite means, a positive sd and two positive weights"
        )
    centre, half = (first + second) / 2, abs(second - first) / 2 + 12 * sd
    x = np.linspace(centre - half, centre + half, points)
    logs = np.log(share) - np.square((x[:, None] - np.array([first, second])) / sd) / 2
    logs -= math.log(sd * math.sqrt(2 * math.pi))
    both, longer = logsumexp(logs, axis=1), logs.max(axis=1)
    crossing = math.nan
    if first != second:
        crossing = centre + sd**2 * math.log(share[0] / share[1]) / (second - first)
    used, density, waste = np.exp(longer), np.exp(both), (both - longer) * factor
    return CodewordChoice(
        unit,
        x,
        density,
        used,
        waste,
        _used_mass(first, second, sd, share, crossing),
        _mean_waste(np.array([first, second]), sd, share, crossing) * factor,
        crossing,
    )


def _mean_waste(means: np.ndarray, sd: float, share: np.ndarray, crossing: float) -> float:
    """The mean of log(density / used) in nats; smooth but for the crossing, at which the integral is cut."""

    def integrand(x: float) -> float:
        logs = np.log(share) - np.square((x - means) / sd) / 2
        both = float(logsumexp(logs))
        return math.exp(both) * (both - float(logs.max())) / (sd * math.sqrt(2 * math.pi))

    low, high = float(means.min()) - 12 * sd, float(means.max()) + 12 * sd
    cuts = sorted({low, high, *means.tolist(), *([crossing] if low < crossing < high else [])})
    return sum(quad(integrand, a, b, epsabs=1e-12)[0] for a, b in itertools.pairwise(cuts))


def _used_mass(first: float, second: float, sd: float, share: np.ndarray, crossing: float) -> float:
    """The integral of the larger density: each code up to where the other begins."""
    if math.isnan(crossing):
        return float(share.max())
    side = 1.0 if second > first else -1.0
    left, right = side * (crossing - first) / sd, side * (second - crossing) / sd
    return float(share[0] * ndtr(left) + share[1] * ndtr(right))


__all__ = ["CodewordChoice", "codeword_choice"]
