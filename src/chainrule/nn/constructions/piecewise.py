"""Piecewise-linear functions of one variable as networks, exactly, and back.

With knots t_0 < ... < t_p and slopes lam_0 ... lam_(p+1),

    f(x) = lam_0 x + (f(t_0) - lam_0 t_0) + sum over l of (lam_(l+1) - lam_l) relu(x - t_l),

and lam_0 x = relu(lam_0 x) - relu(-lam_0 x): one hidden layer of at most p + 3 units. The way back works for a
network of one input and any depth: its pieces are followed layer by layer, in double precision on the host.
"""

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.nn.constructions.network import Network, affine, numbers

SLOPES = {"identity": 1.0, "relu": 0.0, "leaky-relu": 0.01}
"""Slope of a piecewise-linear activation on the negative side; it is one on the positive side."""
_SAME = 1e-9
"""Slopes that differ by less than this share of the largest are one slope."""


@final
@dataclass(frozen=True)
class PiecewiseLinear:
    """A continuous piecewise-linear function: its knots, the slopes around them and its value at the first knot.

    >>> f = PiecewiseLinear([-1, 0, 2], [-1, 2, -0.5, 3], 1.0)
    >>> f(np.array([-3.0, 0.0, 1.0, 5.0])).tolist()
    [3.0, 3.0, 2.5, 11.0]
    """

    knots: np.ndarray
    slopes: np.ndarray
    value: float
    """At the first knot; without knots, at zero."""

    def __init__(self, knots: Any, slopes: Any, value: float) -> None:
        knots, slopes = np.asarray(knots, dtype=np.float64), np.asarray(slopes, dtype=np.float64)
        if knots.ndim == 2:
            raise ArgumentError(
                f"knots of shape {knots.shape}: one hidden layer cannot write every piecewise-linear function of "
                f"{knots.shape[1]} inputs",
                remedy="write it with two hidden layers or more: constructions.maximum(weights, biases)",
            )
        if knots.ndim != 1 or slopes.shape != (len(knots) + 1,):
            raise ArgumentError(
                f"{knots.size} knots need {knots.size + 1} slopes (one before, between and after), not {slopes.size}"
            )
        if not np.isfinite(knots).all() or not np.isfinite(slopes).all() or not np.isfinite(value):
            raise ArgumentError(
                f"knots={knots.tolist()}, slopes={slopes.tolist()}, value={value}: all must be finite"
            )
        if (np.diff(knots) <= 0).any():
            raise ArgumentError(f"knots={knots.tolist()}: they must increase, each once", remedy="sort them")
        object.__setattr__(self, "knots", knots)
        object.__setattr__(self, "slopes", slopes)
        object.__setattr__(self, "value", float(value))

    def __call__(self, x: Any) -> np.ndarray:
        """Values, in double precision."""
        x = np.asarray(x, dtype=np.float64)
        start = self.knots[0] if len(self.knots) else 0.0
        bends = np.diff(self.slopes)[:, None] * np.maximum(x.ravel()[None, :] - self.knots[:, None], 0.0)
        return (self.value + self.slopes[0] * (x.ravel() - start) + bends.sum(axis=0)).reshape(x.shape)


@final
@dataclass(frozen=True)
class LinearPieces:
    """The affine pieces of a network of one input: breaks between them, slopes and intercepts of every output."""

    breaks: np.ndarray
    slopes: np.ndarray
    """Shape (pieces, outputs)."""
    intercepts: np.ndarray

    def __len__(self) -> int:
        return len(self.slopes)


def compile_piecewise(function: PiecewiseLinear) -> Network:
    """The network of one hidden layer that computes the function.

    >>> network = compile_piecewise(PiecewiseLinear([-1, 0, 2], [-1, 2, -0.5, 3], 1.0))
    >>> network.sizes
    (1, 5, 1)
    """
    bends = np.diff(function.slopes)
    knots = function.knots[bends != 0]
    bends = bends[bends != 0]
    first = function.slopes[0]
    start = function.knots[0] if len(function.knots) else 0.0
    straight = [first, -first] if first else []
    weight = np.concatenate([straight, np.ones(len(knots))])[None, :]
    bias = np.concatenate([np.zeros(len(straight)), -knots])
    out = np.concatenate([[1.0, -1.0][: len(straight)], bends])[:, None]
    offset = function.value - first * start
    return Network([affine(weight, bias), affine(out, [offset])], ["relu", "identity"])


def extract(network: Network) -> PiecewiseLinear:
    """Knots and slopes of a network with one input and one output, of any depth.

    >>> tent = PiecewiseLinear([0.0, 0.5], [0.0, 2.0, -2.0], 0.0)
    >>> extract(compile_piecewise(tent)).slopes.tolist()
    [0.0, 2.0, -2.0]
    """
    if network.sizes[-1] != 1:
        raise ArgumentError(
            f"extract: the network has {network.sizes[-1]} outputs",
            remedy="use pieces(network), which gives all of them",
        )
    found = pieces(network)
    slopes, intercepts = found.slopes[:, 0], found.intercepts[:, 0]
    start = found.breaks[0] if len(found.breaks) else 0.0
    return PiecewiseLinear(found.breaks, slopes, float(slopes[0] * start + intercepts[0]))


def pieces(network: Network, *, merge: bool = True) -> LinearPieces:
    """The pieces of a network with one input; without `merge`, its activation regions, equal neighbours included."""
    if network.sizes[0] != 1:
        raise ArgumentError(
            f"pieces: the network has {network.sizes[0]} inputs, not one",
            remedy="restrict it to a line first: regions.along(network, start, direction)",
        )
    breaks = np.zeros(0)
    slopes, intercepts = np.ones((1, 1)), np.zeros((1, 1))
    for layer, name in zip(network.layers, network.activations, strict=True):
        if name not in SLOPES:
            raise ArgumentError(
                f"pieces: a network with {name} is not piecewise linear and continuous",
                remedy=f"its activations must be among {', '.join(SLOPES)}",
            )
        weight, bias = numbers(layer)
        slopes, intercepts = slopes @ weight, intercepts @ weight + bias[None, :]
        if name != "identity":
            breaks, slopes, intercepts = _bend(breaks, slopes, intercepts, SLOPES[name])
    return _merged(breaks, slopes, intercepts) if merge else LinearPieces(breaks, slopes, intercepts)


def _bend(
    breaks: np.ndarray, slopes: np.ndarray, intercepts: np.ndarray, negative: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The pieces after an activation: new breaks where a unit crosses zero inside a piece."""
    low, high = np.append(-np.inf, breaks), np.append(breaks, np.inf)
    steep = slopes != 0
    crossing = np.where(steep, -intercepts / np.where(steep, slopes, 1.0), np.nan)
    inside = steep & (crossing > low[:, None]) & (crossing < high[:, None])
    every = np.unique(np.concatenate([breaks, crossing[inside]]))
    # Two units that cross at one point do so at points that differ by rounding.
    every = every[np.diff(every, prepend=-np.inf) > 1e-12 * np.maximum(1.0, np.abs(every))]
    middle = _middles(every)
    old = np.searchsorted(breaks, middle)
    slopes, intercepts = slopes[old], intercepts[old]
    factor = np.where(slopes * middle[:, None] + intercepts > 0, 1.0, negative)
    return every, slopes * factor, intercepts * factor


def _middles(breaks: np.ndarray) -> np.ndarray:
    """A point inside every piece."""
    if not len(breaks):
        return np.zeros(1)
    return np.concatenate([[breaks[0] - 1.0], (breaks[:-1] + breaks[1:]) / 2, [breaks[-1] + 1.0]])


def _merged(breaks: np.ndarray, slopes: np.ndarray, intercepts: np.ndarray) -> LinearPieces:
    scale = max(float(np.abs(slopes).max()), np.finfo(float).tiny)
    differ = (np.abs(np.diff(slopes, axis=0)) > _SAME * scale).any(axis=1)
    keep = np.append(True, differ)
    return LinearPieces(breaks[differ], slopes[keep], intercepts[keep])


__all__ = ["SLOPES", "LinearPieces", "PiecewiseLinear", "compile_piecewise", "extract", "pieces"]
