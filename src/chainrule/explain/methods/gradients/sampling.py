"""Means of slopes over random points, with their standard errors: sampled in blocks, put together without loss."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from chainrule.core.types import Array
from chainrule.explain.methods.functions import Function
from chainrule.explain.methods.gradients.base import Question, slopes


class SlopeMoments(NamedTuple):
    """Means over samples, and the sums of squared differences from them."""

    mean: Any
    squares: Any


def sampled_mean(
    question: Question, program: Callable[..., SlopeMoments], draws: tuple[np.ndarray, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """The mean over samples of what a program gives for each input, and its standard error.

    `program(f, x, outputs, *draws)` takes a block of inputs and a block of samples and gives their moments. Blocks have
    one size, so that it is compiled once, or twice where samples do not divide evenly.
    """
    count, x = len(draws[0]), question.x
    block = min(count, question.points_at_once)
    size = question.rows_at_once(block)
    mean, squares = np.zeros(x.shape), np.zeros(x.shape)
    for first in range(0, len(x), size):
        rows = np.minimum(np.arange(first, first + size), len(x) - 1)
        kept, seen = len(x) - first, 0
        for start in range(0, count, block):
            some = tuple(one[start : start + block] for one in draws)
            found = program(question.f, x[rows], question.outputs[rows], *some)
            new, more = (np.asarray(part, np.float64)[:kept] for part in found)
            here = slice(first, first + size)
            n = len(some[0])
            gap = new - mean[here]
            mean[here] += gap * n / (seen + n)
            squares[here] += more + gap**2 * seen * n / (seen + n)
            seen += n
    return mean, np.sqrt(squares / max(count - 1, 1) / count)


def slopes_at(f: Function, points: Array, outputs: Array) -> Array:
    """Slopes at points (samples, batch, ...), all in one reverse pass."""
    flat = points.reshape(math.prod(points.shape[:2]), *points.shape[2:])
    return slopes(f, flat, jnp.tile(outputs, len(points))).slopes.reshape(points.shape)


def moments(values: Array) -> SlopeMoments:
    """Those over the leading axis."""
    mean = values.mean(axis=0)
    return SlopeMoments(mean, jnp.square(values - mean[None]).sum(axis=0))


__all__ = ["SlopeMoments", "moments", "sampled_mean", "slopes_at"]
