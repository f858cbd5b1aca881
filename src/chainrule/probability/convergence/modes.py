"""Modes of convergence of a sequence of random variables on one sample space, by simulation.

Almost sure convergence implies that in probability, and this that in distribution; convergence in L^p implies that in
L^q for p >= q >= 1, and this that in probability. None of these can be turned round: `EXAMPLES` has the sequences.

Reference: Billingsley, Probability and Measure, 1995, sections 20 and 25.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Key

_FALLEN = 0.2
"""A curve that ends below this share of its largest value is said to fall."""
_ONE_PERCENT = 1.63
"""Two samples of n each differ by more than this times sqrt(2 / n) in one of a hundred cases (Kolmogorov)."""
_POINTS = 60


@final
class RandomSequence(NamedTuple):
    """Random variables X_1, X_2, ... and X, functions of one outcome each; all in JAX."""

    draw: Callable[[Key, int], Array]
    """From a key and a number to so many outcomes, first axis."""
    values: Callable[[Array, Array], Array]
    """From one outcome and n `[steps]` = 1, 2, ... to X_n `[steps]`."""
    limit: Callable[[Array], Array]
    """From one outcome to X, a number."""
    summary: str = ""


@final
class ModesReport(NamedTuple):
    """Curves `[len(n)]` that go to zero where the sequence converges in their mode."""

    n: np.ndarray
    in_probability: np.ndarray
    """P(|X_n - X| > epsilon)."""
    moment: np.ndarray
    """E |X_n - X|^p."""
    almost_sure: np.ndarray
    """Share of paths that are further than epsilon from X at n or any time after it, up to the last step."""
    kolmogorov: np.ndarray
    """Largest difference of the distribution functions of X_n and X."""
    wasserstein: np.ndarray
    """1-Wasserstein distance of X_n and X."""
    paths: int
    epsilon: float
    p: float

    def falls(self) -> Mapping[str, bool]:
        """For each mode whether its curve was seen to fall towards zero: evidence up to the last n, no proof.

        In distribution either distance will do: each of the two going to zero is enough, neither is needed.
        """
        noise = _ONE_PERCENT * math.sqrt(2 / self.paths)
        return {
            "almost surely": _falls(self.almost_sure),
            "in L^p": _falls(self.moment),
            "in probability": _falls(self.in_probability),
            "in distribution": _falls(self.wasserstein) or _falls(self.kolmogorov, noise),
        }


def modes(
    sequence: RandomSequence,
    key: Key,
    *,
    steps: int = 2000,
    paths: int = 2000,
    epsilon: float = 0.1,
    p: float = 1.0,
) -> ModesReport:
    """Simulate a sequence and follow how far X_n is from X, in every mode.

    Curves go to half of the `steps`, so that what still happens after n has time to show.

    >>> shrinking = RandomSequence(jax.random.normal, lambda omega, n: omega / n, lambda omega: 0 * omega)
    >>> all(modes(shrinking, jax.random.key(0), steps=200, paths=500).falls().values())
    True
    """
    steps = whole("modes", "steps", steps, least=20)
    paths = whole("modes", "paths", paths, least=10)
    if not epsilon > 0:
        raise ArgumentError(f"modes(epsilon={epsilon}): it must be above zero")
    if not p >= 1:
        raise ArgumentError(f"modes(p={p}): L^p needs p >= 1")
    outcomes = sequence.draw(key, paths)
    values, limit = _simulated(sequence.values, sequence.limit, outcomes, jnp.arange(1, steps + 1))
    x, end = np.asarray(values, np.float64), np.asarray(limit, np.float64)
    if x.shape != (paths, steps) or end.shape != (paths,):
        raise ArgumentError(
            f"modes: for {paths} outcomes values have shape {x.shape} and limits {end.shape}; they must be "
            f"{(paths, steps)} and {(paths,)}",
            remedy="values(omega, n) takes one outcome and gives one number for each n",
        )
    if not (np.isfinite(x).all() and np.isfinite(end).all()):
        raise ArgumentError(
            "modes: some X_n are NaN or infinite", remedy="look at values(omega, n) for small n"
        )
    apart = np.abs(x - end[:, None])
    later = np.maximum.accumulate(apart[:, ::-1], axis=1)[:, ::-1]
    n = np.unique(np.geomspace(1, steps // 2, _POINTS).round().astype(int))
    at = n - 1
    return ModesReport(
        n,
        (apart[:, at] > epsilon).mean(axis=0),
        (apart[:, at] ** p).mean(axis=0),
        (later[:, at] > epsilon).mean(axis=0),
        np.array([_kolmogorov(x[:, i], end) for i in at]),
        np.array([scipy.stats.wasserstein_distance(x[:, i], end) for i in at]),
        paths,
        epsilon,
        p,
    )


@eqx.filter_jit
def _simulated(values: Any, limit: Any, outcomes: Array, n: Array) -> tuple[Array, Array]:
    return jax.vmap(lambda omega: values(omega, n))(outcomes), jax.vmap(limit)(outcomes)


def _kolmogorov(x: np.ndarray, y: np.ndarray) -> float:
    """Largest difference of two empirical distribution functions, at any of the points."""
    both = np.concatenate([x, y])
    below = [np.searchsorted(np.sort(one), both, side="right") / len(one) for one in (x, y)]
    return float(np.abs(below[0] - below[1]).max())


def _falls(curve: np.ndarray, noise: float = 0.0) -> bool:
    """Whether the last tenth of a curve is far below its top, or no more than noise."""
    end = curve[-max(len(curve) // 10, 1) :].mean()
    return bool(end <= max(_FALLEN * curve.max(), noise))


__all__ = ["ModesReport", "RandomSequence", "modes"]
