"""Decisions on a Gaussian process: where to look next for the least value of a function that is costly to evaluate.

`SurrogateSearch` is asked for points and told their values: a Gaussian process of all values so far says what to try
next, by the improvement it expects, by what it could reach at best, or by the least of a drawn function. Values may be
anything, such as the validation loss of a run.

References: Jones, Schonlau, Welch, Efficient global optimization of expensive black-box functions, 1998; Srinivas et
al., Gaussian process optimization in the bandit setting, 2010; Thompson, 1933.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, final

import jax
import numpy as np
from jaxtyping import Float
from scipy.special import log_ndtr, ndtr
from scipy.stats import qmc

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, check_choice, suggest
from chainrule.core.types import Key
from chainrule.kernels.functions import Constant, Matern
from chainrule.kernels.gaussian_processes.posterior import GaussianProcessPosterior
from chainrule.kernels.gaussian_processes.process import GaussianProcess

STRATEGIES = ("expected-improvement", "confidence-bound", "thompson")
"""How a search decides where to look next."""
_CANDIDATES = 768
_NEAR = 256
"""Candidates around the best so far."""


def expected_improvement(mean: Any, variance: Any, best: Any) -> Float[np.ndarray, " points"]:
    """`E max(best - f, 0)` of values to be small, for normal f with this mean and variance.

    >>> expected_improvement([0.0, 1.0], [1.0, 0.0], 0.0).round(4).tolist()
    [0.3989, 0.0]
    """
    gain = best - np.asarray(mean, np.float64)
    deviation = _deviation("expected_improvement", variance)
    z = np.divide(gain, deviation, out=np.zeros_like(gain + deviation), where=deviation > 0)
    sure = np.maximum(gain, 0.0)
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    return np.where(deviation > 0, gain * ndtr(z) + deviation * density, sure)


def probability_of_improvement(mean: Any, variance: Any, best: Any) -> Float[np.ndarray, " points"]:
    """`P(f < best)` for normal f with this mean and variance; without variance it is 0 or 1.

    >>> probability_of_improvement([0.0, 1.0], [1.0, 0.0], 0.0).tolist()
    [0.5, 0.0]
    """
    gain = best - np.asarray(mean, np.float64)
    deviation = _deviation("probability_of_improvement", variance)
    z = np.divide(gain, deviation, out=np.zeros_like(gain + deviation), where=deviation > 0)
    return np.where(deviation > 0, np.exp(log_ndtr(z)), (gain > 0).astype(np.float64))


def confidence_bound(mean: Any, variance: Any, width: float = 2.0) -> Float[np.ndarray, " points"]:
    """The lower confidence bound `mean - width * deviation`: the least that a value may well be."""
    return np.asarray(mean, np.float64) - width * _deviation("confidence_bound", variance)


def _deviation(where: str, variance: Any) -> np.ndarray:
    """The root of one variance or of one for each point, none of them negative."""
    exact = np.asarray(variance, np.float64)
    if not (exact >= 0).all():
        raise ArgumentError(f"{where}(variance): variances are numbers of at least 0")
    return np.asarray(np.sqrt(exact))


@final
@dataclass(frozen=True)
class SurrogateSearch:
    """A search for the least value over a box, which is asked for points and told their values.

    `bounds` are the ends of every variable by name; those in `logarithmic` are searched by their logarithm. The first
    `begin` points are spread evenly.

    >>> search = SurrogateSearch({"x": (-2.0, 2.0)}, begin=4)
    >>> for step in range(8):
    ...     point = search.ask(jax.random.key(step))
    ...     search = search.tell(point, (point["x"] - 0.7) ** 2)
    >>> abs(search.best[0]["x"] - 0.7) < 0.1
    True
    """

    bounds: Mapping[str, tuple[float, float]]
    strategy: str = "expected-improvement"
    logarithmic: tuple[str, ...] = ()
    begin: int = 6
    width: float = 2.0
    """Of confidence bounds, in standard deviations."""
    points: tuple[tuple[float, ...], ...] = field(default=())
    """What was tried, as positions in the unit cube."""
    values: tuple[float, ...] = field(default=())
    """What came of it; infinity where that was no finite number."""

    def __post_init__(self) -> None:
        check_choice("SurrogateSearch", "strategy", self.strategy, STRATEGIES)
        whole("SurrogateSearch", "begin", self.begin, least=2)
        if not self.bounds:
            raise ArgumentError("SurrogateSearch(bounds): there is nothing to vary")
        for name, (low, high) in self.bounds.items():
            if not -np.inf < low < high < np.inf or (name in self.logarithmic and low <= 0):
                wanted = "0 < low < high" if name in self.logarithmic else "low < high"
                raise ArgumentError(
                    f"SurrogateSearch(bounds[{name!r}] = ({low:g}, {high:g})): {wanted} is needed"
                )
        for name in self.logarithmic:
            if name not in self.bounds:
                raise ArgumentError(
                    f"SurrogateSearch(logarithmic): no variable {name!r}{suggest(name, self.bounds)}"
                )

    def ask(self, key: Key) -> dict[str, float]:
        """The next point to try."""
        if len(self.values) < self.begin:
            even = qmc.Sobol(len(self.bounds), scramble=True, rng=0).random(_power_of_two(self.begin))
            return self._named(even[len(self.values)])
        for_rest, for_path = jax.random.split(key)
        drawn = np.random.default_rng(np.asarray(jax.random.bits(for_rest, (4,))))
        candidates = drawn.random((_CANDIDATES, len(self.bounds)))
        best = np.array(self.points)[int(np.argmin(self.values))]
        spread = 10.0 ** -drawn.uniform(1, 3, (_NEAR, 1))
        near = best[None] + spread * drawn.normal(size=(_NEAR, len(best)))
        candidates = np.concatenate([candidates, np.clip(near, 0, 1)])
        return self._named(candidates[int(np.argmax(self._worth(candidates, for_path)))])

    def tell(self, point: Mapping[str, float], value: float) -> "SurrogateSearch":
        """The search that knows the value of a point; one that is not finite counts as the worst of all."""
        if set(point) != set(self.bounds):
            raise ArgumentError(f"tell(point): {sorted(point)} are not the variables {sorted(self.bounds)}")
        number = float(value)
        number = number if np.isfinite(number) else np.inf
        return replace(self, points=(*self.points, self._position(point)), values=(*self.values, number))

    @property
    def best(self) -> tuple[dict[str, float], float]:
        """The point with the least value so far, and that value."""
        if not self.values:
            raise ArgumentError(
                "SurrogateSearch.best: nothing was tried so far", remedy="tell it the value of a point"
            )
        least = int(np.argmin(self.values))
        if np.isinf(self.values[least]):
            raise ArgumentError(
                f"SurrogateSearch.best: none of {len(self.values)} values so far is finite",
                remedy="ask for further points, or narrow the bounds",
            )
        return self._named(np.array(self.points[least])), self.values[least]

    def posterior(self) -> GaussianProcessPosterior:
        """What is known so far, of positions in the unit cube and of standardised values."""
        x, y = np.array(self.points), np.array(self.values)
        known = np.isfinite(y)
        y = np.where(known, y, y[known].max() if known.any() else 0.0)
        y = (y - y.mean()) / max(float(y.std()), 1e-12)
        scales = np.full(x.shape[1], 0.5)
        process = GaussianProcess(Constant(1.0) * Matern(2.5, scales), 1e-3)
        bounds = {"scale": (0.02, 20.0), "value": (0.05, 20.0), "noise": (1e-6, 1.0)}
        return process.fit(x, y).optimize(restarts=1, bounds=bounds, warn=False)

    def _worth(self, candidates: np.ndarray, key: Key) -> np.ndarray:
        known = self.posterior()
        if self.strategy == "thompson":
            return -known.sample(key, candidates)[0]
        mean, variance = known.predict(candidates, "latent")
        if self.strategy == "confidence-bound":
            return -confidence_bound(mean, variance, self.width)
        # The best is what the function is thought to be there, so that lucky noise is not chased.
        best = known.predict(np.array(self.points), "latent").mean.min()
        return expected_improvement(mean, variance, best)

    def _named(self, position: np.ndarray) -> dict[str, float]:
        found = {}
        for share, (name, (low, high)) in zip(position, self.bounds.items(), strict=True):
            if name in self.logarithmic:
                found[name] = float(low * (high / low) ** share)
            else:
                found[name] = float(low + (high - low) * share)
        return found

    def _position(self, point: Mapping[str, float]) -> tuple[float, ...]:
        found = []
        for name, (low, high) in self.bounds.items():
            value = float(point[name])
            slack = 1e-9 * (high - low)
            if not low - slack <= value <= high + slack:
                raise ArgumentError(f"tell(point): {name} = {value:g} lies outside of {low:g} to {high:g}")
            if name in self.logarithmic:
                found.append(float(np.log(value / low) / np.log(high / low)))
            else:
                found.append((value - low) / (high - low))
        return tuple(found)


def _power_of_two(count: int) -> int:
    return 1 << (count - 1).bit_length()


__all__ = [
    "STRATEGIES",
    "SurrogateSearch",
    "confidence_bound",
    "expected_improvement",
    "probability_of_improvement",
]
