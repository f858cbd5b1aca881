"""Channels: how much passes through at most, with a proof, and the textbook channels.

A channel is a matrix of probabilities of outputs given inputs, one row for each input. Blahut and Arimoto's iteration
raises a lower bound of the capacity at every step; an upper bound comes with it, and what is returned says how far
apart the two are.

Reference: Blahut, Computation of channel capacity and rate-distortion functions, and Arimoto, An algorithm for
computing the capacity of arbitrary discrete memoryless channels, both IEEE Transactions on Information Theory, 1972.
"""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy.special import xlogy

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.information.climbing import Climb, climb, tolerance
from chainrule.information.tables import rows
from chainrule.information.units import scale, takes_base


@final
@dataclass(frozen=True, eq=False)
class Capacity:
    """The capacity of a channel between two bounds."""

    value: float
    """The lower bound: the input distribution gets at least this much through."""
    gap: float
    """The capacity is at least `value` and at most `value + gap`."""
    input: np.ndarray
    """Probabilities of inputs that get this much through."""
    output: np.ndarray
    """Probabilities of outputs then."""
    iterations: int
    converged: bool
    """Whether the gap is within the tolerance."""
    bounds: np.ndarray
    """Lower and upper bound after each iteration, (iterations, 2)."""
    unit: str

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        return f"{self.value:.6f} {self.unit}, at most {self.gap:.1e} less than the capacity"


@takes_base
def capacity(channel: Any, tol: float = 1e-9, most: int = 100_000, unit: str = "bits") -> Capacity:
    """The most that a channel gets through per use, certified to `tol` (in the unit), in at most `most` iterations.

    >>> print(capacity(binary_symmetric(0.1)))
    0.531004 bits, at most 0.0e+00 less than the capacity
    >>> found = capacity(z_channel(0.5))
    >>> round(found.value, 6), found.input.round(4).tolist()
    (0.321928, [0.6, 0.4])
    """
    factor = scale(unit, "capacity")
    matrix = rows("capacity", "channel", channel)
    most = whole("capacity", "most", most)
    tol = tolerance("capacity", tol)
    found = _climbed(matrix[:, matrix.sum(axis=0) > 0], tol / factor, most)
    # One plain step more: its distribution gets at least the lower bound through.
    chances = found.weights * np.exp(found.log_ratio)
    chances /= chances.sum()
    gap = max(found.upper - found.value, 0.0)
    return Capacity(
        max(found.value, 0.0) * factor,
        gap * factor,
        chances,
        chances @ matrix,
        len(found.bounds),
        gap <= tol / factor,
        found.bounds * factor,
        unit,
    )


def _climbed(channel: np.ndarray, tol: float, most: int) -> Climb:
    """Raise log sum_x p(x) exp KL(row x, output), the least that the next plain step gets through, in nats."""
    negative_entropy = xlogy(channel, channel).sum(axis=1)

    def divergences(chances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        output = np.maximum(chances @ channel, 1e-300)
        return output, negative_entropy - channel @ np.log(output)

    def evaluate(chances: np.ndarray) -> tuple[float, np.ndarray]:
        _, divergence = divergences(chances)
        peak = divergence.max()
        passed = float(peak + np.log(chances @ np.exp(divergence - peak)))
        return passed, divergence - passed

    def newton(chances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        output, divergence = divergences(chances)
        scaled = channel / np.sqrt(output)
        curvature = scaled @ scaled.T
        # A little more on the diagonal holds steps back where inputs are copies of each other; the end is the same.
        curvature[np.diag_indices_from(curvature)] += 1e-9 * np.trace(curvature)
        root = np.linalg.cholesky(curvature)
        slope = divergence - chances @ divergence
        return root.T, np.linalg.solve(root, curvature @ chances + slope)

    return climb(evaluate, newton, len(channel), tol, most)


def binary_symmetric(error: float) -> np.ndarray:
    """Two symbols, each turned into the other with this probability.

    >>> binary_symmetric(0.25).tolist()
    [[0.75, 0.25], [0.25, 0.75]]
    """
    error = _chance("binary_symmetric", "error", error)
    return np.array([[1 - error, error], [error, 1 - error]])


def z_channel(error: float) -> np.ndarray:
    """Two symbols, of which only the second is turned into the first, with this probability.

    >>> z_channel(0.25).tolist()
    [[1.0, 0.0], [0.25, 0.75]]
    """
    error = _chance("z_channel", "error", error)
    return np.array([[1.0, 0.0], [error, 1 - error]])


def erasure(loss: float, symbols: int = 2) -> np.ndarray:
    """Symbols that arrive as they are, or are lost with this probability; the last output says that one was.

    >>> erasure(0.25).tolist()
    [[0.75, 0.0, 0.25], [0.0, 0.75, 0.25]]
    """
    loss = _chance("erasure", "loss", loss)
    symbols = whole("erasure", "symbols", symbols)
    return np.column_stack([(1 - loss) * np.eye(symbols), np.full(symbols, loss)])


def noisy_typewriter(
    letters: int = 64, width: int = 16, include_self: bool = False, circle: bool = True
) -> np.ndarray:
    """Letters that are mistaken for one of their `width` neighbours on each side, all equally likely.

    Neighbours lie on a circle, or on a line that ends (`circle=False`). Descriptions differ in whether a letter may
    come out right: `include_self`. With uniform letters it does not matter much; on a circle the mutual information is
    the logarithm of letters over neighbours.

    >>> noisy_typewriter(5, 1).tolist()[0]
    [0.0, 0.5, 0.0, 0.0, 0.5]
    >>> from chainrule.information import mutual_information
    >>> [round(mutual_information(noisy_typewriter(64, 16, itself) / 64), 6) for itself in (False, True)]
    [1.0, 0.955606]
    """
    letters, width = (
        whole("noisy_typewriter", name, value) for name, value in (("letters", letters), ("width", width))
    )
    if circle and 2 * width >= letters:
        raise ArgumentError(
            f"noisy_typewriter(width={width}): {letters} letters on a circle have fewer than {width} on each side",
            remedy=f"use a width of at most {(letters - 1) // 2}",
        )
    apart = np.abs(np.arange(letters)[:, None] - np.arange(letters)[None])
    apart = np.minimum(apart, letters - apart) if circle else apart
    near = (apart <= width) & ((apart > 0) | include_self)
    if not near.any(axis=1).all():
        raise ArgumentError(
            "noisy_typewriter(letters=1): a letter without neighbours has to come out as itself",
            remedy="include_self=True",
        )
    return near / near.sum(axis=1, keepdims=True)


def _chance(where: str, name: str, value: float) -> float:
    if not 0 <= value <= 1:
        raise ArgumentError(f"{where}({name}={value}): is a probability, between 0 and 1")
    return float(value)


__all__ = ["Capacity", "binary_symmetric", "capacity", "erasure", "noisy_typewriter", "z_channel"]
