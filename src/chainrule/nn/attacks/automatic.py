"""An iterated attack that finds its own step lengths: it halves them where the loss stops rising.

Croce and Hein, *Reliable evaluation of adversarial robustness with an ensemble of diverse parameter-free attacks*, ICML
2020 (arXiv:2003.01690): steps begin as long as the ball is wide, remember the step before, and go on from the best
point found so far whenever too few of them raised the loss. Every example has its own step length.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.types import Array, Key
from chainrule.nn.attacks.ball import NORMS, Bounds, inside
from chainrule.nn.attacks.gradient import Loss, Reached, started

KEPT = 0.75
"""Share of a step that is new; the rest is the step before."""
RISING = 0.75
"""Share of steps that must raise the loss for them to stay as long as they are."""
_FIRST, _SHORTER, _LEAST = 0.22, 0.03, 0.06
"""Shares of all steps: the first stretch, by how much each is shorter than the one before, the shortest."""


class _Climb(NamedTuple):
    """Where every example is; numbers of examples have axes of length one behind the batch."""

    at: Array
    before: Array
    value: Array
    slope: Array
    best: Array
    best_value: Array
    best_slope: Array
    size: Array
    rises: Array
    """Steps of this stretch that raised the loss."""
    best_then: Array
    """The highest loss at the start of this stretch."""
    halved: Array
    """Whether steps were halved at the start of this stretch."""


def stretches(steps: int) -> np.ndarray:
    """How many steps end with each step as a stretch; zero where none ends.

    >>> stretches(10).tolist()
    [0, 0, 3, 0, 2, 1, 1, 1, 1, 1]
    """
    ends, width, share = [], _FIRST, _FIRST
    while share <= 1:
        ends.append(min(steps, math.ceil(share * steps)))
        width = max(round(width - _SHORTER, 9), _LEAST)
        share = round(share + width, 9)  # hundredths, whatever their sums are in binary
    found = np.zeros(steps, np.int32)
    previous = 0
    for end in dict.fromkeys(ends):
        found[end - 1] = end - previous
        previous = end
    return found


def automatic(
    loss: Loss,
    x: Array,
    eps: Any,
    steps: int,
    *,
    norm: str = "inf",
    key: Key | None = None,
    bounds: Bounds | None = None,
) -> Reached:
    """The point of the ball with the highest loss on the way; `loss` gives one number for each example."""
    ball = NORMS[norm]
    column = (len(x), *(1,) * (x.ndim - 1))
    ends = jnp.asarray(stretches(steps))

    def judged(at: Array) -> tuple[Array, Array]:
        values, back = jax.vjp(loss, at)
        return values.reshape(column), back(jnp.ones_like(values))[0]

    def projected(at: Array) -> Array:
        return inside(x + ball.within(at - x, eps), bounds)

    def move(number: Array, now: _Climb) -> _Climb:
        ahead = projected(now.at + now.size * ball.steepest(now.slope))
        kept = jnp.where(number > 0, KEPT, 1.0)
        at = projected(now.at + kept * (ahead - now.at) + (1 - kept) * (now.at - now.before))
        value, slope = judged(at)
        better = value > now.best_value
        now = now._replace(
            at=at,
            before=now.at,
            value=value,
            slope=slope,
            best=jnp.where(better, at, now.best),
            best_value=jnp.where(better, value, now.best_value),
            best_slope=jnp.where(better, slope, now.best_slope),
            rises=now.rises + (value > now.value),
        )
        return _judged_stretch(now, ends[number])

    start = started(x, eps, ball, key, bounds)
    value, slope = judged(start)
    none = jnp.zeros(column, jnp.int32)
    size = jnp.broadcast_to(2 * jnp.asarray(eps, x.dtype), column)
    began = _Climb(
        *(start, start, value, slope, start, value, slope, size, none),
        best_then=value,
        halved=jnp.ones(column, bool),  # the first stretch has none before it to compare with
    )
    end = jax.lax.fori_loop(0, steps, move, began)
    return Reached(end.best, end.best_value.reshape(len(x)))


def _judged_stretch(now: _Climb, length: Array) -> _Climb:
    """At the end of a stretch (a length that is not zero): shorter steps from the best point where it went badly."""
    ended = length > 0
    stuck = ~now.halved & (now.best_value <= now.best_then)
    halve = ended & ((now.rises < RISING * length) | stuck)
    return now._replace(
        at=jnp.where(halve, now.best, now.at),
        before=jnp.where(halve, now.best, now.before),
        value=jnp.where(halve, now.best_value, now.value),
        slope=jnp.where(halve, now.best_slope, now.slope),
        size=jnp.where(halve, now.size / 2, now.size),
        rises=jnp.where(ended, 0, now.rises),
        best_then=jnp.where(ended, now.best_value, now.best_then),
        halved=jnp.where(ended, halve, now.halved),
    )


__all__ = ["automatic", "stretches"]
